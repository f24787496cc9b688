// Structured output and tools through LangChain.js:
//   langchain.mjs CHIMERE MODEL
import assert from 'node:assert/strict';
import {AIMessage, HumanMessage, ToolMessage} from '@langchain/core/messages';
import {tool} from '@langchain/core/tools';
import {ChatOpenAI} from '@langchain/openai';
import {z} from 'zod';
import {startServer} from './server.mjs';

const [program, modelFile] = process.argv.slice(2);
const schema = z.object({title: z.string().max(24), year: z.number().int().min(1900).max(2100), tags: z.array(z.enum(['a', 'é'])).max(3)});
const question = new HumanMessage('Which book should I read?');

async function checkText(chat) {
  const whole = await chat.invoke([question]);
  assert.ok(whole.content.length > 0 && whole.usage_metadata.output_tokens > 0);
  const chunks = [];
  for await (const chunk of await chat.stream([question])) chunks.push(chunk.content);
  assert.ok(chunks.length > 1 && chunks.join('').length > 0);
}

async function checkStructured(chat) {
  for (const method of ['jsonSchema', 'functionCalling']) {
    const structured = chat.withStructuredOutput(schema, {name: 'book', method});
    for (let round = 0; round < 2; ++round) schema.parse(await structured.invoke([question]));
  }
}

async function checkTools(chat) {
  const find = tool(async () => 'none', {name: 'find_book', description: 'Finds a book', schema});
  const bound = chat.bindTools([find], {tool_choice: 'find_book'});
  const answer = await bound.invoke([question]);
  assert.equal(answer.tool_calls.length, 1);
  schema.parse(answer.tool_calls[0].args);
  let collected;
  for await (const chunk of await bound.stream([question])) collected = collected ? collected.concat(chunk) : chunk;
  schema.parse(collected.tool_calls[0].args);
  const result = new ToolMessage({content: 'none', tool_call_id: answer.tool_calls[0].id});
  const last = await chat.bindTools([find], {tool_choice: 'none'}).invoke([question, answer, result]);
  assert.ok(last instanceof AIMessage);
}

const server = await startServer(program, modelFile, '--reasoning', 'none');
try {
  const chat = new ChatOpenAI({
    model: server.model, apiKey: 'any', maxRetries: 0, maxTokens: 400, temperature: 0.9,
    configuration: {baseURL: `${server.url}/v1`},
  });
  for (const check of [checkText, checkStructured, checkTools]) {
    await check(chat);
    console.log(`${check.name}: as the library expects`);
  }
} finally {
  server.child.kill();
}
