// Takes the screenshots of the documents: screenshots.mjs CHROMIUM BUILT OUT [NAME...]
import {mkdtemp, rm} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import puppeteer from 'puppeteer-core';
import {FakeServer} from './fake_server.mjs';
import {orchestrate} from './knowledge_tests.mjs';
import {StudioPage} from './studio_page.mjs';
import {wait} from './support.mjs';

const [chromium, built, out, ...only] = process.argv.slice(2);
const ANSWER = `The rank of a token is its place in the sorted probabilities. **Top-p** keeps the fewest tokens whose
probabilities reach *p*:

$$\\min\\Big\\{k : \\sum_{i=1}^{k} p_{(i)} \\ge p\\Big\\}$$

\`\`\`python
def top_p(probabilities, p):
    total, kept = 0.0, []
    for token, q in sorted(probabilities.items(), key=lambda x: -x[1]):
        kept.append(token)
        total += q
        if total >= p:
            return kept
\`\`\`

| option | keeps |
|---|---|
| \`top_k\` | the k most likely tokens |
| \`min_p\` | tokens at least this likely relative to the first |
`;
const HISTORY = ['Top-p in a few lines', 'Rename files in bulk', 'Was sagt strace hier?', 'A regular expression for dates', 'Notes on Mamba 2'];

/// Tokens with alternatives, some of them from drafts.
function tokens(generation) {
  const words = [['The', -0.1, 'A'], [' rank', -0.9, ' place'], [' of', -0.01, ' in'], [' a', -0.3, ' the'], [' token', -0.2, ' word'],
    [' is', -0.05, ' means'], [' its', -1.4, ' the'], [' place', -0.6, ' index'], [' in', -0.02, ' among'], [' the', -0.04, ' a'],
    [' sorted', -2.4, ' list'], [' probabilities', -0.5, ' vocabulary'], ['.', -0.2, ',']];
  for (const [i, [text, logprob, other]] of words.entries()) {
    const rest = Math.log(Math.max(1e-4, 1 - Math.exp(logprob)) * 0.7);
    generation.token([[text, logprob], [other, rest], [' …', rest - 1.5]], i > 7 && i < 10 ? {from_draft: true} : {});
  }
}

const chat = async (page, server) => {
  await page.send('Explain top-p, with code');
  const generation = await server.next();
  generation.reason('Define it, then show a loop.');
  generation.say(ANSWER);
  generation.finish('stop', {
    prompt_tokens: 96, completion_tokens: 214, prompt_tokens_details: {cached_tokens: 64},
    completion_tokens_details: {reasoning_tokens: 38, accepted_prediction_tokens: 57},
  });
  await page.idle();
  await page.tab.waitForSelector('.hljs-keyword');
  await page.tab.waitForSelector('.katex');
};

/// Name, what is done before the picture, and the form of the page.
const SHOTS = [
  ['studio', chat], ['studio-dark', chat, {dark: true}], ['studio-narrow', chat, {width: 390, height: 844, dark: true}],
  ['studio-context', async (page, server) => {
    await page.send('Name ten uses of a hash table, one a line.');
    const generation = await server.next();
    generation.say('1. Counting words\n2. Caches\n3. Removing duplicates');
    generation.finish('length', {prompt_tokens: 3201, completion_tokens: 880});
    await page.idle();
    await page.tab.waitForSelector('#context-note');
  }, {height: 520}],
  ['studio-first-visit', async () => {}, {seen: false}],
  ['studio-settings', async (page) => {
    await page.press('Control+,');
    await page.tab.waitForSelector('#settings');
    await page.fill('#system', 'Answer in one paragraph.');
    await page.fill('#option-temperature', '0.6');
  }],
  ['studio-sources', async (page, server) => {
    await page.send('How do I extract an archive?');
    orchestrate(await server.next(), 'Use the option `-x` of `tar` [1]; it extracts every file below the current folder.');
    await page.idle();
    await page.press_button('.steps-taken summary');
    await page.press_button('.cite');
  }],
  ['studio-tokens', async (page, server) => {
    await page.send('What is the rank of a token?');
    const generation = await server.next();
    tokens(generation);
    generation.finish();
    await page.idle();
    await page.press_button('.look');
    await page.tab.hover('.token:nth-child(7)');
    await page.tab.waitForSelector('.alternatives li');
  }],
  ['studio-compare', async (page, server) => {
    await page.press_button('#view-compare');
    await page.type('Name three uses of a hash table.', '#compare-prompt');
    await page.click('#compare-run');
    const answers = ['1. Counting words\n2. Caches\n3. Removing duplicates', 'A hash table serves **caches**, **sets** and the symbol tables of compilers.'];
    for (const answer of answers) {
      const generation = await server.next();
      generation.say(answer);
      generation.finish('stop', {prompt_tokens: 12, completion_tokens: 24});
    }
    await page.waitFor(() => document.querySelectorAll('.side .figures').length === 2);
  }],
  ['studio-tokenizer', async (page) => {
    await page.press_button('#view-tokens');
    await page.fill('#token-input', 'Mamba layers keep a state of fixed size,\nwhatever the length of the text.');
    await page.tab.waitForSelector('.piece');
  }],
  ['studio-collections', async (page, server) => {
    server.collections.set('manuals', new Map([['tar.md', 'The option -x extracts an archive.'], ['cp.md', 'cp copies files.'], ['strace.md', 'strace prints system calls.']]));
    server.collections.set('papers', new Map([['mamba2.pdf', '…']]));
    await page.press_button('#view-collections');
    await page.press_button('.open-collection');
    await page.fill('#collection-query', 'extracts');
    await page.press('Enter');
    await page.tab.waitForSelector('.passage');
  }],
  ['studio-memories', async (page) => {
    await page.press_button('#view-memories');
    await page.tab.waitForSelector('.plain-table');
  }],
  ['studio-server', async (page, server) => {
    await page.press_button('#view-server');
    await page.tab.waitForSelector('.chart canvas');
    const read = () => server.requests.filter((path) => path === '/metrics').length;
    const before = read();
    await wait(() => read() >= before + 6);  // the charts have lines
  }, {height: 1750}],
];

const folder = await mkdtemp(join(tmpdir(), 'chimere-screenshots-'));
const browser = await puppeteer.launch({
  executablePath: chromium, env: {...process.env, HOME: folder}, userDataDir: join(folder, 'profile'),
  args: ['--disable-dev-shm-usage', ...(process.getuid() === 0 ? ['--no-sandbox'] : [])],
});
try {
  for (const [name, act, {width = 1200, height = 860, ...form} = {}] of SHOTS) {
    if (only.length && !only.includes(name)) continue;
    const server = new FakeServer(built);
    await server.start();
    try {
      server.model = name === 'studio-sources' ? 'odo' : name === 'studio-compare' ? ['qwen3.5-35b-a3b', 'granite-4-h-tiny'] : 'qwen3.5-35b-a3b';
      HISTORY.slice(1).forEach((title, i) => server.conversations.set(`c${i}`, {
        id: `c${i}`, title, folder: i === 3 ? 'Papers' : '', pinned: i === 0, leaf: '', created: 1, updated: Date.now() - i, messages: [],
      }));
      const page = await StudioPage.create(browser, form);
      await page.tab.setViewport({width, height, isMobile: width < 600, hasTouch: width < 600});
      await page.open(server.url);
      await act(page, server);
      await page.evaluate(() => document.fonts.ready.then(() => new Promise((resolve) => setTimeout(resolve, 500))));
      await page.tab.screenshot({path: join(out, `${name}.webp`), type: 'webp', quality: 70});
      await page.close();
    } finally {
      server.close();
    }
  }
} finally {
  await browser.close();
  await rm(folder, {recursive: true, force: true});
}
