// History, settings and the other views, with a server of the test.
import assert from 'node:assert/strict';
import {mkdtemp, readFile, readdir, writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import {wait} from './support.mjs';

const stored = (server) => [...server.conversations.values()];

/// A conversation with one answer.
async function converse(page, server, question, answer, isPrivate = false) {
  await page.send(question);
  (await server.next()).answer(answer);
  await page.shows(answer);
  await page.idle();
  await wait(() => stored(server).some((c) => c.messages.at(-1)?.content === answer && c.messages.at(-1).complete) ||
      isPrivate || !server.keepsHistory);
}

async function files(page, folder) {
  const downloads = await mkdtemp(join(folder, 'downloads-'));
  const session = await page.tab.createCDPSession();
  await session.send('Browser.setDownloadBehavior', {behavior: 'allow', downloadPath: downloads, browserContextId: page.context.id});
  return {
    async next(extension) {
      let name;
      await wait(async () => (name = (await readdir(downloads)).find((n) => n.endsWith(extension))));
      return {path: join(downloads, name), text: await readFile(join(downloads, name), 'utf8')};
    },
  };
}

export const historyTests = {
  async conversations_are_found_renamed_pinned_filed_and_deleted({page, server}) {
    await converse(page, server, 'about zebras', 'They have stripes.');
    await page.click('#reset');
    await converse(page, server, 'about lions', 'They have manes.');
    assert.equal(await page.count('.entry'), 2);
    await page.press('Control+k');
    await page.waitFor(() => document.activeElement.id === 'search');
    await page.type('stripes', '#search');
    await page.waitFor(() => document.querySelectorAll('.entry').length === 1 && document.querySelector('.entry mark'));
    await page.press_button('.entry .open');
    await page.shows('They have stripes.');
    await page.fill('#search', '');
    await page.press('Backspace');
    await page.waitFor(() => document.querySelectorAll('.entry').length === 2);
    await page.press_button('.entry.current .edit-entry');
    await page.fill('#conversation-dialog input', 'Striped animals');
    await page.fill('#conversation-dialog input[list]', 'Zoo');
    await page.press('Enter');
    await page.shows('Striped animals', '.list');
    await page.shows('Zoo', '.list');
    await page.press_button('.entry.current .icon-button[aria-pressed]');
    await page.shows('Pinned', '.list');
    await wait(() => stored(server).some((c) => c.title === 'Striped animals' && c.folder === 'Zoo' && c.pinned));
    await page.press_button('.entry.current .edit-entry');
    await page.click('#conversation-dialog .delete');
    assert.equal(stored(server).length, 2);  // asks first
    await page.click('#conversation-dialog .delete');
    await wait(() => stored(server).length === 1);
    await page.waitFor(() => document.querySelectorAll('.entry').length === 1);
    assert.ok(!(await page.text()).includes('stripes'));
  },

  async a_private_conversation_stays_in_the_browser({page, server}) {
    await page.waitFor(() => document.getElementById('private') && !document.querySelector('.top .badge'));
    await page.press_button('#private');
    await converse(page, server, 'a secret', 'Nobody knows.', true);
    await page.shows('private', '.top');
    assert.deepEqual(stored(server), []);
    await page.tab.reload();
    await page.shows('Nobody knows.');
    await page.fill('#search', 'nobody');
    await page.waitFor(() => document.querySelector('.entry mark'));
    assert.equal(await page.property('.entry mark', 'textContent'), 'Nobody');
  },

  async a_server_without_history_leaves_it_to_the_browser({page, server}) {
    server.keepsHistory = false;
    await page.tab.reload();
    await page.waitFor(() => document.getElementById('model')?.textContent);
    assert.equal(await page.count('#private'), 0);
    await converse(page, server, 'hello', 'Kept here.');
    await page.tab.reload();
    await page.shows('Kept here.');
  },

  async a_deleted_message_takes_what_follows_with_it({page, server}) {
    await converse(page, server, 'one', 'first answer');
    await converse(page, server, 'two', 'second answer');
    // Of two requests the second could arrive first: a question is stored in the same one as the beginning of its answer.
    assert.deepEqual(stored(server)[0].writes.slice(0, 1), [['user', 'assistant']]);
    await page.press_button('.user-turn:nth-of-type(3) .remove');
    await page.waitFor(() => document.querySelectorAll('.user').length === 1);
    await page.send('three');
    const third = await server.next();
    assert.deepEqual(third.messages.map((m) => m.content), ['one', 'first answer', 'three']);
    third.answer('third answer');
    await page.idle();
  },

  async conversations_leave_and_return_as_files({page, server}, {folder}) {
    const downloads = await files(page, folder);
    await converse(page, server, 'about **files**', 'They have names.');
    await page.press_button('.entry .edit-entry');
    const buttons = '#conversation-dialog .actions.start button';
    await page.click(`${buttons}:nth-child(1)`);
    const markdown = await downloads.next('.md');
    assert.match(markdown.text, /## You\n\nabout \*\*files\*\*\n\n## Assistant\n\nThey have names\./);
    await page.click(`${buttons}:nth-child(2)`);
    const json = await downloads.next('.json');
    await page.press('Escape');
    const input = await page.tab.$('.foot input[type=file]');
    await input.uploadFile(json.path);
    await page.waitFor(() => document.querySelectorAll('.entry').length === 2);
    await page.shows('They have names.');
    await wait(() => stored(server).length === 2);
    assert.deepEqual(...stored(server).map((c) => c.messages.map((m) => [m.role, m.content])));
    const wrong = join(folder, 'wrong.json');
    await writeFile(wrong, '{"format": "other"}');
    await input.uploadFile(wrong);
    await page.shows('is no conversation that Studio exported', '#notice');
  },

  async choices_reach_the_request({page, server}) {
    await page.press('Control+,');
    await page.fill('#system', 'Be brief.');
    await page.fill('#option-temperature', '0.2');
    await page.fill('#max-tokens', '64');
    await page.tab.select('#effort', 'budget');
    await page.fill('#budget', '300');
    await page.fill('#json-schema', '{"type": "objekt"}');
    await page.shows('is no type of JSON Schema', '#json-schema-help');
    await page.fill('#json-schema', '{"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}}');
    await page.shows('there is nothing at #/$defs/b', '#json-schema-help');
    await page.fill('#json-schema', '{"type": "object"');
    await page.shows('This is no JSON', '#json-schema-help');
    await page.fill('#json-schema', '{"type": "object"}');
    await page.shows('Valid.', '#json-schema-help');
    await page.press_button('#logprobs');
    await page.fill('.row input[placeholder="Name"]', 'mine');
    await page.press('Enter');
    await page.shows('mine', '.presets');
    await page.send('hello');
    const {body: {conversation, ...body}} = await server.next();
    const [kept] = stored(server);
    assert.deepEqual(conversation, {id: kept.id, message: kept.messages.at(-1).id});
    assert.deepEqual(body, {
      messages: [{role: 'system', content: 'Be brief.'}, {role: 'user', content: 'hello'}], stream: true,
      stream_options: {include_usage: true}, temperature: 0.2, max_tokens: 64, thinking_budget: 300,
      response_format: {type: 'json_schema', json_schema: {name: 'answer', schema: {type: 'object'}}},
      logprobs: true, top_logprobs: 8,
    });
    await page.press('Escape');
    await page.idle();
    await page.fill('#option-temperature', '-1');
    await page.press('Tab');
    await page.shows('From 0 to 100.', '#option-temperature-help');
    await page.tab.reload();  // choices are kept
    await page.waitFor(() => document.getElementById('model')?.textContent);
    await page.press('Control+,');
    assert.equal(await page.property('#system', 'value'), 'Be brief.');
  },

  async probabilities_of_tokens_are_shown({page, server}) {
    await page.send('hello');
    const first = await server.next();
    first.token([['Good', Math.log(0.5)], ['Bad', Math.log(0.25)]]);
    first.token([[' day', Math.log(0.95)], [' night', Math.log(0.04)]], {from_draft: true});
    first.finish();
    await page.shows('Good day');
    await page.idle();
    await page.press_button('.look');
    await page.tab.hover('.token');
    await page.shows('Good 50.0 %', '.alternatives');
    await page.shows('Bad 25.0 %', '.alternatives');
    await page.tab.focus('.token-text');
    await page.press('ArrowRight');
    await page.shows('␣night 4.0 %', '.alternatives');
    await page.shows('from a draft', '.alternatives');
    assert.deepEqual(await page.evaluate(() => [...document.querySelectorAll('.token')].map((e) => e.className.trim().replace(/ +/g, ' '))),
                     ['token s2', 'token s0 drafted chosen']);
  },

  async two_sides_get_the_same_prompt_and_seed({page, server}) {
    server.model = ['fake-model', 'other'];
    await page.tab.reload();
    await page.click('#view-compare');
    await page.type('compare me', '#compare-prompt');
    await page.tab.select('.side:nth-child(2) select', 'other');
    await page.click('#compare-run');
    const [a, b] = [await server.next(), await server.next()].sort((x, y) => x.body.model.localeCompare(y.body.model));
    assert.deepEqual([a.body.model, b.body.model], ['fake-model', 'other']);
    assert.deepEqual(a.messages, b.messages);
    assert.equal(a.body.seed, b.body.seed);
    a.answer('the same');
    b.answer('the same');
    await page.shows('Both answers are the same', '.view');
  },

  async a_text_is_shown_in_tokens({page, server}) {
    await page.click('#view-tokens');
    await page.fill('#token-input', 'one two three');
    await page.shows('3 tokens, 13 characters', '#token-count');
    assert.equal(await page.count('.piece'), 3);
  },

  async the_keyboard_is_enough({page, server}) {
    const focused = () => page.evaluate(() => document.activeElement?.getAttribute('aria-label') ?? document.activeElement?.textContent?.trim());
    // In the composer '/' is text; elsewhere it leads there, before the next key.
    await page.press('/');
    assert.equal(await page.draft(), '/');
    await page.press('Backspace');
    await page.tab.focus('#menu');
    for (const key of ['/', 'h', 'e', 'y', 'Enter']) await page.press(key);
    const first = await server.next();
    assert.equal(first.messages[0].content, 'hey');
    first.answer('answer');
    await page.shows('answer');
    await page.idle();
    const seen = new Set();
    for (let i = 0; i < 60; ++i) {
      await page.press('Tab');
      seen.add(await focused());
    }
    for (const control of ['New chat', 'Search the history', 'Settings', 'Regenerate', 'Copy', 'Your message', 'Compare', 'Conversation']) {
      assert.ok([...seen].some((name) => name?.includes(control)), `${control} is not reached; seen: ${[...seen].join(' | ')}`);
    }
    // Keys that follow each other at once.
    await page.press('Control+/');
    await page.press('Escape');
    await page.waitFor(() => !document.querySelector('dialog'));
    await page.press('Control+k');
    await page.press('x');
    assert.equal(await page.property('#search', 'value'), 'x');
    await page.press('Control+Shift+o');
    await page.press('y');
    await page.waitFor(() => !document.querySelector('.user') && document.activeElement.id === 'text' &&
        document.activeElement.value === 'y');
  },

  async french_and_right_to_left({page, server}, {browser, StudioPage}) {
    const visitor = await StudioPage.create(browser, {language: 'fr'});
    try {
      await visitor.open(server.url);
      await visitor.shows('Nouvelle discussion', '.sidebar');
      assert.equal(await visitor.evaluate(() => document.documentElement.lang), 'fr');
      await visitor.send('مرحبا');
      (await server.next()).answer('أهلا بك\n\nBonjour');
      await visitor.shows('Bonjour');
      await visitor.idle();
      assert.deepEqual(await visitor.evaluate(() => [
        getComputedStyle(document.querySelector('.user')).direction,
        ...[...document.querySelectorAll('.assistant p')].map((p) => getComputedStyle(p).direction),
      ]), ['rtl', 'rtl', 'ltr']);
    } finally {
      await visitor.close();
    }
  },
};
