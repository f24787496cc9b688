// An agent's session with tools, whose system message changes in every request, through Messages and Responses:
//   agent_session.mjs CHIMERE MODEL TURNS LINES
// LINES are of a manual in the system message: 1,450 make prompts of 28,000 tokens and more.
// At least 99% of each prompt but the first comes from the prefix cache, and counted tokens are those of the usage.
import assert from 'node:assert/strict';
import {once} from 'node:events';
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import {startServer} from './server.mjs';

const [program, modelFile, ...numbers] = process.argv.slice(2);
const [TURNS, LINES] = numbers.map(Number);
const schema = {
  type: 'object',
  properties: {path: {enum: ['src/main.cc', 'README.md', 'docs/api.md']}, line: {type: 'integer', minimum: 1, maximum: 9}},
  required: ['path', 'line'],
  additionalProperties: false,
};

// The same in every run.
function manual() {
  const words = ['list', 'open', 'file', 'print', 'line', 'copy', 'path', 'name', 'move', 'text', 'sort', 'count', 'find', 'user', 'group'];
  let state = 7;
  const next = () => words[(state = (state * 1103515245 + 12345) % 2147483648) % words.length];
  const lines = [];
  for (let i = 0; i < LINES; ++i) lines.push(`${i}. ${Array.from({length: 14}, next).join(' ')}.`);
  return lines.join('\n');
}
const guide = manual();

// The beginning of Claude Code's prompt, and lines of other agents that change, too.
function system(turn) {
  return [`x-anthropic-billing-header: cc_version=2.1.0; cc_entrypoint=cli; cch=${(turn * 7919).toString(16).padStart(5, '0')};`,
    `You are an agent that edits files.\nToken usage: ${1000 * turn}/200000; ${200000 - 1000 * turn} remaining\n` +
    `Current time: 2026-11-24 12:${String(turn).padStart(2, '0')}:00\nToday's date: 2026-11-24\n${guide}`];
}

async function warmups(url) {
  const text = await (await fetch(`${url}/metrics`)).text();
  const sum = (name) => [...text.matchAll(new RegExp(`^chimere_prefix_cache_warmups_${name}(?:\\{[^}]*\\})? (\\S+)$`, 'gm'))]
    .reduce((total, match) => total + Number(match[1]), 0);
  return {waiting: sum('waiting'), ended: sum('total')};
}

// An agent runs a tool between two requests; meanwhile the server computes what the next prompt begins with.
async function toolRuns(url, before) {
  for (let i = 0; i < 3000; ++i) {
    const {waiting, ended} = await warmups(url);
    if (waiting === 0 && ended > before) return;
    await new Promise((done) => setTimeout(done, 10));
  }
  throw new Error('the warm-up does not end');
}

const report = {};
function check(api, turn, prompt, cached) {
  const share = cached / prompt;
  const own = (report[api] ??= {least: 1, tokens: 0, first: prompt});
  own.tokens = prompt;
  if (turn === 0) return;
  own.least = Math.min(own.least, share);
  assert.ok(share >= 0.99, `${api}: turn ${turn}: ${cached} of ${prompt} tokens were cached`);
}

const result = (turn) => `Line ${turn}: the file has ${turn * 3} entries and was changed on day ${turn}.`;

async function messagesSession(url, model) {
  const client = new Anthropic({baseURL: url, apiKey: 'any', maxRetries: 0});
  const tools = [{name: 'read_file', description: 'Reads a line of a file.', input_schema: schema}];
  const messages = [{role: 'user', content: 'Find the entry point.'}];
  for (let turn = 0; turn < TURNS; ++turn) {
    const shared = {model, messages, tools, system: system(turn).map((text) => ({type: 'text', text, cache_control: {type: 'ephemeral'}})),
      tool_choice: {type: 'any', disable_parallel_tool_use: true}};
    const {input_tokens} = await client.messages.countTokens(shared);
    const {ended} = await warmups(url);
    const request = {...shared, max_tokens: 200, temperature: 1, seed: turn};
    const message = turn % 2 ? await client.messages.create(request) : await client.messages.stream(request).finalMessage();
    assert.equal(message.stop_reason, 'tool_use');
    const {usage} = message;
    const prompt = usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens;
    assert.equal(prompt, input_tokens);
    check('messages', turn, prompt, usage.cache_read_input_tokens);
    const call = message.content.find((b) => b.type === 'tool_use');
    messages.push({role: 'assistant', content: message.content},
      {role: 'user', content: [{type: 'tool_result', tool_use_id: call.id, content: result(turn)}]});
    await toolRuns(url, ended);
  }
}

async function responsesSession(url, model) {
  const client = new OpenAI({baseURL: `${url}/v1`, apiKey: 'any', maxRetries: 0});
  const tools = [{type: 'function', name: 'read_file', description: 'Reads a line of a file.', parameters: schema}];
  let input = 'Find the entry point.';
  let previous;
  for (let turn = 0; turn < TURNS; ++turn) {
    const shared = {model, input, tools, tool_choice: 'required', parallel_tool_calls: false, instructions: system(turn).join('\n'),
      previous_response_id: previous, reasoning: {effort: 'none'}};
    const {ended} = await warmups(url);
    const {input_tokens} = await client.post('/responses/input_tokens', {body: shared});
    const request = {...shared, max_output_tokens: 200, temperature: 1, seed: turn};
    const response = turn % 2 ? await client.responses.create(request) : await client.responses.stream(request).finalResponse();
    assert.equal(response.status, 'completed');
    assert.equal(response.usage.input_tokens, input_tokens);
    check('responses', turn, input_tokens, response.usage.input_tokens_details.cached_tokens);
    const call = response.output.find((o) => o.type === 'function_call');
    input = [{type: 'function_call_output', call_id: call.call_id, output: result(turn)}];
    previous = response.id;
    await toolRuns(url, ended);
  }
}

// The shipped models are trained for 16,384 tokens. What is cached does not depend on that, so a copy of the file declares more.
function longer(folder) {
  const bytes = readFileSync(modelFile);
  const key = Buffer.from('.context_length');
  const at = bytes.indexOf(key) + key.length;
  assert.equal(bytes.readUInt32LE(at), 4);  // the type u32
  bytes.writeUInt32LE(40960, at + 4);
  const path = join(folder, 'long.gguf');
  writeFileSync(path, bytes);
  return path;
}

const folder = mkdtempSync(join(tmpdir(), 'session-'));
const server = await startServer(program, longer(folder), '--response-store', '64', '--state-folder', join(folder, 'state'),
  '--prefix-disk', '0');
try {
  await messagesSession(server.url, server.model);
  await responsesSession(server.url, server.model);
  for (const [api, {least, tokens, first}] of Object.entries(report)) {
    console.log(`${api}: ${TURNS} turns, prompts of ${first} to ${tokens} tokens, at least ${(100 * least).toFixed(2)}% from the cache`);
  }
} finally {
  server.child.kill();
  await once(server.child, 'exit');
  rmSync(folder, {recursive: true, force: true});
}
