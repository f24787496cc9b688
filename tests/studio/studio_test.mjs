// Drives a browser over Studio, as a user would:
//   studio_test.mjs CHIMERE MODEL CHROMIUM BUILT [--judge-times] [--sample] [NAME...]
// Most tests use a server whose generations the test steps through; those of real_tests.mjs use `chimere serve`. A test
// waits for what it expects; the limit of a wait is there for hangs only. With NAMEs only these tests run. With --sample
// all run but the slowest, which repeat another one at another size or at length; a part of the hostile contents is drawn
// by a seed, which is printed (STUDIO_SEED repeats it); and axe looks at what is new in a view.
import assert from 'node:assert/strict';
import {mkdtemp, rm} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import puppeteer from 'puppeteer-core';
import {chatTests} from './chat_tests.mjs';
import {Draw} from './draw.mjs';
import {FakeServer} from './fake_server.mjs';
import {historyTests} from './history_tests.mjs';
import {accessDarkTests, accessTests, speedTests, workTests} from './quality_tests.mjs';
import {RealServer} from './real_server.mjs';
import {knowledgeTests} from './knowledge_tests.mjs';
import {realTests} from './real_tests.mjs';
import {pathDarkTests, pathTests} from './path_tests.mjs';
import {safetyTests} from './safety_tests.mjs';
import {StudioPage} from './studio_page.mjs';

const WORKERS = 3;  // browsers of their own: neither page waits for the focus or the frames of another
const [program, model, chromium, built, ...names] = process.argv.slice(2).filter((value) => !value.startsWith('--'));
const LONG = [
  'every_view_is_accessible_when_narrow', 'every_view_is_accessible_in_the_dark', 'a_text_in_pieces_looks_like_the_whole',
  'a_long_answer_at_500_tokens_a_second', 'a_history_of_10_000_messages_opens', 'every_feature_on_a_phone',
  'every_feature_in_the_dark', 'diagrams_of_advisories_stay_in_their_frame', 'a_text_is_shown_in_tokens',
];
const sample = process.argv.includes('--sample');
const leftOut = sample ? LONG : [];
const draw = new Draw(sample);
if (sample) console.log(`seed of the sample: ${draw.seed}`);
const folder = await mkdtemp(join(tmpdir(), 'chimere-studio-'));
const launch = (profile) => puppeteer.launch({
  executablePath: chromium,
  env: {...process.env, HOME: folder},
  userDataDir: join(folder, profile),
  timeout: 120000 * Number(process.env.TEST_TIMEOUT_FACTOR ?? 1),  // for hangs only
  args: [
    '--disable-dev-shm-usage',
    // The browser's own interface, which no test looks at, took half of the computing.
    '--disable-features=PreloadTopChromeWebUI', '--kiosk',
    ...(process.getuid() === 0 ? ['--no-sandbox'] : []),  // Chromium's sandbox refuses to run as root
  ],
});
const browsers = await Promise.all(Array.from({length: WORKERS}, (_, i) => launch(`profile-${i}`)));
let failures = 0;
let passed = 0;

async function runTest(browser, name, test, form) {
  const began = Date.now();
  const page = await StudioPage.create(browser, {...form, shared: true});
  try {
    await test(page);
    assert.deepEqual(page.exceptions, []);
    assert.deepEqual(page.violations, []);
    ++passed;
    console.log(`${name}: ok, ${((Date.now() - began) / 1000).toFixed(1)} s`);
  } catch (error) {
    ++failures;
    console.log(`${name}: FAILED\n${error.stack}\nThe page says:\n${await page.text().catch(String)}\n${page.exceptions.join('\n')}`);
  } finally {
    await page.close();
  }
}

/// The tests that are to run, each as a function of its browser.
function chosen(tests, make) {
  return Object.entries(tests).filter(([name]) => !leftOut.includes(name) && (!names.length || names.includes(name)))
    .map(([name, test]) => make(name, test));
}

function fake(tests, form) {
  return chosen(tests, (name, test) => (browser) => runTest(browser, name, async (page) => {
    const server = new FakeServer(built);
    await server.start();
    const own = await mkdtemp(join(folder, 'files-'));
    try {
      await page.open(server.url);
      await test({page, server}, {browser, StudioPage, program, model, built, folder: own, draw});
    } finally {
      server.close();
    }
  }, form));
}

function real(tests) {
  return chosen(tests, (name, test) => (browser) => runTest(browser, name, async (page) => {
    const servers = [];
    const own = await mkdtemp(join(folder, 'server-'));
    try {
      await test(page, {
        async start(options) {
          servers.push(await RealServer.start(program, model, own, options));
          return servers.at(-1);
        },
      });
    } finally {
      await Promise.all(servers.map((server) => server.kill()));
    }
  }));
}

try {
  // The longest first.
  const waiting = [
    ...real(realTests), ...fake(accessTests), ...fake(accessDarkTests, {dark: true}), ...fake(safetyTests),
    ...fake(pathTests), ...fake(pathDarkTests, {dark: true}), ...fake(workTests), ...fake(historyTests),
    ...fake(knowledgeTests), ...fake(chatTests),
  ];
  await Promise.all(browsers.map(async (browser) => {
    for (let test; (test = waiting.shift());) await test(browser);
  }));
  for (const test of fake(speedTests)) await test(browsers[0]);  // alone: they measure times
} finally {
  await Promise.all(browsers.map((browser) => browser.close()));
  await rm(folder, {recursive: true, force: true});
}
console.log(failures ? `${failures} tests FAILED` : `${passed} tests passed`);
process.exitCode = failures ? 1 : 0;
