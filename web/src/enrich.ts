// Code with colours and a button, formulas and diagrams: parts of the page that are loaded when a text needs them.
import DOMPurify from 'dompurify';
import {t} from './i18n';
import {copy} from './clipboard';

const MAX_HIGHLIGHTED = 100_000;  // characters of a code block

/// Replaces what markdown.ts made of code and formulas by what a reader wants to see.
export function enrich(root: Element) {
  for (const pre of all(root, 'pre.code')) decorate(pre as HTMLPreElement);
  const formulas = all(root, 'span.math');
  if (formulas.length) void drawFormulas(formulas as HTMLElement[]);
}

function all(root: Element, selector: string): Element[] {
  return [...(root.matches(selector) ? [root] : []), ...root.querySelectorAll(selector)];
}

function button(text: string, act: (button: HTMLButtonElement) => void): HTMLButtonElement {
  const out = document.createElement('button');
  out.type = 'button';
  out.textContent = text;
  out.addEventListener('click', () => act(out));
  return out;
}

function decorate(pre: HTMLPreElement) {
  if (pre.parentElement?.classList.contains('code-box')) return;
  const language = pre.title.toLowerCase();
  pre.removeAttribute('title');
  pre.tabIndex = 0;
  const code = pre.querySelector('code')!;
  const box = document.createElement('figure');
  box.className = 'code-box';
  const bar = document.createElement('figcaption');
  const label = document.createElement('span');
  label.textContent = language || t('text');
  bar.append(label, button(t('Copy'), (b) => void copy(code.textContent ?? '', b)));
  pre.replaceWith(box);
  box.append(bar, pre);
  if (language === 'mermaid') {
    bar.insertBefore(button(t('Show the diagram'), (b) => showDiagram(box, code.textContent ?? '', b)), bar.lastChild);
  }
  if (language && (code.textContent ?? '').length <= MAX_HIGHLIGHTED) void highlight(code, language);
}

async function highlight(code: Element, language: string) {
  const {default: hljs} = await import('highlight.js/lib/common');
  if (!hljs.getLanguage(language)) return;
  // The library's output is HTML; its classes are put around the text here instead, node by node.
  const {value} = hljs.highlight(code.textContent ?? '', {language, ignoreIllegals: true});
  code.replaceChildren(DOMPurify.sanitize(value, {
    ALLOWED_TAGS: ['span'], ALLOWED_ATTR: ['class'], RETURN_DOM_FRAGMENT: true,
  }) as unknown as DocumentFragment);
}

async function drawFormulas(formulas: HTMLElement[]) {
  const [{default: katex}] = await Promise.all([import('katex'), import('katex/dist/katex.min.css')]);
  for (const formula of formulas) {
    const source = formula.textContent ?? '';
    try {
      // Makes elements, not HTML; links and images of the formula are not trusted.
      katex.render(source, formula, {
        displayMode: formula.classList.contains('display'), throwOnError: true, trust: false, maxExpand: 200, maxSize: 50,
        strict: 'ignore',
      });
    } catch {
      formula.textContent = source;
      formula.classList.add('failed');
    }
  }
}

/// A frame without an origin: Mermaid's code reads a text of the model, and can reach neither the page nor a network.
function showDiagram(box: HTMLElement, source: string, trigger: HTMLButtonElement) {
  const old = box.querySelector('.diagram');
  if (old) {
    old.remove();
    trigger.textContent = t('Show the diagram');
    return;
  }
  const frame = document.createElement('iframe');
  frame.className = 'diagram';
  frame.title = t('Diagram');
  frame.setAttribute('sandbox', 'allow-scripts');
  frame.src = 'studio/diagram.html';
  const receive = (event: MessageEvent) => {
    if (event.source !== frame.contentWindow) return;
    if (event.data.ready) {
      const dark = getComputedStyle(document.documentElement).colorScheme === 'dark' ||
          (document.documentElement.dataset.theme !== 'light' && matchMedia('(prefers-color-scheme: dark)').matches);
      frame.contentWindow?.postMessage({source, dark}, '*');
    } else if (typeof event.data.height === 'number') {
      frame.height = String(Math.min(2000, Math.ceil(event.data.height) + 4));
    } else {
      frame.remove();
      trigger.textContent = t('This is no diagram of Mermaid.');
      trigger.disabled = true;
    }
  };
  addEventListener('message', receive);
  box.append(frame);
  trigger.textContent = t('Hide the diagram');
}
