// Responses through OpenAI's own client library:
//   openai_responses.mjs CHIMERE MODEL
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import {zodTextFormat} from 'openai/helpers/zod';
import {z} from 'zod';
import {startServer} from './server.mjs';

const [program, modelFile] = process.argv.slice(2);
const parameters = {
  type: 'object',
  properties: {word: {enum: ['ä <b>', 'x']}, count: {type: 'integer', minimum: 1, maximum: 9}},
  required: ['word', 'count'],
  additionalProperties: false,
};
const tools = [{type: 'function', name: 'find_thing', description: 'Finds a thing.', parameters, strict: true}];
const input = 'What does the command ls do?';

async function streamed(client, request) {
  const stream = client.responses.stream(request);
  const events = [];
  stream.on('event', (event) => events.push(event));
  const response = await stream.finalResponse();
  assert.deepEqual(events.map((e) => e.sequence_number), events.map((_, i) => i));
  assert.deepEqual(events.slice(0, 2).map((e) => e.type), ['response.created', 'response.in_progress']);
  assert.match(events.at(-1).type, /^response\.(completed|incomplete)$/);
  for (const [begin, end] of [['output_item.added', 'output_item.done'], ['content_part.added', 'content_part.done']]) {
    assert.equal(events.filter((e) => e.type === `response.${begin}`).length, events.filter((e) => e.type === `response.${end}`).length);
  }
  const text = events.filter((e) => e.type === 'response.output_text.delta').map((e) => e.delta).join('');
  assert.equal(text, response.output_text);
  return response;
}

async function checkText(client, model) {
  for (const effort of ['none', 'low']) {
    const request = {model, input, instructions: 'Be brief.', temperature: 0, max_output_tokens: 200, reasoning: {effort}};
    const whole = await client.responses.create(request);
    assert.ok(['completed', 'incomplete'].includes(whole.status));
    const other = await streamed(client, request);
    assert.equal(other.output_text, whole.output_text);
    assert.deepEqual(other.output.map((o) => o.type), whole.output.map((o) => o.type));
    assert.equal(whole.output.some((o) => o.type === 'reasoning'), effort === 'low');
    assert.equal(whole.store, true);
    // The reasoning can be sent back.
    const next = await client.responses.create({model, temperature: 0, max_output_tokens: 4, reasoning: {effort},
      input: [{role: 'user', content: input}, ...whole.output, {role: 'user', content: 'And cat?'}]});
    const counted = await client.post('/responses/input_tokens', {body: {model, reasoning: {effort},
      input: [{role: 'user', content: input}, ...whole.output, {role: 'user', content: 'And cat?'}]}});
    assert.equal(counted.input_tokens, next.usage.input_tokens);
  }
  const short = await client.responses.create({model, input, max_output_tokens: 2, reasoning: {effort: 'none'}});
  assert.equal(short.status, 'incomplete');
  assert.deepEqual(short.incomplete_details, {reason: 'max_output_tokens'});
  const Answer = z.object({final: z.boolean(), n: z.number().int()});
  const parsed = await client.responses.parse({model, input, temperature: 1, max_output_tokens: 300, reasoning: {effort: 'none'},
    text: {format: zodTextFormat(Answer, 'answer')}});
  Answer.parse(parsed.output_parsed);
}

async function checkToolsAndChain(client, model) {
  const request = {model, input, tools, tool_choice: 'required', parallel_tool_calls: false, temperature: 0, max_output_tokens: 300,
    reasoning: {effort: 'none'}};
  const call = (response) => response.output.find((o) => o.type === 'function_call');
  const first = await client.responses.create(request);
  const again = await streamed(client, request);
  assert.equal(call(again).arguments, call(first).arguments);
  const {word, count} = JSON.parse(call(first).arguments);
  assert.ok(parameters.properties.word.enum.includes(word) && count >= 1 && count <= 9);
  // The same conversation, continued by its id and sent as a whole, has the same prompt.
  for (const made of [first, again]) {
    const output = {type: 'function_call_output', call_id: call(made).call_id, output: 'none'};
    const rest = {model, tools, tool_choice: 'none', temperature: 0, max_output_tokens: 8, reasoning: {effort: 'none'}};
    const chained = await client.responses.create({...rest, previous_response_id: made.id, input: [output]});
    const sent = await client.responses.create({...rest, input: [{role: 'user', content: input}, ...made.output, output]});
    assert.equal(chained.usage.input_tokens, sent.usage.input_tokens);
    assert.equal(chained.output_text, sent.output_text);
    const third = await client.responses.create({...rest, previous_response_id: chained.id, input: 'And cat?'});
    assert.ok(third.usage.input_tokens > chained.usage.input_tokens);
  }
  const stored = await client.responses.retrieve(first.id);
  assert.deepEqual(stored.output, first.output);
  const items = [];
  for await (const item of client.responses.inputItems.list(first.id)) items.push(item);
  assert.equal(items[0].content[0].text, input);
  const turns = ['a', 'b', 'c'].map((content) => ({role: 'user', content}));
  const long = await client.responses.create({model, input: turns, max_output_tokens: 2, reasoning: {effort: 'none'}});
  for (const [order, expected] of [['asc', 'abc'], ['desc', 'cba']]) {
    let listed = '';
    for await (const item of client.responses.inputItems.list(long.id, {order, limit: 2})) listed += item.content;
    assert.equal(listed, expected);
  }
  await assert.rejects(client.get(`/responses/${long.id}/input_items`, {query: {limit: 0}}), OpenAI.BadRequestError);
  await client.responses.delete(first.id);
  await assert.rejects(client.responses.retrieve(first.id), OpenAI.NotFoundError);
  const unstored = await client.responses.create({model, input, store: false, max_output_tokens: 2});
  await assert.rejects(client.responses.retrieve(unstored.id), OpenAI.NotFoundError);
}

async function checkLogprobs(client, model) {
  const request = {model, input, temperature: 0, max_output_tokens: 40, reasoning: {effort: 'low'}, top_logprobs: 2,
    include: ['message.output_text.logprobs']};
  const whole = await client.responses.create({...request, reasoning: {effort: 'none'}});
  const part = whole.output.find((o) => o.type === 'message').content[0];
  assert.equal(part.logprobs.map((l) => l.token).join(''), part.text);
  for (const l of part.logprobs) {
    assert.ok(l.logprob <= 0 && l.top_logprobs.length === 2 && l.top_logprobs[0].logprob >= l.top_logprobs[1].logprob);
    assert.deepEqual(l.bytes, [...Buffer.from(l.token)]);
  }
  assert.equal(whole.top_logprobs, 2);
  const deltas = [];
  const stream = client.responses.stream({...request, reasoning: {effort: 'none'}});
  stream.on('response.output_text.delta', (event) => deltas.push(...event.logprobs));
  await stream.finalResponse();
  assert.deepEqual(deltas, part.logprobs);
  // Tokens of the reasoning are none of the message.
  const both = await client.responses.create({...request, max_output_tokens: 200});
  const message = both.output.find((o) => o.type === 'message');
  if (message) assert.equal(message.content[0].logprobs.map((l) => l.token).join(''), message.content[0].text);
  const without = await client.responses.create({model, input, max_output_tokens: 2, reasoning: {effort: 'none'}});
  assert.deepEqual(without.output[0].content[0].logprobs, []);
}

// What Codex sends: tools that only OpenAI's servers run, and reasoning that must come back unread.
async function checkCodex(client, model) {
  const {data, response} = await client.responses.create({model, input, store: false, temperature: 0, max_output_tokens: 200,
    tools: [...tools, {type: 'web_search'}, {type: 'namespace', name: 'agents', tools: []}, {type: 'custom', name: 'apply_patch'}],
    tool_choice: 'auto', include: ['reasoning.encrypted_content'], reasoning: {effort: 'low', summary: 'auto'}}).withResponse();
  assert.match(response.headers.get('x-chimere-warning'), /3 of the 'tools' \('web_search', 'agents', 'apply_patch'\)/);
  const [reasoning] = data.output;
  assert.equal(reasoning.type, 'reasoning');
  const {content, ...carried} = reasoning;
  assert.ok(carried.encrypted_content.length > content[0].text.length);
  for (const encrypted_content of [carried.encrypted_content, 'of another server']) {
    await client.responses.create({model, store: false, max_output_tokens: 2, input: [{role: 'user', content: input},
      {...carried, encrypted_content}, {role: 'assistant', content: 'It lists.'}, {role: 'user', content: 'And cat?'}]});
  }
}

async function checkCancel(client, model) {
  // It cannot end before it is cancelled.
  const long = {model, input, max_output_tokens: 16000, reasoning: {effort: 'none'},
    text: {format: {type: 'json_schema', name: 'n', schema: {type: 'string', minLength: 6000, maxLength: 6000}}}};
  const stream = await client.responses.create({...long, stream: true});
  let id;
  const events = [];
  for await (const event of stream) {
    events.push(event.type);
    if (event.type === 'response.created') ({id} = event.response);
    if (events.length === 8) assert.equal((await client.responses.cancel(id)).status, 'cancelled');
    if (event.type === 'response.failed') {
      assert.equal(event.response.status, 'cancelled');
      assert.equal(event.response.output[0].status, 'incomplete');
      assert.ok(event.response.output[0].content[0].text.length > 0);
    }
  }
  assert.deepEqual(events.slice(-2), ['response.output_item.done', 'response.failed']);
  await assert.rejects(client.responses.cancel('resp_none'), OpenAI.NotFoundError);
  const ended = await client.responses.create({model, input, max_output_tokens: 2});
  assert.equal((await client.responses.cancel(ended.id)).status, 'incomplete');
}

async function checkErrors(client, model) {
  const refused = async (more, param) => {
    await assert.rejects(client.responses.create({model, input, ...more}), (e) => {
      assert.ok(e instanceof OpenAI.BadRequestError, `${e}`);
      assert.ok(e.param.startsWith(param), e.param);
      return true;
    });
  };
  await refused({previous_response_id: 'resp_none'}, 'previous_response_id');
  await refused({background: true}, 'background');
  await refused({conversation: 'conv_1'}, 'conversation');
  await refused({truncation: 'auto'}, 'truncation');
  await refused({input: [{role: 'user', content: [{type: 'input_image', image_url: 'data:'}]}]}, 'input[0].content[0].type');
  await refused({input: [{role: 'user', content: [{type: 'input_file', file_id: 'f'}]}]}, 'input[0].content[0].type');
  await refused({top_logprobs: 21}, 'top_logprobs');
  await refused({include: ['file_search_call.results']}, 'include');
}

const server = await startServer(program, modelFile, '--response-store', '1');
try {
  const client = new OpenAI({baseURL: `${server.url}/v1`, apiKey: 'any', maxRetries: 0});
  for (const check of [checkText, checkToolsAndChain, checkLogprobs, checkCodex, checkCancel, checkErrors]) {
    await check(client, server.model);
    console.log(`${check.name}: as the library expects`);
  }
} finally {
  server.child.kill();
}
