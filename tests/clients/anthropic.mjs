// Messages through Anthropic's own client library:
//   anthropic.mjs CHIMERE MODEL
import assert from 'node:assert/strict';
import Anthropic from '@anthropic-ai/sdk';
import {startServer} from './server.mjs';

const [program, modelFile] = process.argv.slice(2);
const schema = {
  type: 'object',
  properties: {word: {enum: ['ä <b>', 'x']}, count: {type: 'integer', minimum: 1, maximum: 9}},
  required: ['word', 'count'],
  additionalProperties: false,
};
const tools = [{name: 'find_thing', description: 'Finds a thing.', input_schema: schema}];
const messages = [{role: 'user', content: [{type: 'text', text: 'What does the command ls do?', cache_control: {type: 'ephemeral'}}]}];
const total = (usage) => usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens;

function checkCall(message) {
  assert.equal(message.stop_reason, 'tool_use');
  const [call] = message.content.filter((b) => b.type === 'tool_use');
  assert.match(call.id, /^toolu_|^[a-zA-Z0-9]{9}$/);
  assert.equal(call.name, 'find_thing');
  assert.ok(schema.properties.word.enum.includes(call.input.word) && call.input.count >= 1 && call.input.count <= 9, JSON.stringify(call));
  return call;
}

async function checkText(client, model) {
  for (const thinking of [undefined, {type: 'enabled', budget_tokens: 32}, {type: 'adaptive'}, {type: 'disabled'}]) {
    const request = {model, messages, system: [{type: 'text', text: 'Be brief.'}], max_tokens: 60, temperature: 0, thinking};
    const whole = await client.messages.create(request);
    const stream = client.messages.stream(request);
    const types = [];
    stream.on('streamEvent', (event) => types.push(event.type));
    const streamed = await stream.finalMessage();
    assert.deepEqual(streamed.content.map((b) => [b.type, b.text ?? b.thinking]), whole.content.map((b) => [b.type, b.text ?? b.thinking]));
    assert.equal(streamed.stop_reason, whole.stop_reason);
    assert.equal(streamed.usage.output_tokens, whole.usage.output_tokens);
    assert.equal(types[0], 'message_start');
    assert.deepEqual(types.slice(-2), ['message_delta', 'message_stop']);
    assert.equal(types.filter((t) => t === 'content_block_start').length, types.filter((t) => t === 'content_block_stop').length);
    if (!thinking || thinking.type === 'disabled') assert.ok(whole.content.every((b) => b.type === 'text'));
    const {max_tokens, temperature, ...counted} = request;
    const {input_tokens} = await client.messages.countTokens(counted);
    assert.equal(input_tokens, total(whole.usage));
    assert.equal(input_tokens, total(streamed.usage));
  }
  const stopped = await client.messages.create({model, messages: [...messages, {role: 'assistant', content: 'a b c d e f'}],
    max_tokens: 40, temperature: 0, stop_sequences: [' ', '\n', '.', ',', 'e', 'a']});
  assert.equal(stopped.stop_reason, 'stop_sequence');
  assert.ok([' ', '\n', '.', ',', 'e', 'a'].includes(stopped.stop_sequence));
  const short = await client.messages.create({model, messages, max_tokens: 2, temperature: 0});
  assert.equal(short.stop_reason, 'max_tokens');
}

async function checkTools(client, model) {
  for (const tool_choice of [{type: 'any', disable_parallel_tool_use: true}, {type: 'tool', name: 'find_thing', disable_parallel_tool_use: true}]) {
    for (const temperature of [0, 1.4]) {
      const request = {model, messages, tools, tool_choice, max_tokens: 400, temperature, seed: 5};
      const whole = await client.messages.create(request);
      const call = checkCall(whole);
      const streamed = await client.messages.stream(request).finalMessage();
      assert.deepEqual(checkCall(streamed).input, call.input);
      const turn = [...messages, {role: 'assistant', content: whole.content},
        {role: 'user', content: [{type: 'tool_result', tool_use_id: call.id, content: [{type: 'text', text: 'none'}], is_error: true},
          {type: 'text', text: 'So?'}]}];
      const last = await client.messages.create({model, messages: turn, tools, tool_choice: {type: 'none'}, max_tokens: 8});
      assert.ok(last.content.every((b) => b.type !== 'tool_use'));
      const {input_tokens} = await client.messages.countTokens({model, messages: turn, tools, tool_choice: {type: 'none'}});
      assert.equal(input_tokens, total(last.usage));
    }
  }
}

// Two calls in one message, whose results come in one message and in any order.
async function checkParallelResults(client, model) {
  const call = (id, word) => ({type: 'tool_use', id, name: 'find_thing', input: {word, count: 1}});
  const found = (tool_use_id, content) => ({type: 'tool_result', tool_use_id, content});
  const turn = [...messages, {role: 'assistant', content: [{type: 'text', text: 'I look.'}, call('toolu_1', 'x'), call('toolu_2', 'ä <b>')]},
    {role: 'user', content: [found('toolu_2', 'two'), found('toolu_1', [{type: 'text', text: 'one'}])]}];
  const request = {model, messages: turn, tools, max_tokens: 8, temperature: 0};
  const whole = await client.messages.create(request);
  const {input_tokens} = await client.messages.countTokens({model, messages: turn, tools});
  assert.equal(input_tokens, total(whole.usage));
  const without = await client.messages.countTokens({model, messages: turn.slice(0, 2), tools});
  assert.ok(input_tokens > without.input_tokens);
}

// What Claude Code sends.
async function checkClaudeCode(client, model) {
  const stream = client.beta.messages.stream({
    model, max_tokens: 32, stream: true, temperature: 1, betas: ['claude-code-20250219', 'interleaved-thinking-2025-05-14'],
    metadata: {user_id: 'user_1_account__session_2'},
    system: [{type: 'text', text: 'x-anthropic-billing-header: cc_version=2.1.0; cc_entrypoint=cli; cch=1a2b3;'},
      {type: 'text', text: "You are Claude Code, Anthropic's official CLI for Claude.", cache_control: {type: 'ephemeral'}}],
    thinking: {type: 'adaptive'}, output_config: {effort: 'low'},
    context_management: {edits: [{type: 'clear_thinking_20251015', keep: 'all'}]},
    tools: [{...tools[0], eager_input_streaming: true, cache_control: {type: 'ephemeral'}}],
    messages: [{role: 'user', content: [{type: 'text', text: '<system-reminder>\nBe quick.\n</system-reminder>'}, {type: 'text', text: 'hi'}]}],
    some_later_field: {a: 1},
  });
  const {response} = await stream.withResponse();
  assert.equal(response.headers.get('x-chimere-volatile-lines'), 'billing');
  assert.match(response.headers.get('x-chimere-warning'), /some_later_field/);
  assert.match(response.headers.get('request-id'), /^req_/);
  const message = await stream.finalMessage();
  assert.ok(message.usage.output_tokens > 0);
}

// Reasoning whose text is left out comes back in its signature, and marked prompts count as written to the cache.
async function checkOmittedThinking(client, model) {
  const request = {model, messages, max_tokens: 200, temperature: 0, thinking: {type: 'enabled', budget_tokens: 32, display: 'omitted'}};
  const whole = await client.messages.create(request);
  const [block] = whole.content;
  assert.deepEqual([block.type, block.thinking], ['thinking', '']);
  const streamed = await client.messages.stream(request).finalMessage();
  assert.deepEqual(streamed.content[0], block);
  const shown = await client.messages.create({...request, thinking: {type: 'enabled', budget_tokens: 32}});
  // Of a message that is continued the template shows the reasoning.
  const counted = async (content) => (await client.messages.countTokens({model, messages: [...messages, {role: 'assistant', content}]})).input_tokens;
  assert.equal(await counted(whole.content), await counted(shown.content));
  assert.ok(await counted(whole.content) > await counted([{...block, signature: 'of another server'}, ...whole.content.slice(1)]));
  const {usage} = await client.messages.create({...request, system: [{type: 'text', text: `${Date.now()}`, cache_control: {type: 'ephemeral'}}]});
  assert.ok(usage.cache_creation_input_tokens > 0 && usage.input_tokens === 0, JSON.stringify(usage));
  const {data, response} = await client.messages.create({model, messages, max_tokens: 4,
    tools: [...tools, {type: 'web_search_20250305', name: 'web_search'}]}).withResponse();
  assert.ok(data.usage.output_tokens > 0);
  assert.match(response.headers.get('x-chimere-warning'), /'web_search'/);
}

async function checkErrors(client, model) {
  const refused = async (more, type, text) => {
    await assert.rejects(client.messages.create({model, messages, max_tokens: 4, ...more}), (e) => {
      assert.equal(e.error.type, 'error');
      assert.equal(e.error.error.type, type);
      assert.match(e.error.error.message, text);
      return true;
    });
  };
  await refused({max_tokens: undefined}, 'invalid_request_error', /max_tokens/);
  await refused({model: 'claude-none'}, 'not_found_error', /claude-none/);
  await refused({messages: [{role: 'user', content: [{type: 'image', source: {}}]}]}, 'invalid_request_error', /messages\[0\]\.content\[0\]\.type/);
  await refused({messages: [{role: 'user', content: [{type: 'tool_use', id: 'a', name: 'f', input: {}}]}]}, 'invalid_request_error', /tool_use/);
  await refused({tool_choice: {type: 'any'}}, 'invalid_request_error', /tool_choice/);
  await refused({mcp_servers: [{}]}, 'invalid_request_error', /mcp_servers/);
  await refused({messages: [{role: 'tool', content: 'x'}]}, 'invalid_request_error', /role/);
  const list = await client.models.list();
  assert.ok(list.data.some((m) => m.id === model && m.type === 'model'));
}

const server = await startServer(program, modelFile, '--strict-names');
try {
  const client = new Anthropic({baseURL: server.url, apiKey: 'any', maxRetries: 0});
  for (const check of [checkText, checkTools, checkParallelResults, checkClaudeCode, checkOmittedThinking, checkErrors]) {
    await check(client, server.model);
    console.log(`${check.name}: as the library expects`);
  }
} finally {
  server.child.kill();
}
