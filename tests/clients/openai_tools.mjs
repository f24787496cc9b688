// Tools and structured output through OpenAI's own client library:
//   openai_tools.mjs CHIMERE MODEL
import assert from 'node:assert/strict';
import Ajv from 'ajv';
import OpenAI from 'openai';
import {zodFunction, zodResponseFormat} from 'openai/helpers/zod';
import {z} from 'zod';
import {startServer} from './server.mjs';

const [program, modelFile] = process.argv.slice(2);
const ajv = new Ajv();

const person = {
  type: 'object',
  properties: {
    name: {type: 'string', maxLength: 20},
    age: {type: 'integer', minimum: 0, maximum: 150},
    tags: {type: 'array', items: {enum: ['a', 'ü', 3]}, maxItems: 3},
  },
  required: ['name', 'age'],
  additionalProperties: false,
};
const tools = [
  {type: 'function', function: {name: 'find_person', description: 'Finds a person.', parameters: person}},
  {type: 'function', function: {name: 'stop', description: 'Ends it.'}},
];
const messages = [{role: 'user', content: 'Who is Zoë? Look the person up.'}];
const validPerson = ajv.compile(person);

function checkCall(call) {
  assert.match(call.id, /^call_|^[a-zA-Z0-9]{9}$/);
  assert.equal(call.type, 'function');
  const parsed = JSON.parse(call.function.arguments);
  if (call.function.name === 'find_person') {
    assert.ok(validPerson(parsed), call.function.arguments);
  } else {
    assert.equal(call.function.name, 'stop');
    assert.deepEqual(parsed, {});
  }
}

// Every choice, at several temperatures, whole and streamed, with and without reasoning.
async function checkChoices(client, model) {
  let calls = 0;
  for (const temperature of [0, 0.7, 1.5]) {
    for (const effort of ['none', 'low']) {
      for (const tool_choice of ['auto', 'required', {type: 'function', function: {name: 'find_person'}}]) {
        const request = {
          model, messages, tools, tool_choice, temperature, seed: 7, max_tokens: 400, reasoning_effort: effort,
          parallel_tool_calls: false,
        };
        const whole = await client.chat.completions.create(request);
        const {message, finish_reason} = whole.choices[0];
        const streamed = await client.chat.completions.stream(request).finalChatCompletion();
        const other = streamed.choices[0];
        assert.equal(other.finish_reason, finish_reason);
        assert.equal(other.message.content || null, message.content || null);
        assert.deepEqual(other.message.tool_calls?.map((c) => c.function.arguments) ?? [],
                         message.tool_calls?.map((c) => c.function.arguments) ?? []);
        assert.ok(!/<\/?tool_call>/.test(message.content ?? ''), message.content);
        if (finish_reason === 'length') continue;
        for (const call of message.tool_calls ?? []) {
          if (tool_choice !== 'auto') checkCall(call);
          JSON.parse(call.function.arguments);
          ++calls;
        }
        if (tool_choice === 'auto') continue;
        assert.equal(finish_reason, 'tool_calls');
        assert.equal(message.content, null);
        assert.equal(message.tool_calls.length, 1);
      }
    }
  }
  assert.ok(calls > 0);
}

// A conversation that sends calls and results back.
async function checkConversation(client, model) {
  const first = await client.chat.completions.create({model, messages, tools, tool_choice: 'required', temperature: 0,
    max_tokens: 300, reasoning_effort: 'none'});
  const {message} = first.choices[0];
  assert.ok(message.tool_calls.length >= 1);
  const results = message.tool_calls.map((c) => ({role: 'tool', tool_call_id: c.id, content: '{"known": false}'}));
  const second = await client.chat.completions.create({model, messages: [...messages, message, ...results.reverse()], tools,
    tool_choice: 'none', temperature: 0, max_tokens: 40});
  assert.ok(!second.choices[0].message.tool_calls);
  await client.chat.completions.create({model, messages, tools: [], tool_choice: 'none', max_tokens: 4});
  await client.chat.completions.create({model, messages, parallel_tool_calls: true, max_tokens: 4});
}

async function checkRunner(client, model) {
  const Arguments = z.object({name: z.enum(['Zoë', 'Ann']), exact: z.boolean()});
  const seen = [];
  const completion = await client.chat.completions.parse({
    model, messages, temperature: 1, seed: 3, max_tokens: 600, reasoning_effort: 'none', tool_choice: 'required', parallel_tool_calls: false,
    tools: [zodFunction({name: 'look_up', parameters: Arguments, function: (args) => seen.push(args)})],
  });
  for (const call of completion.choices[0].message.tool_calls) Arguments.parse(call.function.parsed_arguments);
  // The library runs the functions and sends their results back.
  for (const stream of [false, true]) {
    const ran = [];
    const runner = client.chat.completions.runTools({model, messages, stream, temperature: 1, seed: 3, max_tokens: 600,
      reasoning_effort: 'none', tool_choice: 'required', parallel_tool_calls: false,
      tools: [{type: 'function', function: {name: 'look_up', description: 'Looks a person up.', parse: JSON.parse,
        parameters: {type: 'object', properties: {name: {enum: ['Zoë', 'Ann']}}, required: ['name'], additionalProperties: false},
        function: ({name}) => { ran.push(name); return `${name} is known.`; }}}]}, {maxChatCompletions: 2});
    await runner.done();
    assert.ok(ran.length >= 1 && ran.every((name) => ['Zoë', 'Ann'].includes(name)), `${ran}`);
    assert.ok(runner.messages.some((m) => m.role === 'tool' && m.content.endsWith(' is known.')));
  }
}

async function checkText(client, model) {
  const request = {model, messages, temperature: 0, max_tokens: 24, reasoning_effort: 'none'};
  const whole = await client.chat.completions.create(request);
  const stream = await client.chat.completions.create({...request, stream: true, stream_options: {include_usage: true}});
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  assert.equal(chunks.map((c) => c.choices[0]?.delta.content ?? '').join(''), whole.choices[0].message.content);
  assert.deepEqual(chunks.at(-1).usage.completion_tokens, whole.usage.completion_tokens);
  const continued = await client.completions.create({model, prompt: 'ls lists', max_tokens: 4, temperature: 0});
  let text = '';
  for await (const part of await client.completions.create({model, prompt: 'ls lists', max_tokens: 4, temperature: 0, stream: true})) {
    text += part.choices[0].text;
  }
  assert.equal(text, continued.choices[0].text);
}

async function checkStructured(client, model) {
  const Answer = z.object({steps: z.array(z.object({text: z.string().max(30), n: z.number().int()})).max(3), final: z.boolean()});
  for (const seed of [1, 2, 3]) {
    const completion = await client.chat.completions.parse({
      model, messages, temperature: 1, seed, max_tokens: 600, reasoning_effort: seed === 3 ? 'low' : 'none',
      response_format: zodResponseFormat(Answer, 'answer'),
    });
    Answer.parse(completion.choices[0].message.parsed);
  }
  const json = await client.chat.completions.create({model, messages, max_tokens: 500, temperature: 0.8, seed: 2,
    response_format: {type: 'json_object'}, reasoning_effort: 'none'});
  if (json.choices[0].finish_reason === 'stop') JSON.parse(json.choices[0].message.content);
}

async function checkErrors(client, model) {
  const refused = async (more, param) => {
    await assert.rejects(client.chat.completions.create({model, messages, ...more}), (e) => {
      assert.ok(e instanceof OpenAI.BadRequestError, `${e}`);
      assert.ok(e.param.startsWith(param), e.param);
      return true;
    });
  };
  await refused({tools: [{type: 'function', function: {name: 'a b'}}]}, 'tools[0].function.name');
  await refused({tool_choice: 'required'}, 'tool_choice');
  await refused({tools: [{type: 'function', function: {name: 'f', strict: true, parameters: {type: 'string'}}}]}, 'tools');
  await refused({response_format: {type: 'json_schema', json_schema: {name: 'n', schema: {$ref: 'https://example.org/x'}}}},
                'response_format');
}

const server = await startServer(program, modelFile);
try {
  const client = new OpenAI({baseURL: `${server.url}/v1`, apiKey: 'any', maxRetries: 0});
  for (const check of [checkText, checkChoices, checkConversation, checkRunner, checkStructured, checkErrors]) {
    await check(client, server.model);
    console.log(`${check.name}: as the library expects`);
  }
} finally {
  server.child.kill();
}
