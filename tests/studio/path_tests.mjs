// One path through every feature, walked with a mouse, on a phone, in the dark and with the keyboard alone.
import assert from 'node:assert/strict';
import {writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import {Hand} from './hand.mjs';
import {wait} from './support.mjs';

const user = (content) => ({role: 'user', content});
const assistant = (content) => ({role: 'assistant', content});
const stored = (server) => [...server.conversations.values()];

/// The steps of a walk; each begins where the one before ended.
class Walk {
  constructor(page, server, kind, folder) {
    Object.assign(this, {page, server, hand: new Hand(page, kind), folder});
  }

  /// With the keyboard by a shortcut, otherwise by the control.
  async command(chord, selector) {
    if (this.hand.keys) await this.page.press(chord);
    else await this.hand.use(selector);
  }

  async history() {
    if (!await this.page.count('.sidebar')) await this.hand.use('#menu');
    await this.page.tab.waitForSelector('.sidebar');
  }

  async open(view) {
    await this.history();
    await this.hand.use(`#view-${view}`);
    await this.page.tab.waitForSelector('.view h2');
  }

  async newChat() {
    await this.command('Control+Shift+o', '#reset');
    await this.page.waitFor(() => !document.querySelector('.turn'));
  }

  /// The request that follows.
  async send(text) {
    await this.hand.write('#text', text);
    await this.command('Enter', '#send');
    return this.server.next();
  }

  async answered(text) {
    await this.page.shows(text);
    await this.page.idle();
  }

  async chat() {
    const {page, server, hand} = this;
    const first = await this.send('about zebras');
    first.say('They have');
    await page.shows('They have');
    await this.command('Escape', '#stop');
    await first.closed;
    await this.answered('Stopped.');
    await hand.use('.continue');
    const second = await server.next();
    assert.deepEqual(second.messages, [user('about zebras'), assistant('They have')]);
    second.answer(' stripes.');
    await this.answered('They have stripes.');
    await hand.use('.assistant-turn .retry');
    const again = await server.next();
    assert.deepEqual(again.messages, [user('about zebras')]);
    again.answer('They live in Africa.');
    await this.answered('2/2');
    await hand.use('.assistant-turn .branches button:first-child');
    await this.answered('They have stripes.');
    if (hand.keys) {
      await hand.tabTo('#text');
      await page.press('ArrowUp');
    } else {
      await hand.use('.user-turn .edit');
    }
    await hand.write('.edit-text', 'about lions');
    await this.command('Enter', '.editor .primary');
    const edited = await server.next();
    assert.deepEqual(edited.messages, [user('about lions')]);
    edited.answer('They have manes.');
    await this.answered('They have manes.');
    await hand.use('.user-turn .branches button:first-child');
    await this.answered('They live in Africa.');
  }

  async settings() {
    const {page, server, hand} = this;
    await this.newChat();
    await this.command('Control+,', '#settings-button');
    await hand.write('#system', 'Be brief.');
    await hand.write('#option-temperature', '0.2');
    await hand.write('#json-schema', '{"type": "objekt"}');
    await page.shows('is no type of JSON Schema', '#json-schema-help');
    await hand.write('#json-schema', '{"type": "object"}');
    await page.shows('Valid.', '#json-schema-help');
    await hand.use('#logprobs');
    await hand.write('.presets ~ form input', 'mine');
    await hand.use('.presets ~ form button');
    await page.shows('mine', '.presets');
    await hand.write('#option-temperature', '0.9');
    await hand.use('.presets li button');
    await page.waitFor(() => document.getElementById('option-temperature').value === '0.2');
    await this.command('Escape', '.settings-head button');
    await page.waitFor(() => !document.getElementById('settings'));
    const {body} = await this.request('a form');
    assert.deepEqual([body.messages[0], body.temperature, body.response_format?.json_schema.schema, body.logprobs],
                     [{role: 'system', content: 'Be brief.'}, 0.2, {type: 'object'}, true]);
    await hand.use('.look');
    if (hand.keys) {
      await hand.tabTo('.token-text');
      await page.press('ArrowRight');
    } else {
      await hand.use('.token');
    }
    await page.shows('Bad 25.0 %', '.alternatives');
    await this.command('Control+,', '#settings-button');
    await hand.write('#json-schema', '');
    await this.command('Escape', '.settings-head button');
    await page.waitFor(() => !document.getElementById('settings'));
    assert.equal(stored(server).length, 2);
  }

  /// Sends a message and answers it in tokens with their probabilities.
  async request(text) {
    const generation = await this.send(text);
    generation.token([['Good', Math.log(0.5)], ['Bad', Math.log(0.25)]]);
    generation.finish('stop', {prompt_tokens: 20, completion_tokens: 1});
    await this.answered('Good');
    return generation;
  }

  async finding() {
    const {page, server, hand} = this;
    if (hand.keys) await page.press('Control+k');
    else await this.history();
    await hand.write('#search', 'zebras');
    await page.waitFor(() => document.querySelectorAll('.entry').length === 1 && document.querySelector('.entry mark'));
    await hand.use('.entry .open');
    await this.answered('They live in Africa.');
    await this.history();
    await hand.write('#search', '');
    await page.waitFor(() => document.querySelectorAll('.entry').length === 2);
    await hand.use('.entry.current .edit-entry');
    await page.tab.waitForSelector('#conversation-dialog');
    await hand.write('#conversation-dialog input', 'Striped animals');
    await this.command('Enter', '#conversation-dialog .primary');
    await page.shows('Striped animals', '.list');
    await wait(() => stored(server).some((c) => c.title === 'Striped animals'));
  }

  async privately() {
    const {page, server, hand} = this;
    await this.closeHistory();
    await this.newChat();
    await hand.use('#private');
    const generation = await this.send('a secret');
    generation.answer('Nobody knows.');
    await this.answered('Nobody knows.');
    await page.shows('private', '.top');
    assert.equal(stored(server).length, 2);
  }

  async closeHistory() {
    if (this.hand.kind === 'finger' && await this.page.count('.sidebar')) await this.hand.use('.sidebar .narrow-only');
  }

  async collections() {
    const {page, server, hand, folder} = this;
    await this.open('collections');
    await hand.write('#collection-name', 'notes');
    await hand.use('#collection-create');
    await page.shows('notes', '.collection h3');
    const file = join(folder, 'tar.md');
    await writeFile(file, 'The option -x extracts an archive.');
    await hand.chooseFile('#collection-files', file);
    await page.shows('1 of 1 documents were added.', '#collection-report');
    await hand.write('#collection-query', 'extracts');
    await hand.use('#collection-search');
    await page.shows('The option -x extracts an archive.', '.passages');
    await hand.use('.collection .plain-table tbody button');
    await wait(() => server.collections.get('notes').size === 0);
  }

  async looking() {
    const {page, server, hand} = this;
    await this.open('compare');
    await hand.write('#compare-prompt', 'compare me');
    await hand.use('#compare-run');
    for (const generation of [await server.next(), await server.next()]) generation.answer('the same');
    await page.shows('Both answers are the same', '.view');
    await this.open('tokens');
    await hand.write('#token-input', 'one two three');
    await page.shows('3 tokens, 13 characters', '#token-count');
    await this.open('server');
    await page.tab.waitForSelector('.chart canvas');
    await hand.write('#key-name', 'bob');
    await hand.use('#key-create');
    await page.shows('chimere-secret-of-bob', '#new-key');
    await this.history();
    await hand.use('.views button');
    await this.answered('Nobody knows.');
  }
}

async function walk({page, server}, {folder}, kind) {
  const way = new Walk(page, server, kind, folder);
  for (const part of ['chat', 'settings', 'finding', 'privately', 'collections', 'looking']) await way[part]();
}

export const pathTests = {
  async every_feature_with_a_mouse(given, tools) { await walk(given, tools, 'mouse'); },
  async every_feature_with_the_keyboard_alone(given, tools) { await walk(given, tools, 'keys'); },
  async every_feature_on_a_phone(given, tools) {
    await given.page.phone(390, 844);
    await given.page.open(given.server.url);
    await walk(given, tools, 'finger');
  },
};

export const pathDarkTests = {
  async every_feature_in_the_dark(given, tools) {
    const [r, g, b] = await given.page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number));
    assert.ok(r + g + b < 200, `the background is rgb(${r}, ${g}, ${b})`);
    await walk(given, tools, 'mouse');
  },
};
