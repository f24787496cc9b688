// Text, tools and structured output through Vercel's AI SDK and two of its providers:
//   ai_sdk.mjs CHIMERE MODEL
import assert from 'node:assert/strict';
import {createAnthropic} from '@ai-sdk/anthropic';
import {createOpenAICompatible} from '@ai-sdk/openai-compatible';
import {generateObject, generateText, jsonSchema, stepCountIs, streamObject, streamText, tool} from 'ai';
import {z} from 'zod';
import {startServer} from './server.mjs';

const [program, modelFile] = process.argv.slice(2);
const schema = z.object({city: z.string().max(20), days: z.number().int().min(1).max(7), units: z.enum(['°C', '°F'])});
const prompt = 'What is the weather in Zürich?';

async function checkText(model) {
  const options = {model, prompt, temperature: 0, maxOutputTokens: 24, maxRetries: 0};
  const whole = await generateText(options);
  assert.ok(whole.text.length > 0 && whole.usage.inputTokens > 0);
  const stream = streamText(options);
  let text = '';
  for await (const delta of stream.textStream) text += delta;
  assert.equal(text, whole.text);
  assert.equal(await stream.finishReason, whole.finishReason);
  assert.equal((await stream.usage).outputTokens, whole.usage.outputTokens);
}

async function checkObjects(model) {
  for (const seed of [1, 2]) {
    // Anthropic's API has no seed.
    const sampling = model.provider.startsWith('anthropic') ? {temperature: 0} : {temperature: 1, seed};
    const options = {model, schema, prompt, ...sampling, maxOutputTokens: 400, maxRetries: 0};
    const {object} = await generateObject(options);
    schema.parse(object);
    const stream = streamObject(options);
    let parts = 0;
    for await (const part of stream.partialObjectStream) parts += part ? 1 : 0;
    assert.ok(parts > 1);
    assert.deepEqual(await stream.object, object);
  }
}

async function checkTools(model) {
  const calls = [];
  const tools = {
    get_weather: tool({
      description: 'Weather of a city',
      inputSchema: schema,
      execute: async (input) => {
        calls.push(schema.parse(input));
        return {sun: true};
      },
    }),
    now: tool({description: 'The time', inputSchema: jsonSchema({type: 'object', properties: {}}), execute: async () => '12:00'}),
  };
  const options = {model, tools, prompt, temperature: 0.7, seed: 5, maxOutputTokens: 300, maxRetries: 0};
  const result = await generateText({...options, toolChoice: {type: 'tool', toolName: 'get_weather'}});
  assert.equal(result.toolCalls.length, 1);
  assert.equal(calls.length, 1);
  // A second step sends the call and its result back.
  await generateText({...options, toolChoice: 'required', stopWhen: stepCountIs(2)});
  const stream = streamText({...options, toolChoice: 'required'});
  let deltas = 0;
  for await (const part of stream.fullStream) {
    assert.notEqual(part.type, 'error', `${part.error}`);
    deltas += part.type === 'tool-input-delta' ? 1 : 0;
  }
  assert.ok(deltas > 0);
  assert.ok((await stream.toolCalls).length >= 1);
}

const server = await startServer(program, modelFile, '--reasoning', 'none');
try {
  const provider = createOpenAICompatible({
    name: 'chimere', baseURL: `${server.url}/v1`, apiKey: 'any', supportsStructuredOutputs: true, includeUsage: true,
  });
  const anthropic = createAnthropic({baseURL: `${server.url}/v1`, apiKey: 'any'});
  for (const model of [provider(server.model), anthropic(server.model)]) {
    for (const check of [checkText, checkObjects, checkTools]) {
      await check(model);
      console.log(`${model.provider}: ${check.name}: as the library expects`);
    }
  }
} finally {
  server.child.kill();
}
