// Drives `chimere serve` with OpenAI's own client library:
//   openai_client.mjs CHIMERE MODEL EMBEDDING_MODEL
// Fails on the first difference from the behaviour that users of the library rely on.
import assert from 'node:assert/strict';
import {spawn} from 'node:child_process';
import {createInterface} from 'node:readline';
import OpenAI from 'openai';

const [program, modelFile, embeddingModel] = process.argv.slice(2);

async function startServer(...flags) {
  const child = spawn(program, ['serve', '--json', '--port', '0', '-m', modelFile, ...flags], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  for await (const line of createInterface({input: child.stdout})) {
    return {child, ...JSON.parse(line)};
  }
  throw new Error('the server did not start');
}

const messages = [{role: 'user', content: 'What does the command ls do?'}];

async function checkModels(client, model) {
  const list = await client.models.list();
  // The orchestrated names, where it is built, come last.
  const ids = list.data.map((m) => m.id);
  assert.deepEqual(ids.filter((id) => id.split(':')[0] !== 'odo'), [model]);
  assert.equal(ids[0], model);
  assert.equal((await client.models.retrieve(model)).id, model);
}

async function checkChat(client, model) {
  const whole = await client.chat.completions.create({
    model, messages, temperature: 0, max_tokens: 20, logprobs: true, top_logprobs: 3, store: true, user: 'x',
  });
  const [choice] = whole.choices;
  assert.ok(choice.message.content.length > 0);
  assert.ok(['stop', 'length'].includes(choice.finish_reason));
  assert.equal(choice.logprobs.content[0].top_logprobs.length, 3);
  assert.equal(whole.usage.total_tokens, whole.usage.prompt_tokens + whole.usage.completion_tokens);

  let text = '';
  let usage = null;
  const stream = await client.chat.completions.create({
    model, messages, temperature: 0, max_tokens: 20, stream: true, stream_options: {include_usage: true},
  });
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? '';
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, choice.message.content);
  assert.equal(usage.completion_tokens, whole.usage.completion_tokens);

  // The library's own accumulator.
  const runner = client.chat.completions.stream({model, messages, temperature: 0, max_tokens: 20});
  assert.equal(await runner.finalContent(), choice.message.content);
}

async function checkCompletion(client, model) {
  const whole = await client.completions.create({model, prompt: 'The ls command', max_tokens: 8, temperature: 0, logprobs: 1});
  assert.equal(whole.choices[0].logprobs.tokens.join(''), whole.choices[0].text);
}

async function checkErrors(client, model) {
  await assert.rejects(client.embeddings.create({model, input: 'x'}), (e) => {
    assert.ok(e instanceof OpenAI.BadRequestError);
    return e.code === 'model_does_not_embed';
  });
  await assert.rejects(client.chat.completions.create({model: 'gpt-9', messages}), OpenAI.NotFoundError);
  await assert.rejects(client.chat.completions.create({model, messages, temperature: -1}), (e) => {
    assert.ok(e instanceof OpenAI.BadRequestError);
    return e.param === 'temperature' && e.code === 'invalid_value';
  });
  await assert.rejects(client.chat.completions.create({model, messages, functions: [{name: 'f'}]}),
                       (e) => e.param === 'functions');
}

async function checkAbort(client, model) {
  const stream = await client.completions.create({model, prompt: 'The', max_tokens: 5000, stream: true, n: 4});
  for await (const chunk of stream) {
    assert.equal(chunk.object, 'text_completion');
    break;  // the library closes the connection
  }
}

async function checkEmbeddings() {
  const server = await startServer('--embedding-model', embeddingModel);
  try {
    const client = new OpenAI({baseURL: `${server.url}/v1`, apiKey: 'any', maxRetries: 0});
    const model = (await client.models.list()).data.map((m) => m.id).find((id) => id !== server.model);
    const input = ['copies files', 'removes files'];
    // The library asks for base64 unless a format is named.
    const packed = await client.embeddings.create({model, input});
    const plain = await client.embeddings.create({model, input, encoding_format: 'float'});
    assert.equal(packed.data.length, 2);
    for (const [i, {embedding}] of packed.data.entries()) {
      assert.equal(embedding.length, plain.data[i].embedding.length);
      embedding.forEach((x, d) => assert.ok(Math.abs(x - plain.data[i].embedding[d]) < 1e-6));
    }
    const short = await client.embeddings.create({model, input, dimensions: 8});
    assert.equal(short.data[1].embedding.length, 8);
    assert.ok(packed.usage.total_tokens > 2);
  } finally {
    server.child.kill();
  }
}

// A full queue answers 429 with Retry-After, and the library tries again by itself.
async function checkRetries() {
  const server = await startServer('--max-running', '1', '--max-queue', '0');
  try {
    const client = new OpenAI({baseURL: `${server.url}/v1`, apiKey: 'any', maxRetries: 5});
    const ask = () => client.completions.create({model: server.model, prompt: 'The', max_tokens: 30});
    const responses = await Promise.all([ask(), ask()]);
    assert.equal(responses.length, 2);
  } finally {
    server.child.kill();
  }
}

const server = await startServer('--strict-names');
try {
  const client = new OpenAI({baseURL: `${server.url}/v1`, apiKey: 'any', maxRetries: 0});
  for (const check of [checkModels, checkChat, checkCompletion, checkErrors, checkAbort]) {
    await check(client, server.model);
    console.log(`${check.name}: as the library expects`);
  }
} finally {
  server.child.kill();
}
await checkEmbeddings();
console.log('checkEmbeddings: as the library expects');
await checkRetries();
console.log('checkRetries: as the library expects');
