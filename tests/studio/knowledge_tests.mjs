// Collections, answers of the orchestrator, keys and requests, with a server of the test.
import assert from 'node:assert/strict';
import {writeFile} from 'node:fs/promises';
import {join} from 'node:path';
import {wait} from './support.mjs';

export const SOURCES = [
  {n: 1, name: 'tar', document: 'tar.md', place: 'Options, line 12', collection: 'notes', text: 'The option -x extracts an archive.', relevance: 0.83, cited: true},
  {n: 2, name: 'zip', document: 'zip.md', place: '', collection: 'notes', text: 'unzip extracts <b>zip</b> files.', relevance: 0.2, cited: false},
];

/// Steps and answer as src/orchestrator sends them.
export function orchestrate(generation, answer) {
  const step = (name, seconds, details) =>
    generation.event({choices: [{index: 0, delta: {}, finish_reason: null}], odo: {step: {name, seconds, ...details}}});
  step('route', 0.004, {pipeline: 'default', mode: 'quality', intent: 'question', reasons: ['the question asks for an option']});
  step('probe', 0.21, {confidence: 0.42, entropy: 2.1});
  step('retrieve', 0.34, {verdict: 'correct', sources: SOURCES.map(({n, name, place}) => ({n, name, place}))});
  generation.say(answer);
  generation.event({choices: [{index: 0, delta: {}, finish_reason: 'stop'}], odo: {mode: 'quality', passages: 'correct', sources: SOURCES}});
  generation.finish('stop', {prompt_tokens: 120, completion_tokens: 14});
}

export const knowledgeTests = {
  async collections_are_made_filled_searched_and_deleted({page, server}, {folder}) {
    await page.click('#view-collections');
    await page.fill('#collection-name', 'notes');
    await page.press('Enter');
    await page.shows('notes', '.collection h3');
    const text = join(folder, 'tar.md');
    const bytes = join(folder, 'manual.pdf');
    await writeFile(text, '# tar\n\nThe option -x extracts an archive.');
    await writeFile(bytes, Buffer.from([0, 1, 2, 255]));
    const input = await page.tab.waitForSelector('#collection-files');
    await input.uploadFile(text, bytes);
    await page.shows('1 of 2 documents were added.', '#collection-report');
    await page.shows("'manual.pdf' is no document.", '#collection-report');
    assert.deepEqual(server.added, [
      {name: 'tar.md', text: '# tar\n\nThe option -x extracts an archive.'}, {name: 'manual.pdf', data: 'AAEC/w=='},
    ]);
    await page.shows('tar.md', '.collection .plain-table');
    await page.fill('#collection-query', 'extracts');
    await page.press('Enter');
    await page.shows('The option -x extracts an archive.', '.passages');
    await page.fill('#collection-query', 'zebra');
    await page.press('Enter');
    await page.shows('Nothing was found.', '.passages');
    await page.press_button('.collection .plain-table tbody button');
    await page.waitFor(() => !document.querySelector('.collection .plain-table'));
    assert.equal(server.collections.get('notes').size, 0);
    await page.press_button('.view-inner > .table-box .danger');
    assert.equal(server.collections.size, 1);  // asks first
    await page.press_button('.view-inner > .table-box .danger');
    await wait(() => server.collections.size === 0);
    await page.waitFor(() => !document.querySelector('.collection'));
  },

  async an_orchestrated_answer_shows_its_steps_and_opens_what_it_cites({page, server}) {
    server.model = ['odo', 'fake-model'];
    server.collections.set('notes', new Map());
    await page.tab.reload();
    await page.waitFor(() => document.getElementById('model')?.value === 'odo');
    await page.press('Control+,');
    await page.shows('Passages from notes', '#orchestration');
    await page.press_button('#orchestration input');
    await page.tab.select('#odo-mode', 'quality');
    await page.send('How do I extract an archive?');
    const generation = await server.next();
    assert.deepEqual(generation.body.odo, {collections: ['notes'], mode: 'quality'});
    orchestrate(generation, 'Use the option `-x` [1]. Not [7], and not `[1]`.');
    await page.shows('Not [7]');
    await page.idle();
    await page.shows('3 steps', '.steps-taken summary');
    await page.press_button('.steps-taken summary');
    await page.shows('the question asks for an option', '.steps-taken');
    await page.shows('2 found, correct', '.steps-taken');
    await page.tab.waitForSelector('.cite');
    assert.equal(await page.count('.cite'), 1);
    assert.equal(await page.count('.sources details[open]'), 0);
    await page.click('.cite');
    await page.tab.waitForSelector('.sources details[open]');
    await page.shows('The option -x extracts an archive.', '.sources details[open]');
    await page.waitFor(() => document.activeElement.localName === 'summary');
    assert.equal(await page.count('.sources b'), 0);
    await wait(() => [...server.conversations.values()][0]?.messages.at(-1)?.data.sources?.length === 2);
    await page.tab.reload();  // kept with the message
    await page.tab.waitForSelector('.cite');
    await page.shows('zip (not cited)', '.sources');
  },

  async an_admin_sees_requests_and_makes_keys({page, server}) {
    await page.click('#view-server');
    await page.shows('/v1/chat/completions', '#requests');
    await page.shows('ann', '#keys .plain-table');
    await page.fill('#key-name', 'bob');
    await page.evaluate(() => [...document.querySelectorAll('#keys .check')].find((l) => l.textContent.trim() === 'metrics').click());
    await page.press_button('#key-create');
    await page.shows('chimere-secret-of-bob', '#new-key');
    await page.shows('bob', '#keys .plain-table');
    assert.deepEqual(server.keys.get('bob').scopes, ['inference']);
    await page.press_button('#keys tr:last-child .danger');
    assert.equal(server.keys.size, 2);  // asks first
    await page.press_button('#keys tr:last-child .danger');
    await wait(() => server.keys.size === 1);
    await page.waitFor(() => !document.querySelector('#keys .plain-table').textContent.includes('bob'));
  },

  async nothing_is_kept_when_the_history_is_off({page, server}) {
    await page.press('Control+,');
    await page.press_button('#keep-history');
    await page.shows('not kept', '.top');
    await page.send('a secret');
    (await server.next()).answer('Nobody knows.');
    await page.shows('Nobody knows.');
    await page.idle();
    await page.type('half a thought');
    await page.press_button('#reset');  // still there while the page is
    await page.press_button('.entry .open');
    await page.shows('Nobody knows.');
    assert.equal(server.conversations.size, 0);
    assert.ok(!server.requests.some((path) => path.startsWith('/v1/conversations/')));
    await page.tab.goto('about:blank');
    await page.open(server.url);
    assert.equal(await page.count('.entry'), 0);
    assert.equal(await page.draft(), '');
    assert.ok(!await page.evaluate(() => JSON.stringify({...localStorage}).includes('secret') || JSON.stringify({...localStorage}).includes('half a')));
  },
};
