// The chat, with a server whose generations the tests step through.
import assert from 'node:assert/strict';
import {wait} from './support.mjs';

const user = (content) => ({role: 'user', content});
const assistant = (content) => ({role: 'assistant', content});

// The answer's text once it has not changed for 300 ms: blocks off the screen and formulas are drawn later than the rest.
async function settled_text(page) {
  let before = '';
  for (;;) {
    const text = await page.evaluate(() => document.querySelector('.assistant .markdown')?.innerText ?? '');
    if (text && text === before) return text;
    before = text;
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
}

export const chatTests = {
  async several_conversations_generate_at_once({page, server}) {
    await page.send('first');
    const first = await server.next();
    first.say('half of it');
    await page.shows('half of it');
    await page.click('#reset');
    await page.send('second');
    const second = await server.next();
    assert.deepEqual(second.messages, [user('second')]);
    second.answer('all of it');
    await page.shows('all of it');
    assert.ok(!(await page.text()).includes('half'));
    first.answer(' and the rest');
    await page.click('.entry:nth-child(2) .open');
    await page.shows('half of it and the rest');
    await page.idle();
    await page.send('third');
    const third = await server.next();
    assert.deepEqual(third.messages, [user('first'), assistant('half of it and the rest'), user('third')]);
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

  async a_failed_turn_is_marked_left_out_and_can_be_retried({page, server}) {
    await page.send('first');
    (await server.next()).refuse(429, {message: 'The queue is full.'});
    await page.shows('The queue is full. This turn is not part of the conversation.');
    await page.idle();
    await page.press_button('.left-out .retry');
    const retried = await server.next();
    assert.deepEqual(retried.messages, [user('first')]);
    assert.equal(await page.count('.left-out'), 0);
    retried.answer('answer 1');
    await page.shows('answer 1');
    await page.idle();
    await page.send('second');
    (await server.next()).refuse(400, {message: 'The prompt is too long.'});
    await page.shows('The prompt is too long.');
    await page.idle();
    await page.send('third');
    const third = await server.next();
    assert.deepEqual(third.messages, [user('first'), assistant('answer 1'), user('third')]);
    third.answer('answer 3');
    await page.idle();
  },

  async a_turn_that_breaks_off_can_be_continued({page, server}) {
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
      await page.shows(message);
      await page.idle();
      await page.press_button('.continue');
      const second = await server.next();
      assert.deepEqual(second.messages, [user('first'), assistant('half an answer')]);
      second.answer(', and the other');
      await page.shows('half an answer, and the other');
      await page.idle();
      assert.ok(!(await page.text()).includes(message));
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
    await page.shows('Reasoning…');
    await page.press('Escape');
    await page.shows('Stopped. This turn is not part of the conversation.');
    await page.idle();
    await page.send('third');
    const third = await server.next();
    assert.deepEqual(third.messages, [user('first'), assistant('so far'), user('third')]);
    third.finish();
    await page.shows('The model gave no answer. This turn is not part of the conversation.');
    await page.idle();
  },

  async edited_and_regenerated_messages_are_branches({page, server}) {
    await page.send('red');
    (await server.next()).answer('answer red');
    await page.shows('answer red');
    await page.idle();
    await page.press_button('.assistant-turn .retry');
    const again = await server.next();
    assert.deepEqual(again.messages, [user('red')]);
    again.answer('answer red again');
    await page.shows('answer red again');
    await page.shows('2/2');
    await page.idle();
    await page.press_button('.user-turn .edit');
    await page.fill('.edit-text', 'blue');
    await page.press('Enter');
    const blue = await server.next();
    assert.deepEqual(blue.messages, [user('blue')]);
    blue.answer('answer blue');
    await page.shows('answer blue');
    await page.idle();
    await page.press_button('.user-turn .branches button');
    await page.shows('answer red again');
    await page.press_button('.assistant-turn .branches button');
    await page.waitFor(() => document.querySelector('.assistant').innerText.trim() === 'answer red');
    await page.send('more');
    const more = await server.next();
    assert.deepEqual(more.messages, [user('red'), assistant('answer red'), user('more')]);
    more.answer('the end');
    await page.idle();
  },

  async arrow_up_edits_the_last_message({page, server}) {
    await page.send('first');
    (await server.next()).answer('answer');
    await page.idle();
    await page.tab.focus('#text');
    await page.press('ArrowUp');
    await page.tab.waitForSelector('.edit-text');
    await page.press('Escape');
    await page.waitFor(() => document.activeElement.id === 'text');
    assert.equal(await page.count('.edit-text'), 0);
  },

  async a_draft_and_the_conversation_survive_a_reload({page, server}) {
    await page.type('half a thought');
    await page.tab.reload();
    await page.waitFor(() => document.getElementById('text')?.value === 'half a thought');
    await page.press('Enter');
    await page.type('', '#text');
    await page.press('Enter');
    const first = await server.next();
    first.answer('**strong** answer');
    await page.shows('strong answer');
    await page.idle();
    await page.type('the next');
    await wait(() => [...server.conversations.values()][0]?.messages.at(-1)?.complete);
    await page.tab.reload();
    await page.shows('strong answer');
    await page.waitFor(() => document.getElementById('text')?.value === 'the next');
    assert.equal(await page.property('.assistant strong', 'textContent'), 'strong');
  },

  async a_dead_server_is_named_and_may_come_back({page, server}) {
    server.gone = true;
    await page.send('first');
    await page.shows('The server does not answer. This turn is not part of the conversation.');
    await page.shows('tries again every second', '#gone');
    await page.idle();
    server.model = 'another-model';
    server.gone = false;
    await page.waitFor(() => document.getElementById('model').innerText === 'another-model');
    assert.equal(await page.count('#gone'), 0);
    await page.press_button('.retry');
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

  async a_length_limit_is_named_and_the_answer_continues({page, server}) {
    await page.send('first');
    const first = await server.next();
    first.say('as far as it');
    first.finish('length');
    await page.shows('The answer was cut off at the length limit.');
    await page.press_button('.continue');
    const second = await server.next();
    assert.deepEqual(second.messages, [user('first'), assistant('as far as it')]);
    second.answer(' goes');
    await page.shows('as far as it goes');
    await page.idle();
  },

  async a_missing_key_is_asked_for({page, server}) {
    server.key = 'chk-right';
    await page.openOnly(server.url);
    await page.shows('The server needs a key.', '#key-dialog');
    await page.fill('#key', 'chk-wrong');
    await page.press('Enter');
    await page.shows('The server does not know this key.', '#key-dialog');
    await page.fill('#key', 'chk-schlüssel');
    await page.shows('characters', '#key-dialog');
    await page.fill('#key', 'chk-right');
    await page.press('Enter');
    await page.waitFor(() => document.getElementById('model').innerText === 'fake-model');
    assert.equal(await page.count('#key-dialog'), 0);
    await page.send('first');
    (await server.next()).answer('the answer');
    await page.shows('the answer');
    await page.idle();
    await page.tab.reload();  // kept for the tab
    await page.waitFor(() => document.getElementById('model')?.innerText === 'fake-model');
  },

  async a_reader_who_scrolled_up_stays_there({page, server}) {
    const atEnd = () => {
      const list = document.getElementById('main');
      return list.scrollTop > 0 && list.scrollTop + list.clientHeight >= list.scrollHeight - 2;
    };
    await page.send('first');
    const first = await server.next();
    first.say('line\n\n'.repeat(200));
    await page.waitFor(atEnd);
    await page.tab.mouse.move(600, 300);
    await page.tab.mouse.wheel({deltaY: -1e6});
    await page.waitFor(() => document.getElementById('main').scrollTop === 0);
    first.say('more\n\n'.repeat(50));
    await page.shows('more');
    assert.equal(await page.property('#main', 'scrollTop'), 0);
    await page.evaluate(() => document.getElementById('main').scrollTo(0, 1e6));
    await page.waitFor(atEnd);
    first.answer('end\n\n'.repeat(50));
    await page.shows('end');
    await page.idle();
    await page.waitFor(atEnd);
    await page.resize(400, 300);  // as when a phone shows its keyboard
    await page.waitFor(atEnd);
  },

  async selected_text_stays_selected_while_more_comes({page, server}) {
    await page.send('first');
    const first = await server.next();
    first.say('some text\n\nnext');
    await page.shows('next');
    await page.evaluate(() => {
      const walker = document.createTreeWalker(document.getElementById('messages'), NodeFilter.SHOW_TEXT);
      while (walker.nextNode().data !== 'some text');
      getSelection().setBaseAndExtent(walker.currentNode, 0, walker.currentNode, 4);
    });
    first.answer(' and more\n\nend');
    await page.shows('and more end');
    await page.idle();
    assert.equal(await page.evaluate(() => getSelection().toString()), 'some');
  },

  async reasoning_is_folded_with_its_time_and_tokens({page, server}) {
    await page.send('first');
    const first = await server.next();
    first.reason('Let me think.');
    await page.shows('Reasoning…');
    assert.ok(!(await page.text()).includes('Let me think.'));
    first.say('Done.');
    first.finish('stop', {
      prompt_tokens: 90, completion_tokens: 30, prompt_tokens_details: {cached_tokens: 64},
      completion_tokens_details: {reasoning_tokens: 12, accepted_prediction_tokens: 5},
    });
    await page.idle();
    assert.match(await page.text(), /Reasoning · \d+\.\d s · 12 tokens.*30 tokens.*64 of 90 prompt tokens reused · 5 tokens from drafts/);
    await page.press_button('.reasoning summary');
    await page.shows('Let me think.');
  },

  async calls_of_tools_are_shown_and_take_a_result({page, server}) {
    await page.send('weather?');
    const first = await server.next();
    first.call('weather', '{"city":');
    first.event({choices: [{index: 0, delta: {tool_calls: [{index: 0, function: {arguments: '"Lyon"}'}}]}}]});
    first.finish('tool_calls');
    await page.shows('Call of a tool weather { "city": "Lyon" }');
    await page.idle();
    await page.type('{"degrees": 21}', '.tool-call textarea');
    await page.press_button('.tool-call button.primary');
    const second = await server.next();
    assert.deepEqual(second.messages.slice(1), [
      {role: 'assistant', content: '', tool_calls: [{id: 'call_1', type: 'function', function: {name: 'weather', arguments: '{"city":"Lyon"}'}}]},
      {role: 'tool', content: '{"degrees": 21}', tool_call_id: 'call_1'},
    ]);
    second.answer('It is 21 degrees.');
    await page.shows('It is 21 degrees.');
    await page.idle();
  },

  async markdown_code_and_formulas_are_drawn({page, server}) {
    await page.send('first');
    const first = await server.next();
    const text = '# Title\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n```python\nprint("hi")  # 1 < 2\n```\n\n' +
        'Costs $5 and $6. $x^2$ and\n\n$$\\frac{1}{2}$$\n\n- one\n- two\n\n<b>not bold</b>\n\n' +
        '```mermaid\ngraph LR\n  A --> B\n```\n';
    for (let i = 0; i < text.length; i += 3) first.say(text.slice(i, i + 3));
    first.finish();
    await page.idle();
    await page.tab.waitForSelector('.code-box .hljs-string');
    await page.tab.waitForSelector('.math.display .katex');
    assert.deepEqual(await page.evaluate(() => ({
      title: document.querySelector('.assistant h1').textContent,
      right: getComputedStyle(document.querySelector('.assistant td:last-child')).textAlign,
      code: document.querySelector('.code-box code').textContent,
      formulas: document.querySelectorAll('.katex').length,
      items: document.querySelectorAll('.assistant li').length,
      html: document.querySelectorAll('.assistant b').length,
    })), {title: 'Title', right: 'right', code: 'print("hi")  # 1 < 2\n', formulas: 2, items: 2, html: 0});
    await page.press_button('.code-box:last-of-type figcaption button');
    await page.waitFor(() => document.querySelector('iframe.diagram[height]'));
    assert.deepEqual(page.violations, []);
    await page.context.overridePermissions(server.url.slice(0, -1), ['clipboard-read', 'clipboard-write', 'clipboard-sanitized-write']);
    await page.click('.code-box figcaption button');
    await page.waitFor(() => navigator.clipboard.readText().then((copied) => copied.startsWith('print'), () => false));
  },

  async a_text_in_pieces_looks_like_the_whole({page, server}) {
    const texts = [
      'a\n\n1. x\n2. y\n\n   more\n3. z\n\nb', '```\ncode\n\nmore\n```\ntext\n~~~js\na`b\n~~~', '> q\n> w\n\nx\n===\n\ny\n---\nz',
      '| a |\n|---|\n| 1 |\n| 2 |\n\nend', 'see [a] and [b]\n\nmore\n\n[a]: http://a.test/\n[b]: http://b.test/', '- a\n\n- b\n- c\n\n  d\n\ne',
      'x $a\n\n$$\nb\n$$\n\\[c\\] d', '````md\n```js\n1\n```\n````\nend', '# a\n## b\n***\ntext  \nmore', 'a\n\n    code\n\n    more\nb',
    ];
    for (const text of texts) {
      await page.click('#reset');
      await page.send('q');
      const generation = await server.next();
      for (const character of text) generation.say(character);
      generation.finish();
      await page.idle();
      const grown = await settled_text(page);
      await page.click('#reset');  // and opened again: drawn as a whole
      await page.waitFor(() => !document.querySelector('.assistant'));
      await page.press_button('.entry .open');
      await page.tab.waitForSelector('.assistant .markdown > *');
      assert.equal(await settled_text(page), grown);
    }
  },

  async links_and_images_wait_for_a_click({page, server}) {
    await page.send('first');
    (await server.next()).answer('[a link](https://other.test/x) ![pic](https://other.test/p.png) [bad](javascript:alert(1))');
    await page.shows('Image: pic');
    await page.idle();
    assert.equal(await page.count('.assistant img'), 0);
    assert.equal(await page.count('.assistant a'), 2);
    await page.press_button('.assistant a');
    await page.shows('https://other.test/x', '#link-dialog');
    await page.press('Escape');
    await page.press_button('.assistant a.image');
    await page.shows('https://other.test/p.png', '#link-dialog');
    assert.ok(page.requests.every((url) => !url.includes('other.test')));
  },

  async a_meter_says_how_much_of_the_context_is_taken({page, server}) {
    const ask = async (question, prompt, completion) => {
      await page.send(question);
      const generation = await server.next();
      generation.say(`answer to ${question}`);
      generation.finish('stop', {prompt_tokens: prompt, completion_tokens: completion});
      await page.shows(`answer to ${question}`);
      await page.idle();
      return generation;
    };
    const meter = () => page.tab.$eval('#context', (e) => [e.value, e.max, e.getAttribute('aria-label'), e.getAttribute('aria-valuetext')]);
    assert.equal(await page.count('#context'), 0);  // nothing is known before the first answer
    await ask('one', 900, 100);
    assert.deepEqual(await meter(), [1000, 4096, 'Context', '1,000 of 4,096 tokens of the context']);
    assert.equal(await page.count('#context-note'), 0);
    await ask('two', 2200, 800);
    assert.equal(await page.count('#context-note'), 0);
    await ask('three', 3100, 177);  // 80.005 %
    await page.shows('80 % of the context is taken.', '#context-note');
    await page.send('four');
    const refusal = "This model's maximum context length is 4096 tokens, and the prompt has 5000.";
    (await server.next()).refuse(400, {message: refusal, code: 'context_length_exceeded'});
    await page.shows(refusal);
    await page.shows('The context is full', '#context-note');
    await page.idle();
    // The second question is the last one before which at most half was taken.
    await page.press_button('#context-note .branch');
    await page.waitFor(() => document.activeElement.matches('.edit-text') && document.activeElement.value === 'two');
    await page.press('Enter');
    const branch = await server.next();
    assert.deepEqual(branch.messages, [user('one'), assistant('answer to one'), user('two')]);
    branch.finish('stop', {prompt_tokens: 4000, completion_tokens: 90});
    await page.idle();
    await page.shows('The context is full', '#context-note');  // 99.9 %
    await page.press_button('#context-note button');
    await page.waitFor(() => !document.querySelector('.turn') && !document.getElementById('context'));
    await ask('anew', 10, 5);
    assert.deepEqual((await meter()).slice(0, 2), [15, 4096]);
  },

  async files_become_a_part_of_the_message({page, server}) {
    const input = await page.tab.$('.composer input[type=file]');
    const drop = (name, content) => input.evaluate((element, n, c) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([c], n));
      element.files = transfer.files;
      element.dispatchEvent(new Event('change', {bubbles: true}));
    }, name, content);
    await drop('notes.md', 'has ``` inside');
    await page.waitFor(() => document.getElementById('text').value.includes('notes.md'));
    assert.equal(await page.draft(), 'notes.md:\n````md\nhas ``` inside\n````\n');
    await drop('picture.png', '\0\0');
    await page.shows('picture.png is no text.', '#notice');
  },

  async a_first_visit_explains_in_three_steps({page, server}, {browser, StudioPage}) {
    const visitor = await StudioPage.create(browser, {seen: false});
    try {
      await visitor.open(server.url);
      for (const heading of ['1. Ask', '2. Keep', '3. Look inside']) {
        await visitor.shows(heading, '#welcome');
        await visitor.click('#welcome .next');
      }
      await visitor.waitFor(() => !document.getElementById('welcome') && document.activeElement.id === 'text');
      assert.deepEqual(visitor.exceptions, []);
    } finally {
      await visitor.close();
    }
  },

  async everything_fits_on_a_phone({page, server}) {
    server.model = 'a-model-with-a-rather-long-name-35B-A3B-Instruct-2507-Q4_K_M';
    for (const [width, height] of [[360, 640], [390, 844]]) {
      await page.phone(width, height);
      await page.open(server.url);
      await page.send(`${'long'.repeat(100)}\n`.repeat(10));
      const first = await server.next();
      first.say(`${'word'.repeat(100)}\n\n| ${'cell | '.repeat(30)}\n|${'---|'.repeat(30)}\n\n\`\`\`\n${'code '.repeat(200)}\n\`\`\`\n`);
      await page.shows('word');
      const outside = () => page.evaluate(() => [...document.querySelectorAll('body *')].filter((element) => {
        const box = element.getBoundingClientRect();
        const scrolls = element.closest('#messages, .offscreen, .skip, .settings-body, .list, figure');
        return !scrolls && box.width > 0 && (box.left < -1 || box.right > innerWidth + 1 || box.bottom > innerHeight + 1);
      }).map((element) => element.outerHTML.slice(0, 120)));
      assert.deepEqual(await outside(), []);
      assert.ok(await page.evaluate(() => document.getElementById('messages').scrollWidth <= innerWidth));
      const lines = await page.evaluate(() => document.getElementById('model').getClientRects()[0].height);
      assert.ok(lines < 40, `the model's name is ${lines} pixels high`);
      first.finish();
      await page.idle();
      await page.click('#settings-button');
      await page.tab.waitForSelector('#settings');
      assert.deepEqual(await outside(), []);
      await page.press_button('.settings-head button');
      await page.click('#menu');
      await page.tab.waitForSelector('.sidebar');
      assert.deepEqual(await outside(), []);
    }
  },
};
