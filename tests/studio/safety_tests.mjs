// Hostile texts: no script runs, no element of theirs appears, and no request leaves for another host.
import assert from 'node:assert/strict';
import {writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import {DIAGRAMS, MORE_DIAGRAMS, TEXTS, textsOf} from './hostile_payloads.mjs';
import {wait} from './support.mjs';

const foreign = (page, server) =>
  page.requests.filter((url) => !url.startsWith(server.url) && !url.startsWith('data:') && !url.startsWith('blob:') && url !== 'about:blank');

/// What is in the answer that should not be.
const findings = () => {
  const out = [];
  for (const element of document.querySelectorAll('.message *')) {
    const name = element.localName;
    if (element.closest('.katex')) {
      if (/^(a|img|image|script|iframe)$/.test(name)) out.push(element.outerHTML.slice(0, 200));
    } else if (!/^(p|br|hr|strong|em|s|code|pre|blockquote|ul|ol|li|a|img|h[1-6]|table|thead|tbody|tr|th|td|div|span|button|figure|figcaption|iframe)$/.test(name)) {
      out.push(element.outerHTML.slice(0, 200));
    }
    for (const {name: attribute, value} of element.attributes) {
      if (/^on/i.test(attribute) || (attribute === 'style' && !element.closest('.katex'))) out.push(element.outerHTML.slice(0, 200));
      if (/^(href|src)$/.test(attribute) && name !== 'a' && name !== 'iframe' && !/^data:image\/(png|jpeg|gif|webp)/.test(value)) out.push(`${name} ${value}`);
      if (attribute === 'href' && /^\s*(javascript|vbscript|data|file|blob):/i.test(element.href)) out.push(`${name} ${value}`);
    }
  }
  return out;
};

/// Elements and attributes anywhere in the page that are not its own.
const strangers = () => [...document.body.querySelectorAll('*')].filter((element) => {
  const name = element.localName;
  if (element.closest('.katex, .uplot')) return /^(a|img|image|script|iframe|foreignobject)$/i.test(name);
  if ([...element.attributes].some((a) => /^on|^(action|formaction|srcdoc|srcset|ping|background)$/i.test(a.name))) return true;
  if (name === 'img') return !/^(favicon\.ico$|data:image\/(png|jpeg|gif|webp))/.test(element.getAttribute('src'));
  if (name === 'a') return !element.matches('.skip, .markdown a');
  if (name === 'svg' || name === 'path') return !element.closest('svg.icon');
  return /^(script|style|link|meta|base|iframe|object|embed|audio|video|source|picture|math|template|frame|portal|animate|use|image)$/.test(name);
}).map((element) => element.outerHTML.slice(0, 200));

/// Texts for places that show few; one of each kind of markup.
const SOME = ['<img src=x onerror=pwned=1>', '"><script>pwned=1</script>', '![x](https://evil.test/x.png)', "' onmouseover='pwned=1", 'javascript:pwned=1'];

async function harmless(page, server) {
  // The handler of an image that is not there runs after those of the images before it.
  await page.evaluate(() => new Promise((resolve) => {
    const later = new Image();
    later.onerror = () => requestAnimationFrame(() => requestAnimationFrame(resolve));
    later.src = 'studio/missing.png';
  }));
  assert.deepEqual(await page.evaluate(strangers), []);
  assert.equal(await page.evaluate(() => typeof pwned), 'undefined');
  assert.deepEqual(foreign(page, server), []);
}

/// Passages and steps of an orchestrated answer, each with a hostile text wherever there is one.
const passages = (texts) => texts.map((text, i) => ({
  n: i + 1, name: text, document: text, title: text, place: text, collection: text, text, quote: text, relevance: 0.5, cited: i % 2 === 0,
}));
const steps = (text) => [
  {name: text, seconds: 0.1, reasons: [text], text}, {name: 'route', seconds: 0.1, mode: text, intent: text, pipeline: text, reasons: [text, {toString: text}]},
  {name: 'retrieve', seconds: 0.1, verdict: text, sources: [text]}, {name: 'step', seconds: 0.1, step: text, state: text, text},
  {name: 'tool', seconds: 0.1, tool: text, outcome: text}, {name: 'search', seconds: 0.1, round: text, scores: [text]}, {name: 'gate', seconds: 0.1, score: text},
];

/// Values of the wrong type, as in a file that was made to break the page.
const WRONG = [
  {toolCalls: 'x', sources: {}, steps: 'x', tokens: 5, usage: 'x', error: {}, model: ['x']}, {toolCalls: [null, 1, {name: {}}], sources: [null, 'x', {n: {}}]},
  {steps: [{}, null, {name: 'route', details: {reasons: [{toString: 1}], mode: {}}}], tokens: [{text: 1, top: 'x'}, {text: 'a', logprob: 'b', top: [['x']]}]}, null, 'x', [],
  {type: 'img', props: {src: 'https://evil.test/x', dangerouslySetInnerHTML: {__html: '<img src=x onerror=pwned=1>'}}, constructor: null},
];

async function drawHostile({page, server}, diagrams) {
  await page.send('go on');
  (await server.next()).answer(diagrams.map((d) => `\`\`\`mermaid\n${d}\n\`\`\`\n`).join('\n'));
  await page.idle();
  for (let i = 0; i < diagrams.length; ++i) {
    await page.evaluate((at) => document.querySelectorAll('figcaption button:first-of-type')[at].click(), i);
    await page.waitFor((at) => {
      const box = document.querySelectorAll('.code-box')[at];
      return box.querySelector('iframe[height]') || box.querySelector('button:disabled');
    }, i);
  }
  for (const frame of page.tab.frames()) {
    assert.equal(await frame.evaluate(() => typeof pwned), 'undefined');
    if (frame !== page.tab.mainFrame()) assert.equal(await frame.evaluate(() => origin), 'null');
  }
  // The policy of the frame stops what Mermaid would load; the browser reports the attempt as a request without an answer.
  const made = server.requests.filter((path) => path.includes('evil'));
  assert.deepEqual(made, []);
  page.violations = [];
}

export const safetyTests = {
  async hostile_texts_do_nothing({page, server}, {draw}) {
    assert.ok(TEXTS.length >= 230, `${TEXTS.length} texts`);
    const texts = textsOf(draw);
    for (let i = 0; i < texts.length; i += 40) {
      await page.click('#reset');
      await page.send('go on');
      const generation = await server.next();
      // As it comes and as a whole: blocks are drawn while they are incomplete.
      for (const text of texts.slice(i, i + 40)) {
        generation.say(text.slice(0, text.length / 2));
        generation.say(`${text.slice(text.length / 2)}\n\n`);
      }
      generation.reason(texts.slice(i, i + 40).join('\n'));
      generation.finish();
      await page.idle();
      await page.press_button('.reasoning summary');
      await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 300)));  // formulas and colours are drawn
      assert.deepEqual(await page.evaluate(findings), []);
    }
    // Each once more on its own, from the user, in a title and as a tool's name and result.
    for (const text of ['<img src=x onerror=pwned=1>', '[x](javascript:pwned=1)', '"><script>pwned=1</script>']) {
      await page.click('#reset');
      await page.send(text);
      const generation = await server.next();
      generation.call(text, text);
      generation.finish('tool_calls', {prompt_tokens: 1, completion_tokens: 1});
      await page.idle();
      assert.deepEqual(await page.evaluate(() => document.querySelectorAll('.message img, .message script, .message a').length), 0);
    }
    assert.equal(await page.evaluate(() => typeof pwned), 'undefined');
    assert.deepEqual(foreign(page, server), []);
  },

  async hostile_passages_and_steps_are_text({page, server}, {draw}) {
    const texts = textsOf(draw);
    await page.send('go on');
    const generation = await server.next();
    const odo = (more) => generation.event({choices: [{index: 0, delta: {}, finish_reason: null}], odo: more});
    for (const text of texts) odo({step: steps(text)[0]});
    for (const text of SOME) for (const step of steps(text)) odo({step});
    odo({step: {name: {}, seconds: 'x', reasons: 'x'}});
    generation.say(`${texts.map((_, i) => `[${i + 1}]`).join(' ')} [0] [-1] [1<img src=x onerror=pwned=1>]`);
    odo({passages: SOME[0], mode: SOME[1], sources: [...passages(texts), null, 'x', {n: SOME[0], name: {}, text: ['x']}]});
    generation.finish();
    await page.idle();
    await page.waitFor((n) => document.querySelectorAll('.cite').length > n, texts.length - 1);
    await page.evaluate(() => { for (const box of document.querySelectorAll('.message-bar, details')) box.open = true; });
    await page.evaluate(() => document.querySelectorAll('.cite')[3].click());
    assert.ok(await page.evaluate(() => document.querySelector('.sources').textContent.includes('<script>pwned=1</script>')));
    await harmless(page, server);
    await wait(() => [...server.conversations.values()][0]?.messages.at(-1)?.data.sources);
    await page.tab.reload();
    await page.tab.waitForSelector('.sources');
    await harmless(page, server);
  },

  async hostile_names_are_text_in_every_view({page, server}, {draw}) {
    const texts = textsOf(draw);
    server.passage = {note: SOME[0], title: SOME[1], place: SOME[2]};
    for (const text of texts) server.collections.set(text, new Map([[text, `${text} secret`]]));
    SOME.forEach((text, i) => server.conversations.set(`c${i}`, {
      id: `c${i}`, title: text, folder: text, pinned: i === 1, leaf: '', created: 1, updated: 2, messages: [], excerpt: `${text}\x02${text}\x03${text}`,
    }));
    server.model = SOME;
    await page.tab.reload();
    await page.waitFor((n) => document.querySelectorAll('#model option').length === n, SOME.length);
    await page.fill('#search', SOME[0]);
    await page.waitFor(() => document.querySelector('.entry mark'));
    await harmless(page, server);
    await page.press_button('#view-collections');
    await page.waitFor((n) => document.querySelectorAll('.open-collection').length === n, texts.length);
    await page.press_button('.open-collection');
    await page.fill('#collection-query', 'secret');
    await page.press('Enter');
    await page.tab.waitForSelector('.passage');
    await page.tab.$eval('#collection-files', (element, name) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([new Uint8Array([0, 1])], name));
      element.files = transfer.files;
      element.dispatchEvent(new Event('change', {bubbles: true}));
    }, SOME[0]);
    await page.shows(`'${SOME[0]}' is no document.`, '#collection-report');
    await harmless(page, server);
    for (const view of ['compare', 'tokens', 'server']) {
      await page.press_button(`#view-${view}`);
      await page.tab.waitForSelector('.view h2');
      await harmless(page, server);
    }
    // A model's name beside its answer, an error's sentence, and a tool's name, arguments and result.
    for (const text of SOME) {
      await page.press_button('#reset');
      await page.send(text);
      const generation = await server.next();
      generation.model = text;
      generation.call(text, text);
      generation.finish('tool_calls', {prompt_tokens: 1, completion_tokens: 1});
      await page.idle();
      await page.type(text, '.tool-call textarea');
      await page.press_button('.tool-call button.primary');
      (await server.next()).refuse(400, {message: text});
      await page.shows(`${text} This turn is not part`);
      await page.idle();
      await harmless(page, server);
    }
    await page.press('Control+,');
    await page.fill('#json-schema', JSON.stringify({type: SOME[0], $ref: `#/${SOME[1]}`, properties: {[SOME[0]]: 1}}));
    await page.shows('is no type', '#json-schema-help');
    await harmless(page, server);
  },

  async a_hostile_file_becomes_a_conversation_of_texts({page, server}, {folder, draw}) {
    const texts = textsOf(draw);
    const data = ([text, ...more]) => ({
      model: text, error: text, finish: text, verdict: text, mode: text, toolCallId: text, sources: passages([text, ...more]),
      toolCalls: [text, ...more].map((t) => ({id: t, name: t, arguments: t})), tokens: [{text, logprob: -1, top: [[text, -1]]}],
      usage: {prompt: text}, totalMs: 1, steps: steps(text).map(({name, seconds, ...details}) => ({name, seconds, details})),
    });
    const file = join(folder, 'hostile.json');
    const groups = Array.from({length: Math.ceil(texts.length / 6)}, (_, i) => texts.slice(6 * i, 6 * i + 6));
    const id = (i) => `${i}"><img src=x onerror=pwned=1>`;
    const messages = [...groups.map(data), ...WRONG].map((d, i) => ({
      id: id(i), parent: i ? id(i - 1) : '', created: i + 1, role: groups[i] ? ['assistant', 'tool', 'assistant', 'user', SOME[i % SOME.length]][i % 5] : 'assistant',
      content: groups[i]?.join('\n\n') ?? 'x', reasoning: groups[i]?.join('\n'), data: d,
    }));
    await writeFile(file, JSON.stringify({
      format: 'chimere-conversation', title: SOME[0], folder: SOME[1], leaf: messages.at(-1).id, data: {choices: SOME}, messages: [null, ...messages, 'x', {id: {}, content: {}}],
    }));
    await (await page.tab.$('.foot input[type=file]')).uploadFile(file);
    await page.tab.waitForSelector('.turn');
    for (let before = -1, now = 0; now > before;) {  // all of them
      before = now;
      await page.evaluate(() => [...document.querySelectorAll('#messages > button.link')].forEach((button) => button.click()));
      await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 50)));
      now = await page.count('.turn, .message.tool');
    }
    assert.equal(await page.count('.turn, .message.tool'), messages.length);
    await page.evaluate(() => { for (const box of document.querySelectorAll('details')) box.open = true; });
    await page.press_button('.look');
    await page.press_button('.token');
    await page.tab.waitForSelector('.alternatives li');
    await harmless(page, server);
    await page.press_button('.edit-entry');
    await page.tab.waitForSelector('#conversation-dialog');
    await harmless(page, server);
    await page.press('Escape');
    await page.tab.reload();  // as the server gives it back
    await page.tab.waitForSelector('.turn');
    await harmless(page, server);
  },

  async hostile_diagrams_stay_in_their_frame(given, {draw}) { await drawHostile(given, draw.some(DIAGRAMS, 3)); },
  async diagrams_of_advisories_stay_in_their_frame(given) { await drawHostile(given, MORE_DIAGRAMS); },

  async a_click_on_a_hostile_link_asks_first({page, server}) {
    await page.send('go on');
    (await server.next()).answer('[x](<https://evil.test/?q=secret>) [y](/v1/models) https://evil.test/auto');
    await page.shows('auto');
    await page.idle();
    for (let i = 0; i < 3; ++i) {
      await page.evaluate((at) => document.querySelectorAll('.message a')[at].click(), i);
      await page.tab.waitForSelector('#link-dialog[open]');
      await page.press('Escape');
      await page.waitFor(() => !document.querySelector('#link-dialog'));
    }
    assert.deepEqual(foreign(page, server), []);
  },
};
