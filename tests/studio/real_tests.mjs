// Studio on `chimere serve` with the shipped model.
import assert from 'node:assert/strict';
import {DIAGRAM_POLICY, POLICY} from './fake_server.mjs';
import {wait} from './support.mjs';

const TOKENS = 400;  // of an answer during which the page is loaded again
const LONG = 'Name many commands and say what each of them is for, one after the other.';

/// The answer of the newest conversation, as a client that knows nothing but the server reads it.
async function answerOf(url) {
  const [newest] = (await (await fetch(`${url}v1/conversations`)).json()).data;
  if (!newest) return undefined;
  const {messages} = await (await fetch(`${url}v1/conversations/${newest.id}`)).json();
  return messages.find((m) => m.role === 'assistant');
}

export const realTests = {
  async a_conversation_with_the_shipped_model(page, {start}) {
    const server = await start();
    await page.open(server.url);
    await page.waitFor(() => (document.getElementById('model').value ?? document.getElementById('model').textContent) === 'chimere-mini');
    for (const [path, policy] of [['', POLICY], ['studio/diagram.html', DIAGRAM_POLICY]]) {
      assert.equal((await fetch(server.url + path)).headers.get('content-security-policy'), policy);
    }
    // The icon, under the page's own policy.
    const icon = await page.evaluate(async () => {
      const image = new Image();
      image.src = document.querySelector('link[rel~=icon]').href;
      return image.decode().then(() => image.src, () => 'no icon');
    });
    assert.equal(icon, `${server.url}favicon.ico`);
    await page.press('Control+,');
    await page.shows('Temperature: higher ones make answers more varied; 0: always the most likely token.', '#settings');
    await page.fill('#option-temperature', '0');
    await page.press('Tab');
    await page.press_button('#logprobs');
    await page.send('What does the command ls do?');
    await page.shows('tokens/s');
    await page.idle();
    await page.press_button('.look');
    await page.tab.hover('.token');
    await page.waitFor(() => document.querySelectorAll('.alternatives li').length === 8);
    await page.send('And cp?');
    await page.waitFor(() => document.querySelectorAll('.assistant').length === 2);
    await page.idle();
    const answers = await page.evaluate(() => [...document.querySelectorAll('.assistant .markdown')].map((e) => e.textContent));
    await page.tab.reload();
    await page.waitFor(() => document.querySelectorAll('.assistant .markdown > *').length >= 2);
    assert.equal(await page.evaluate(() => [...document.querySelectorAll('.assistant .markdown')].at(-1).textContent), answers.at(-1));
    await page.fill('#search', 'command');
    await page.waitFor(() => document.querySelector('.entry mark')?.textContent.toLowerCase() === 'command');
    await page.press_button('#view-tokens');
    await page.fill('#token-input', 'ls -l');
    await page.waitFor(() => document.querySelectorAll('.piece').length >= 2);
    await page.press_button('#view-memories');
    await page.fill('#memory-name', 'notes');
    await page.fill('#memory-text', 'The zebra keeps its green umbrella behind the seventh lighthouse of Atlantis.');
    await page.press_button('#memory-write');
    await page.shows('The text was added.', '.view');
    await page.fill('#memory-query', 'The zebra keeps its green umbrella behind the seventh');
    await page.press_button('#memory-predict');
    await page.waitFor(() => document.querySelectorAll('.alternatives li').length > 0);
    await page.press_button('#view-server');
    await page.waitFor(() => document.querySelectorAll('.chart canvas').length === 8 && document.querySelector('.plain-table td')?.textContent === 'chimere-mini');
  },

  async a_schema_and_a_comparison(page, {start}) {
    const server = await start();
    await page.open(server.url);
    await page.press('Control+,');
    await page.fill('#json-schema', '{"type": "object", "properties": {"command": {"enum": ["ls", "cp"]}}, "required": ["command"], "additionalProperties": false}');
    await page.send('Which command lists files?');
    await page.shows('tokens/s');
    await page.idle();
    const answer = await page.evaluate(() => document.querySelector('.assistant .markdown').textContent);
    assert.ok(['ls', 'cp'].includes(JSON.parse(answer).command), answer);
    await page.fill('#json-schema', '');
    await page.press('Backspace');
    await page.press_button('#view-compare');
    await page.type('What does ls do?', '#compare-prompt');
    for (const n of [1, 2]) await page.fill(`.side:nth-child(${n}) input`, '0');
    await page.click('#compare-run');
    await page.shows('Both answers are the same, character for character.', '.view');
  },

  async a_conversation_with_a_key(page, {start}) {
    const server = await start({keys: true});
    await page.openOnly(server.url);
    await page.tab.waitForSelector('#key');
    await page.fill('#key', server.key);
    await page.press('Enter');
    await page.waitFor(() => (document.getElementById('model')?.value ?? document.getElementById('model')?.textContent) === 'chimere-mini');
    await page.send('What does the command ls do?');
    await page.shows('tokens/s');
    await page.idle();
    assert.equal(await page.count('.left-out'), 0);
    assert.equal(await page.count('#view-memories'), 0);  // the key has not this scope
    assert.equal((await fetch(`${server.url}v1/conversations`)).status, 401);
  },

  /// Loads the page again while messages stream: they go on, with the text that they have without that.
  async a_page_that_is_loaded_again_follows_its_answer(page, {start}) {
    const server = await start({flags: ['--ctx', '100000', '--rope-scaling', 'none']});
    const options = {ignore_eos: true, temperature: 1, seed: 5};
    const reference = async (tokens) => {
      const body = JSON.stringify({messages: [{role: 'user', content: LONG}], max_tokens: tokens, ...options});
      const response = await fetch(`${server.url}v1/chat/completions`, {method: 'POST', body});
      return (await response.json()).choices[0].message.content;
    };
    const shown = () => document.querySelector('.assistant .markdown')?.textContent.length ?? 0;
    const longer = (than) => page.waitFor((n) => (document.querySelector('.assistant .markdown')?.textContent.length ?? 0) > n, than);
    const ask = async (maxTokens) => {
      await page.evaluate((choices) => localStorage.setItem('choices', JSON.stringify(choices)), {options, maxTokens});
      await page.open(server.url);
      await page.send(LONG);
      await longer(200);
      await page.tab.reload();
    };
    await page.open(server.url);
    // To its end.
    await ask(TOKENS);
    await longer(200);
    await page.idle();
    const whole = await answerOf(server.url);
    assert.equal(whole.content, await reference(TOKENS));
    assert.equal(whole.complete ?? true, true);
    assert.equal(whole.data.usage.completion, TOKENS);
    const length = await page.evaluate(shown);
    await page.tab.reload();  // from the history alone
    await longer(length - 1);
    assert.equal(await page.evaluate(shown), length);
    // An endless one, until Stop.
    await ask(100000);
    await longer(400);
    await page.press('Escape');
    await page.idle();
    await page.shows('Stopped.');
    const stopped = await answerOf(server.url);
    assert.equal(stopped.data.finish, 'stopped');
    assert.ok(stopped.content.length > 400);
    // The seed is the same: one of the two begins with the other, and a token has a character or more.
    const longest = stopped.content.length <= whole.content.length ? whole.content : await reference(stopped.content.length);
    assert.ok(longest.startsWith(stopped.content));
  },

  /// Kills the server while a message streams: what was shown is in the history soon, within a second on an idle machine.
  async a_killed_server_keeps_the_message_up_to_the_last_second(page, {start}) {
    const server = await start();
    await page.open(server.url);
    await page.evaluate(() => localStorage.setItem('choices', JSON.stringify({options: {ignore_eos: true, min_tokens: 0, temperature: 1}, maxTokens: 100000})));
    await page.tab.reload();
    await page.waitFor(() => document.getElementById('model')?.textContent);
    await page.send(LONG);
    const length = () => document.querySelector('.assistant .markdown')?.textContent.length ?? 0;
    await page.waitFor(() => (document.querySelector('.assistant .markdown')?.textContent.length ?? 0) > 600);
    const shown = await page.evaluate(length);
    const text = await page.evaluate(() => document.querySelector('.assistant .markdown').textContent);
    const began = Date.now();
    await wait(async () => ((await answerOf(server.url))?.content.length ?? 0) >= shown);
    const took = Date.now() - began;
    console.log(`  what was shown was stored ${took} ms later`);
    if (process.argv.includes('--judge-times')) assert.ok(took <= 1000);
    const {port} = server;
    await server.kill();
    await page.shows('tries again every second', '#gone');
    const again = await start({port});
    assert.equal(again.port, port);
    // Another browser, which knows nothing but the server.
    const [stored] = (await (await fetch(`${again.url}v1/conversations`)).json()).data;
    const {messages} = await (await fetch(`${again.url}v1/conversations/${stored.id}`)).json();
    const answer = messages.find((m) => m.role === 'assistant');
    assert.ok(answer.content.length >= shown, `${answer.content.length} of ${shown} characters are stored`);
    assert.equal(messages[0].content, LONG);
    await page.waitFor(() => !document.getElementById('gone'));
    await page.tab.reload();
    await page.waitFor((n) => (document.querySelector('.assistant .markdown')?.textContent.length ?? 0) >= n, shown);
    // The same as before, but for what Markdown makes of the end of an unfinished text.
    const words = (s) => s.replace(/[^\p{L}\p{N}]+/gu, '').slice(0, 200);
    assert.equal(words(await page.evaluate(() => document.querySelector('.assistant .markdown').textContent)), words(text));
  },
};
