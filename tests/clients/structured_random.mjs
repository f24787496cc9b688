// Random schemas and tools against `chimere serve`, judged by ajv through OpenAI's client:
//   structured_random.mjs CHIMERE RUNS MODEL...
// Each run is one request, sent whole and streamed, to a server without drafts and to one that verifies drafts of the MTP
// head in every step: all four answers must be the same. RUNS are for each of {reasoning or not} x {auto, required, named,
// json_schema}. TEST_SEED: the seed.
import assert from 'node:assert/strict';
import Ajv from 'ajv/dist/2020.js';
import OpenAI from 'openai';
import {Random, randomObjectSchema, randomSchema} from './random_schemas.mjs';
import {startServer} from './server.mjs';

const [program, runs, ...models] = process.argv.slice(2);
const seed = Number(process.env.TEST_SEED) || Date.now() % 2 ** 31;
const kAtOnce = 8;
const kMaxTokens = 300;
const kMarkup = /<\/?(think|tool_call)>|<\|/;

function randomTools(random) {
  const names = random.shuffled(['get_weather', 'f', 'look-up', 'Stop_2', 'a']);
  return names.slice(0, random.pick([1, 1, 1, 2, 3])).map((name) => {
    const f = {name};
    if (random.chance(0.7)) f.description = random.pick(['Does it.', 'Rechnet „schön“.', 'Ends "it" <now>\n']);
    if (random.chance(0.1)) f.parameters = {type: 'object', properties: {}};
    else if (random.chance(0.9)) f.parameters = randomObjectSchema(random, random.range(1, 2));
    if (f.parameters && random.chance(0.85)) f.strict = true;
    return {type: 'function', function: f};
  });
}

const kQuestions = [
  'What does the command ls do?', 'Look it up, please.', 'Wie wird das Wetter in Zürich?', 'Make something of this: {"a": [1, 2]}',
  'Call a function, or write <tool_call> and stop.', 'Write JSON.',
];

/// `ids`: tokens that begin a call and end a generation. They get a bias, so that unlimited text is short.
function randomRequest(random, choice, reasoning, ids) {
  const request = {
    messages: [{role: 'user', content: random.pick(kQuestions)}],
    max_tokens: kMaxTokens,
    temperature: random.pick([0, 0.3, 0.7, 1, 1.5, 1.5 * random.unit()]),
    seed: random.range(1, 2 ** 30),
  };
  if (random.chance(0.3)) Object.assign(request, {top_p: 1, top_k: 0});
  if (random.chance(0.2)) request.frequency_penalty = 0.5;
  if (reasoning) request.thinking_budget = random.range(1, 32);
  else request.reasoning_effort = 'none';
  if (choice === 'schema') {
    const schema = random.chance(0.8) ? randomObjectSchema(random, 2) : randomSchema(random, 2);
    request.response_format = {type: 'json_schema', json_schema: {name: 'n', schema, strict: random.chance(0.5)}};
    if (random.chance(0.3)) Object.assign(request, {logprobs: true, top_logprobs: random.range(0, 3)});
    return request;
  }
  request.tools = randomTools(random);
  request.tool_choice = choice;
  if (choice === 'named') request.tool_choice = {type: 'function', function: {name: random.pick(request.tools).function.name}};
  request.parallel_tool_calls = random.chance(0.4);
  if (choice !== 'named') request.logit_bias = {[ids.end]: request.parallel_tool_calls ? 4 : 1};
  if (choice === 'auto') {
    request.logit_bias[ids.call] = random.pick([0, 8, 14]);
    request.logit_bias[ids.end] = 4;
  }
  return request;
}

async function whole(client, request) {
  const answer = await client.chat.completions.create(request);
  const [choice] = answer.choices;
  return {
    finish: choice.finish_reason, content: choice.message.content ?? '', reasoning: choice.message.reasoning_content ?? '',
    calls: (choice.message.tool_calls ?? []).map((c) => ({name: c.function.name, arguments: c.function.arguments})),
    usage: answer.usage, logprobs: choice.logprobs?.content ?? null,
  };
}

async function streamed(client, request) {
  const out = {finish: null, content: '', reasoning: '', calls: [], usage: null, logprobs: null};
  const stream = await client.chat.completions.create({...request, stream: true, stream_options: {include_usage: true}});
  for await (const chunk of stream) {
    if (chunk.usage) out.usage = chunk.usage;
    for (const {delta, finish_reason, logprobs} of chunk.choices) {
      assert.equal(out.finish, null, 'nothing comes behind the end');
      out.content += delta.content ?? '';
      out.reasoning += delta.reasoning_content ?? '';
      if (logprobs?.content) out.logprobs = [...(out.logprobs ?? []), ...logprobs.content];
      for (const part of delta.tool_calls ?? []) {
        if (part.id) {
          assert.equal(part.index, out.calls.length, 'calls come in order');
          out.calls.push({name: part.function.name, arguments: ''});
        }
        assert.equal(part.index, out.calls.length - 1);
        out.calls.at(-1).arguments += part.function.arguments ?? '';
      }
      out.finish = finish_reason;
    }
  }
  return out;
}

function checkUsage(answer, reasoning) {
  const {prompt_tokens, completion_tokens, total_tokens, completion_tokens_details} = answer.usage;
  assert.equal(prompt_tokens + completion_tokens, total_tokens);
  assert.ok(completion_tokens >= 1 && completion_tokens <= kMaxTokens, `${completion_tokens} tokens`);
  if (answer.finish === 'length') assert.equal(completion_tokens, kMaxTokens);
  if (completion_tokens_details) {
    const thought = completion_tokens_details.reasoning_tokens ?? 0;
    assert.ok(thought <= completion_tokens && (reasoning || thought === 0));
  }
}

/// Throws if the answer breaks a promise. Returns whether it is complete.
function judge(request, answer) {
  const {content, reasoning, calls, finish} = answer;
  checkUsage(answer, request.thinking_budget !== undefined);
  assert.ok(['stop', 'length', 'tool_calls'].includes(finish), finish);
  // Calls inside of the reasoning are text of the model.
  assert.doesNotMatch(reasoning, /<\/?think>|<\|/);
  const ajv = new Ajv({strict: false, allErrors: true, validateFormats: false});
  const validate = (schema, text) => {
    const value = JSON.parse(text);
    const valid = ajv.compile(schema);
    assert.ok(valid(value), `${text}\n${JSON.stringify(valid.errors)}`);
  };
  if (request.response_format) {
    assert.equal(calls.length, 0);
    if (answer.logprobs) {
      const bytes = Buffer.from(answer.logprobs.flatMap((t) => t.bytes ?? []));
      assert.ok(bytes.toString().trimEnd().endsWith(content.trimEnd()), 'the tokens are the content');
    }
    if (finish === 'length') return false;
    validate(request.response_format.json_schema.schema, content);
    return true;
  }
  assert.doesNotMatch(content, kMarkup);
  calls.forEach((call, i) => {
    const tool = request.tools.find((t) => t.function.name === call.name)?.function;
    assert.ok(tool, `no tool is named ${call.name}`);
    if (finish === 'length' && i === calls.length - 1) return;
    const value = JSON.parse(call.arguments);
    assert.ok(value && typeof value === 'object' && !Array.isArray(value), call.arguments);
    const restricted = tool.strict || request.tool_choice !== 'auto';
    if (restricted) validate(tool.parameters ?? {type: 'object', maxProperties: 0}, call.arguments);
  });
  if (!request.parallel_tool_calls || request.tool_choice.type) assert.ok(calls.length <= 1, 'one call');
  if (request.tool_choice.type) assert.ok(calls.every((c) => c.name === request.tool_choice.function.name));
  if (finish === 'length') return false;
  assert.equal(finish, calls.length > 0 ? 'tool_calls' : 'stop');
  if (request.tool_choice !== 'auto') {
    assert.ok(calls.length >= 1, 'a call is required');
    assert.equal(content.trim(), '');
  }
  return true;
}

/// Answers of one server to all requests, kAtOnce at a time.
async function ask(modelFile, speculate, requests) {
  const server = await startServer(program, modelFile, '--speculate', speculate, '--prefix-disk', '0', '--prefix-states', '512');
  let running = true;
  server.child.on('exit', (code, signal) => running && console.log(`the server has ended: ${signal ?? code}`));
  try {
    const client = new OpenAI({baseURL: `${server.url}/v1`, apiKey: 'any', maxRetries: 0, timeout: 600_000});
    const answers = requests.map(() => []);
    let next = 0;
    const work = async () => {
      while (next < requests.length * 2) {
        const i = next++;
        const {request} = requests[i % requests.length];
        const send = i < requests.length ? whole : streamed;
        try {
          answers[i % requests.length][i < requests.length ? 0 : 1] = await send(client, {...request, model: server.model});
        } catch (error) {
          answers[i % requests.length][i < requests.length ? 0 : 1] = {error};
        }
      }
    };
    await Promise.all(Array.from({length: kAtOnce}, work));
    return answers;
  } finally {
    running = false;
    server.child.kill();
  }
}

async function tokenIds(modelFile) {
  const server = await startServer(program, modelFile);
  try {
    const id = async (content) => {
      const reply = await fetch(`${server.url}/tokenize`, {method: 'POST', body: JSON.stringify({content, add_special: false})});
      const {tokens} = await reply.json();
      assert.equal(tokens.length, 1, `${content} is one token`);
      return tokens[0].id ?? tokens[0];
    };
    return {call: await id('<tool_call>'), end: await id('<|im_end|>')};
  } finally {
    server.child.kill();
  }
}

async function checkModel(modelFile, cells) {
  const ids = await tokenIds(modelFile);
  const random = new Random(seed);
  const requests = [];
  for (const choice of ['auto', 'required', 'named', 'schema']) {
    for (const reasoning of [false, true]) {
      for (let run = 0; run < runs; ++run) {
        requests.push({cell: `${choice}${reasoning ? ', reasoning' : ''}`, request: randomRequest(random, choice, reasoning, ids)});
      }
    }
  }
  const answers = [await ask(modelFile, 'off', requests), await ask(modelFile, 'mtp', requests)];
  let failures = 0;
  requests.forEach(({cell, request}, i) => {
    const counts = (cells[cell] ??= {complete: 0, cut: 0, calls: 0, tokens: 0});
    try {
      const [first, ...others] = [...answers[0][i], ...answers[1][i]];
      for (const answer of [first, ...others]) {
        if (answer.error) throw answer.error;
      }
      ++counts[judge(request, first) ? 'complete' : 'cut'];
      counts.calls += first.calls.length;
      counts.tokens += first.usage.completion_tokens;
      const comparable = ({finish, content, reasoning, calls, usage, logprobs}) =>
        ({finish, content, reasoning, calls, tokens: usage.completion_tokens, prompt: usage.prompt_tokens,
          // What a drafter proposes depends on what was generated before.
          logprobs: logprobs?.map(({from_draft, ...rest}) => rest)});
      for (const [j, name] of ['streamed', 'with drafts', 'with drafts, streamed'].entries()) {
        assert.deepEqual(comparable(others[j]), comparable(first), name);
      }
    } catch (error) {
      if (++failures <= 5) console.log(`FAILED: ${cell}\n${JSON.stringify(request)}\n${JSON.stringify(answers[0][i][0])}\n${error}`);
    }
  });
  return failures;
}

console.log(`TEST_SEED=${seed}`);
let failures = 0;
for (const modelFile of models) {
  const cells = {};
  const begun = Date.now();
  failures += await checkModel(modelFile, cells);
  console.log(`${modelFile}: ${((Date.now() - begun) / 1000).toFixed(1)} s`);
  for (const [cell, counts] of Object.entries(cells)) {
    console.log(`  ${cell}: ${JSON.stringify(counts)}`);
    // What ends by its limit proves little.
    assert.ok(counts.complete > 0.5 * runs, `${cell}: most generations are complete`);
    if (cell.startsWith('auto')) assert.ok(runs < 10 || counts.calls > 0, 'some calls');
  }
}
assert.equal(failures, 0, `${failures} answers are wrong; TEST_SEED=${seed}`);
