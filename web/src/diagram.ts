// Draws one diagram of Mermaid, in a frame that has no origin, no network and no access to the page: the source is the
// text of a model. The page sends {source, dark}; the frame answers {svg size} or {error}.
import mermaid from 'mermaid';

addEventListener('message', async (event: MessageEvent) => {
  if (event.source !== parent) return;
  const {source, dark} = event.data as {source: string; dark: boolean};
  // The frame is transparent if its scheme is the page's.
  document.documentElement.style.colorScheme = dark ? 'dark' : 'light';
  mermaid.initialize({
    startOnLoad: false, securityLevel: 'strict', theme: dark ? 'dark' : 'default', htmlLabels: false,
    suppressErrorRendering: true, fontFamily: 'system-ui, sans-serif',
  });
  try {
    const {svg} = await mermaid.render('diagram', source);
    document.body.innerHTML = svg;
    document.body.style.margin = '0';
    const box = document.querySelector('svg')!.getBoundingClientRect();
    parent.postMessage({width: box.width, height: box.height}, '*');
  } catch (error) {
    parent.postMessage({error: String((error as Error).message ?? error)}, '*');
  }
});
parent.postMessage({ready: true}, '*');
