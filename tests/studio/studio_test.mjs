// Drives a browser over Studio, as a user would:
//   studio_test.mjs CHIMERE MODEL CHROMIUM BUILT [--judge-times] [--sample] [NAME...]
// Most tests use a server whose generations the test steps through; those of real_tests.mjs use `chimere serve`. A test
// waits for what it expects; the limit of a wait is there for hangs only. With NAMEs only these tests run, with --sample
// all but the slowest, which repeat another one at another size or at length.
import assert from 'node:assert/strict';
import {mkdtemp, rm} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import puppeteer from 'puppeteer-core';
import {chatTests} from './chat_tests.mjs';
import {FakeServer} from './fake_server.mjs';
import {historyTests} from './history_tests.mjs';
import {accessDarkTests, accessTests, speedTests, workTests} from './quality_tests.mjs';
import {RealServer} from './real_server.mjs';
import {knowledgeTests} from './knowledge_tests.mjs';
import {realTests} from './real_tests.mjs';
import {pathDarkTests, pathTests} from './path_tests.mjs';
import {safetyTests} from './safety_tests.mjs';
import {StudioPage} from './studio_page.mjs';

const [program, model, chromium, built, ...names] = process.argv.slice(2).filter((value) => !value.startsWith('--'));
const LONG = [
  'every_view_is_accessible_when_narrow', 'every_view_is_accessible_in_the_dark', 'a_text_in_pieces_looks_like_the_whole',
  'a_long_answer_at_500_tokens_a_second', 'a_history_of_10_000_messages_opens', 'every_feature_on_a_phone',
  'every_feature_in_the_dark', 'diagrams_of_advisories_stay_in_their_frame', 'a_text_is_shown_in_tokens',
];
const leftOut = process.argv.includes('--sample') ? LONG : [];
const folder = await mkdtemp(join(tmpdir(), 'chimere-studio-'));
const launch = (profile) => puppeteer.launch({
  executablePath: chromium,
  env: {...process.env, HOME: folder},
  userDataDir: join(folder, profile),
  timeout: 120000 * Number(process.env.TEST_TIMEOUT_FACTOR ?? 1),  // for hangs only
  // Chromium's sandbox refuses to run as root.
  args: ['--disable-dev-shm-usage', ...(process.getuid() === 0 ? ['--no-sandbox'] : [])],
});
// Two, so that neither page waits for the focus or the frames of the other.
const browsers = await Promise.all([launch('profile'), launch('second-profile')]);
let failures = 0;
let passed = 0;

async function runTest(browser, name, test, form) {
  if (leftOut.includes(name) || (names.length && !names.includes(name))) return;
  const began = Date.now();
  const page = await StudioPage.create(browser, form);
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

async function runFake(browser, tests, form) {
  for (const [name, test] of Object.entries(tests)) {
    await runTest(browser, name, async (page) => {
      const server = new FakeServer(built);
      await server.start();
      try {
        await page.open(server.url);
        await test({page, server}, {browser, StudioPage, program, model, built, folder});
      } finally {
        server.close();
      }
    }, form);
  }
}

async function runReal(browser, tests) {
  for (const [name, test] of Object.entries(tests)) {
    await runTest(browser, name, async (page) => {
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
    });
  }
}

try {
  const [first, second] = browsers;
  const half = async () => {
    await runFake(first, chatTests);
    await runFake(first, historyTests);
    await runFake(first, knowledgeTests);
    await runFake(first, pathTests);
    await runFake(first, pathDarkTests, {dark: true});
    await runFake(first, workTests);
  };
  const otherHalf = async () => {
    await runFake(second, safetyTests);
    await runFake(second, accessTests);
    await runFake(second, accessDarkTests, {dark: true});
    await runReal(second, realTests);
  };
  await Promise.all([half(), otherHalf()]);
  await runFake(first, speedTests);  // alone: they measure times
} finally {
  await Promise.all(browsers.map((browser) => browser.close()));
  await rm(folder, {recursive: true, force: true});
}
console.log(failures ? `${failures} tests FAILED` : `${passed} tests passed`);
process.exitCode = failures ? 1 : 0;
