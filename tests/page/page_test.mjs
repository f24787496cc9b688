// Drives a browser over the chat page, as a user would:
//   page_test.mjs CHIMERE MODEL CHROMIUM PAGE_FOLDER [NAME...]
// Most tests use a server whose generations the test steps through; the last ones use `chimere serve`. A test waits for
// what it expects; the limit of a wait is there for hangs only. With NAMEs only these tests run.
import assert from 'node:assert/strict';
import {mkdtemp, rm} from 'node:fs/promises';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import puppeteer from 'puppeteer-core';
import {FakeServer} from './fake_server.mjs';
import {ChatPage} from './chat_page.mjs';
import {RealServer} from './real_server.mjs';

const [program, model, chromium, pageFolder, ...names] = process.argv.slice(2);
const user = (content) => ({role: 'user', content});
const assistant = (content) => ({role: 'assistant', content});

const fakeTests = {
  async a_new_chat_leaves_a_running_generation_behind({page, server}) {
    await page.send('first');
    const first = await server.next();
    first.say('half of it');
    await page.shows('half of it');
    await page.click('#reset');
    await first.closed;
    await page.send('second');
    const second = await server.next();
    assert.deepEqual(second.messages, [user('second')]);
    second.answer('all of it');
    await page.shows('all of it');
    await page.idle();
    assert.ok(!(await page.text()).includes('half'));
    await page.send('third');
    const third = await server.next();
    assert.deepEqual(third.messages, [user('second'), assistant('all of it'), user('third')]);
    third.answer('end');
    await page.idle();
  },

  async enter_leaves_a_running_generation_alone({page, server}) {
    await page.send('first');
    const first = await server.next();
    first.say('one ');
    await page.shows('one');
    await page.type('typed meanwhile');
    await page.press('Enter');
    first.answer('two');
    await page.shows('one two');
    await page.idle();
    assert.equal(await page.draft(), 'typed meanwhile');
    await page.press('Enter');
    const second = await server.next();
    assert.deepEqual(second.messages, [user('first'), assistant('one two'), user('typed meanwhile')]);
    second.answer('three');
    await page.idle();
  },

  async a_double_click_sends_once_and_stops_nothing({page, server}) {
    await page.type('first');
    await page.click('#send', {count: 2});
    const first = await server.next();
    first.answer('the answer');
    await page.shows('the answer');
    await page.idle();
  },

  async enter_of_an_input_method_does_not_send({page, server}) {
    await page.compose('にほん');
    await page.key({key: 'Enter', code: 'Enter', windowsVirtualKeyCode: 13});
    assert.equal(await page.count('.user'), 0);
    await page.commit('日本');
    // Safari ends the composition before the key event, whose code is then 229.
    await page.key({key: 'Enter', code: 'Enter', windowsVirtualKeyCode: 229});
    assert.equal(await page.count('.user'), 0);
    assert.equal(await page.draft(), '日本');
    await page.press('Enter');
    const first = await server.next();
    assert.deepEqual(first.messages, [user('日本')]);
    first.answer('東京');
    await page.idle();
  },

  async shift_enter_begins_a_line({page, server}) {
    await page.type('one');
    await page.press('Shift+Enter');
    await page.type('two');
    await page.press('Enter');
    const first = await server.next();
    assert.deepEqual(first.messages, [user('one\ntwo')]);
    first.answer('three');
    await page.idle();
  },

  async a_failed_turn_is_marked_and_can_be_retried({page, server}) {
    await page.send('first');
    (await server.next()).refuse(429, {message: 'The queue is full.'});
    await page.shows('The queue is full. This turn is not part of the conversation.');
    await page.idle();
    await page.send('second');
    const second = await server.next();
    assert.deepEqual(second.messages, [user('second')]);
    assert.equal(await page.property('.retry', 'disabled'), true);
    second.answer('answer 2');
    await page.idle();
    await page.click('.retry');
    const retried = await server.next();
    assert.deepEqual(retried.messages, [user('second'), assistant('answer 2'), user('first')]);
    retried.answer('answer 1');
    await page.idle();
    // On the screen as in the context, without an error mark.
    assert.match(await page.text(), /^second\s+answer 2\s+first\s+answer 1$/);
  },

  async the_text_of_a_failed_turn_can_be_edited({page, server}) {
    await page.send('first');
    (await server.next()).refuse(400, {message: 'The prompt is too long.'});
    await page.shows('The prompt is too long. This turn is not part of the conversation.');
    await page.idle();
    await page.type('and more');
    await page.click('.edit');
    assert.equal(await page.draft(), 'first\nand more');
    assert.equal(await page.text(), '');
    await page.press('Enter');
    const second = await server.next();
    assert.deepEqual(second.messages, [user('first\nand more')]);
    second.answer('the answer');
    await page.idle();
  },

  async a_turn_that_breaks_off_is_not_part_of_the_context({page, server}) {
    const breaks = [
      ['The server is stopping.', (generation) => generation.fail('The server is stopping.')],
      ['The connection to the server ended before the answer was complete.', (generation) => generation.cut()],
      ['The connection to the server ended before the answer was complete.', (generation) => generation.end()],
    ];
    for (const [message, breakOff] of breaks) {
      await page.send('first');
      const first = await server.next();
      first.say('half an answer');
      await page.shows('half an answer');
      breakOff(first);
      await page.shows(`${message} This turn is not part of the conversation.`);
      await page.idle();
      await page.send('second');
      const second = await server.next();
      assert.deepEqual(second.messages, [user('second')]);
      second.answer('whole');
      await page.idle();
      await page.click('#reset');
    }
  },

  async a_stopped_answer_is_kept_and_an_empty_one_is_not({page, server}) {
    await page.send('first');
    const first = await server.next();
    first.say('so far');
    await page.shows('so far');
    await page.click('#stop');
    await first.closed;
    await page.shows('Stopped.');
    await page.idle();
    await page.send('second');
    const second = await server.next();
    assert.deepEqual(second.messages, [user('first'), assistant('so far'), user('second')]);
    second.reason('Let me think.');
    await page.shows('Let me think.');
    await page.click('#stop');
    await page.shows('Stopped. This turn is not part of the conversation.');
    await page.idle();
    await page.send('third');
    const third = await server.next();
    assert.deepEqual(third.messages, [user('first'), assistant('so far'), user('third')]);
    third.finish();
    await page.shows('The model gave no answer. This turn is not part of the conversation.');
    await page.idle();
  },

  async a_dead_server_is_named_and_may_come_back({page, server}) {
    server.gone = true;
    await page.send('first');
    await page.shows('The server does not answer. Check that it runs and that this device can reach it.');
    await page.waitFor(() => document.getElementById('status')?.innerText.includes('tries again'));
    await page.idle();
    server.model = 'another-model';
    server.gone = false;
    await page.waitFor(() => document.getElementById('model').innerText === 'another-model');
    assert.equal(await page.property('#status', 'hidden'), true);
    await page.click('.retry');
    const first = await server.next();
    assert.deepEqual(first.messages, [user('first')]);
    first.answer('the answer');
    await page.shows('the answer');
    await page.idle();
  },

  async a_response_that_is_not_ours_is_put_into_words({page, server}) {
    await page.send('first');
    (await server.next()).refuse(502, '<html>Bad gateway</html>');
    await page.shows("The server's response has status 502 and no explanation.");
    await page.idle();
  },

  async a_length_limit_is_named({page, server}) {
    await page.send('first');
    const first = await server.next();
    first.say('as far as it');
    first.finish('length');
    await page.shows("The answer was cut off at the length limit (the server's or the context's).");
    await page.idle();
  },

  async a_key_can_be_entered_when_it_is_asked_for({page, server}) {
    server.key = 'chk-right';
    await page.send('first');
    await page.shows('The server needs a key: enter it at the top.');
    await page.idle();
    await page.waitFor(() => !document.getElementById('key').hidden);
    await page.fill('#key', 'chk-wrong');
    await page.waitFor(() => document.getElementById('status')?.innerText === 'The server does not know this key.');
    await page.fill('#key', 'chk-schlüssel');
    await page.waitFor(() => document.getElementById('status')?.innerText.includes('characters'));
    await page.fill('#key', 'chk-right');
    await page.waitFor(() => document.getElementById('model').innerText === 'fake-model');
    assert.equal(await page.property('#status', 'hidden'), true);
    await page.click('.retry');
    (await server.next()).answer('the answer');
    await page.shows('the answer');
    await page.idle();
  },

  async a_reader_who_scrolled_up_stays_there({page, server}) {
    const atEnd = () => {
      const list = document.getElementById('messages');
      return list.scrollTop > 0 && list.scrollTop + list.clientHeight >= list.scrollHeight - 1;
    };
    await page.send('first');
    const first = await server.next();
    first.say('line\n'.repeat(200));
    await page.waitFor(atEnd);
    await page.evaluate(() => { document.getElementById('messages').scrollTop = 0; });
    first.say('more\n'.repeat(50));
    await page.shows('more');
    assert.equal(await page.property('#messages', 'scrollTop'), 0);
    await page.evaluate(() => document.getElementById('messages').scrollTo(0, 1e6));
    first.answer('end\n'.repeat(50));
    await page.shows('end');
    await page.idle();
    await page.waitFor(atEnd);
    await page.resize(400, 300);  // as when a phone shows its keyboard
    await page.waitFor(atEnd);
  },

  async selected_text_stays_selected_while_more_comes({page, server}) {
    await page.send('first');
    const first = await server.next();
    first.say('some text');
    await page.shows('some text');
    await page.evaluate(() => {
      const walker = document.createTreeWalker(document.getElementById('messages'), NodeFilter.SHOW_TEXT);
      while (walker.nextNode().data !== 'some text');
      getSelection().setBaseAndExtent(walker.currentNode, 0, walker.currentNode, 4);
    });
    first.answer(' and more');
    await page.shows('and more');
    assert.equal(await page.evaluate(() => getSelection().toString()), 'some');
    await page.idle();
  },

  async everything_fits_on_a_phone({page, server}) {
    server.model = 'a-model-with-a-rather-long-name-35B-A3B-Instruct-2507-Q4_K_M';
    server.key = 'chk-right';
    await page.phone(320, 560);
    await page.open(server.url);
    await page.waitFor(() => !document.getElementById('key').hidden);
    await page.fill('#key', 'chk-right');
    await page.waitFor(() => document.getElementById('model').innerText !== '');
    await page.send(`${'long'.repeat(100)}\n`.repeat(10));
    const first = await server.next();
    first.say('word'.repeat(100));
    await page.shows('word');
    const outside = await page.evaluate(() => [...document.querySelectorAll('body *')].filter((element) => {
      const box = element.getBoundingClientRect();
      const scrolls = element.closest('#messages') && element.id !== 'messages';
      return box.left < 0 || box.right > innerWidth || (!scrolls && box.bottom > innerHeight);
    }).map((element) => element.outerHTML.slice(0, 80)));
    assert.deepEqual(outside, []);
    const lines = await page.evaluate(() => document.getElementById('model').getClientRects()[0].height);
    assert.ok(lines < 40, `the model's name is ${lines} pixels high`);
    first.finish();
    await page.idle();
  },
};

const realTests = {
  async a_conversation_with_the_shipped_model(page, start) {
    const server = await start();
    await page.open(server.url);
    await page.waitFor(() => document.getElementById('model').innerText === 'chimere-nano');
    // The icon, under the page's own policy.
    const icon = await page.evaluate(async () => {
      const image = new Image();
      image.src = document.querySelector('link[rel~=icon]')?.href ?? '/favicon.ico';
      return image.decode().then(() => image.src, () => 'no icon');
    });
    assert.equal(icon, `${server.url}/favicon.ico`);
    await page.send('What does the command ls do?');
    await page.idle();
    await page.send('And cp?');
    await page.idle();
    assert.equal(await page.count('.user'), 2);
    assert.deepEqual(page.faults, []);
    await server.kill();
    await page.send('And rm?');
    await page.shows('The server does not answer.');
    await page.idle();
  },

  async a_conversation_with_a_key(page, start) {
    const server = await start({keys: true});
    await page.open(server.url);
    await page.waitFor(() => !document.getElementById('key').hidden);
    await page.fill('#key', server.key);
    await page.waitFor(() => document.getElementById('model').innerText === 'chimere-nano');
    await page.send('What does the command ls do?');
    await page.idle();
    assert.equal(await page.count('.left-out'), 0);
  },
};

const folder = await mkdtemp(join(tmpdir(), 'chimere-page-'));
const browser = await puppeteer.launch({
  executablePath: chromium,
  env: {...process.env, HOME: folder},
  userDataDir: join(folder, 'profile'),
  timeout: 120000 * Number(process.env.TEST_TIMEOUT_FACTOR ?? 1),  // for hangs only
  // Chromium's sandbox refuses to run as root.
  args: ['--disable-dev-shm-usage', ...(process.getuid() === 0 ? ['--no-sandbox'] : [])],
});
let failures = 0;

async function runTest(name, test) {
  if (names.length && !names.includes(name)) return;
  const page = await ChatPage.create(browser);
  try {
    await test(page);
    assert.deepEqual(page.exceptions, []);
    console.log(`${name}: ok`);
  } catch (error) {
    ++failures;
    console.log(`${name}: FAILED\n${error.stack}\nThe page says:\n${await page.text().catch(String)}`);
  } finally {
    await page.close();
  }
}

try {
  for (const [name, test] of Object.entries(fakeTests)) {
    await runTest(name, async (page) => {
      const server = new FakeServer(pageFolder);
      await server.start();
      try {
        await page.open(server.url);
        await test({page, server});
      } finally {
        server.close();
      }
    });
  }
  for (const [name, test] of Object.entries(realTests)) {
    await runTest(name, async (page) => {
      let server;
      try {
        await test(page, async (options) => (server = await RealServer.start(program, model, folder, options)));
      } finally {
        await server?.kill();
      }
    });
  }
} finally {
  await browser.close();
  await rm(folder, {recursive: true, force: true});
}
console.log(failures ? `${failures} tests FAILED` : 'all tests passed');
process.exitCode = failures ? 1 : 0;
