// Ollama's API through its own client library:
//   ollama.mjs CHIMERE MODEL EMBEDDER
import assert from 'node:assert/strict';
import {Ollama} from 'ollama';
import {startServer} from './server.mjs';

const [program, modelFile, embedder] = process.argv.slice(2);
const parameters = {type: 'object', properties: {word: {enum: ['ä', 'x']}}, required: ['word'], additionalProperties: false};
const tools = [{type: 'function', function: {name: 'find_thing', description: 'Finds a thing.', parameters}}];
const messages = [{role: 'user', content: 'What does the command ls do?'}];

async function collect(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  assert.ok(parts.at(-1).done && parts.slice(0, -1).every((p) => !p.done));
  return parts;
}

async function checkChat(ollama, model) {
  for (const think of [false, true]) {
    const request = {model, messages, think, options: {temperature: 0, num_predict: 60}};
    const whole = await ollama.chat(request);
    const parts = await collect(await ollama.chat({...request, stream: true}));
    assert.equal(parts.map((p) => p.message.content).join(''), whole.message.content);
    assert.equal(parts.map((p) => p.message.thinking ?? '').join(''), whole.message.thinking ?? '');
    assert.equal(Boolean(whole.message.thinking), think);
    const {done_reason, eval_count, prompt_eval_count, total_duration, eval_duration} = parts.at(-1);
    assert.deepEqual([done_reason, eval_count, prompt_eval_count], [whole.done_reason, whole.eval_count, whole.prompt_eval_count]);
    assert.ok(total_duration > 0 && eval_duration > 0);
  }
  const format = {type: 'object', properties: {n: {type: 'integer'}}, required: ['n'], additionalProperties: false};
  const json = await ollama.chat({model, messages, format, think: false, options: {temperature: 1, seed: 3, num_predict: 200}});
  assert.ok(Number.isInteger(JSON.parse(json.message.content).n));
  const short = await ollama.chat({model, messages, think: false, options: {num_predict: 2}});
  assert.equal(short.done_reason, 'length');
}

async function checkTools(ollama, model) {
  // Ollama's clients cannot require a call, so the conversation has one and its result.
  const call = {function: {name: 'find_thing', arguments: {word: 'x'}}};
  const turn = [...messages, {role: 'assistant', content: '', tool_calls: [call]}, {role: 'tool', tool_name: 'find_thing', content: 'none'}];
  const parts = await collect(await ollama.chat({model, messages: turn, tools, stream: true, think: false, options: {num_predict: 40}}));
  for (const part of parts) {
    for (const made of part.message.tool_calls ?? []) assert.equal(typeof made.function.arguments, 'object');
  }
}

async function checkGenerate(ollama, model) {
  const chat = await ollama.chat({model, messages, think: false, options: {temperature: 0, num_predict: 20}});
  const generated = await ollama.generate({model, prompt: messages[0].content, think: false, options: {temperature: 0, num_predict: 20}});
  assert.equal(generated.response, chat.message.content);
  const raw = await collect(await ollama.generate({model, prompt: 'ls lists', raw: true, stream: true, options: {num_predict: 8}}));
  assert.ok(raw.map((p) => p.response).join('').length > 0);
  const loaded = await ollama.generate({model, prompt: ''});
  assert.equal(loaded.done_reason, 'load');
  // A last message of the assistant is continued.
  const continued = await ollama.chat({model, messages: [...messages, {role: 'assistant', content: chat.message.content.slice(0, 9)}],
    options: {temperature: 0, num_predict: 20}});
  assert.ok(continued.eval_count > 0);
}

async function checkLogprobs(ollama, model) {
  const request = {model, messages, think: false, logprobs: true, top_logprobs: 2, options: {temperature: 0, num_predict: 12}};
  const whole = await ollama.chat(request);
  assert.equal(whole.logprobs.map((l) => l.token).join(''), whole.message.content);
  assert.ok(whole.logprobs.every((l) => l.logprob <= 0 && l.top_logprobs.length === 2));
  const parts = await collect(await ollama.chat({...request, stream: true}));
  assert.deepEqual(parts.flatMap((p) => p.logprobs ?? []), whole.logprobs);
  const generated = await ollama.generate({model, prompt: messages[0].content, think: false, logprobs: true, options: request.options});
  assert.deepEqual(generated.logprobs.map((l) => l.logprob), whole.logprobs.map((l) => l.logprob));
  assert.equal((await ollama.chat({...request, logprobs: false, top_logprobs: 0})).logprobs, undefined);
}

async function checkModels(ollama, model) {
  const {models} = await ollama.list();
  assert.ok(models.some((m) => m.name === model && m.size > 0 && m.details.family));
  const shown = await ollama.show({model: `${model}:latest`});
  assert.ok(shown.capabilities.includes('tools') && shown.template.length > 0);
  assert.ok((await ollama.ps()).models.length >= 1);
  const {version} = await ollama.version();
  assert.ok(version);
  const input = ['a cat', 'a dog', 'the moon'];
  const {embeddings} = await ollama.embed({model: 'chimere-embed', input});
  const one = await ollama.embeddings({model: 'chimere-embed', prompt: input[1]});
  assert.deepEqual(embeddings[1], one.embedding);
}

// What its programs ask before anything else.
async function checkRoot(url) {
  for (const method of ['HEAD', 'GET']) assert.equal((await fetch(url, {method})).status, 200);
}

async function checkErrors(ollama, model) {
  await assert.rejects(ollama.chat({model: 'none', messages}), /none/);
  await assert.rejects(ollama.chat({model, messages: [{role: 'user', content: 'a', images: ['aGk=']}]}), /images/);
  await assert.rejects(ollama.chat({model, messages, options: {num_predict: -9}}), /num_predict/);
  await assert.rejects(ollama.generate({model, prompt: 'a', suffix: 'b'}), /suffix/);
  await assert.rejects(ollama.chat({model, messages, top_logprobs: 3}), /top_logprobs/);
}

const server = await startServer(program, modelFile, '--strict-names', '--embedding-model', embedder);
try {
  const ollama = new Ollama({host: server.url});
  for (const check of [checkChat, checkTools, checkGenerate, checkLogprobs, checkModels, checkErrors]) {
    await check(ollama, server.model);
    console.log(`${check.name}: as the library expects`);
  }
  await checkRoot(server.url);
} finally {
  server.child.kill();
}
