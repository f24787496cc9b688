// Responses and all events of their streams against the schemas of the Open Responses specification:
//   openresponses.mjs CHIMERE MODEL OPENAPI
// OPENAPI: public/openapi/openapi.json of its repository.
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import Ajv from 'ajv/dist/2020.js';
import {startServer} from './server.mjs';

const [program, modelFile, specification] = process.argv.slice(2);
const openapi = JSON.parse(readFileSync(specification, 'utf8'));
const ajv = new Ajv({strict: false, allErrors: true, validateFormats: false});
ajv.addSchema({$id: 'openapi', ...openapi});
const schema = (ref) => ajv.getSchema(`openapi${ref}`) ?? ajv.compile({$ref: `openapi${ref}`});
const resource = schema('#/components/schemas/ResponseResource');

// The events by their type.
const events = {};
for (const {$ref} of openapi.paths['/responses'].post.responses['200'].content['text/event-stream'].schema.oneOf) {
  const {type} = openapi.components.schemas[$ref.split('/').at(-1)].properties;
  for (const name of type.enum ?? [type.const]) events[name] = schema($ref);
}

function check(validate, value, what) {
  assert.ok(validate(value), `${what}: ${JSON.stringify(validate.errors, null, 1)}\n${JSON.stringify(value)}`);
}

const message = (role, content) => ({type: 'message', role, content});
const tools = [{type: 'function', name: 'get_weather', description: 'Weather of a place', parameters: {type: 'object',
  properties: {location: {enum: ['Paris', 'Rome']}}, required: ['location'], additionalProperties: false}}];
const user = message('user', 'What does ls do?');
const requests = {
  text: {input: [user]},
  'text alone': {input: 'What does ls do?'},
  system: {input: [message('system', 'Be brief.'), user]},
  instructions: {instructions: 'Be brief.', input: [user]},
  turns: {input: [message('user', 'My name is Ann.'), message('assistant', 'Hello Ann.'), user]},
  call: {input: [user], tools, tool_choice: 'required', parallel_tool_calls: false},
  result: {input: [user, {type: 'function_call', call_id: 'c1', name: 'get_weather', arguments: '{"location": "Rome"}'},
    {type: 'function_call_output', call_id: 'c1', output: 'Sun.'}], tools, tool_choice: 'none'},
  reasoning: {input: [user], reasoning: {effort: 'low'}, include: ['reasoning.encrypted_content']},
  schema: {input: [user], text: {format: {type: 'json_schema', name: 'n', schema: {enum: ['a']}, strict: true}}},
  probabilities: {input: [user], include: ['message.output_text.logprobs'], top_logprobs: 2},
  limit: {input: [user], max_output_tokens: 2},
};

const server = await startServer(program, modelFile, '--response-store', '1', '--temp', '0');
try {
  const post = (body) => fetch(`${server.url}/v1/responses`, {method: 'POST', body: JSON.stringify(body)});
  let seen = 0;
  for (const [name, request] of Object.entries(requests)) {
    const body = {model: server.model, reasoning: {effort: 'none'}, max_output_tokens: 200, ...request};
    const whole = await (await post(body)).json();
    check(resource, whole, name);
    assert.equal(whole.status, name === 'limit' ? 'incomplete' : 'completed', name);
    const text = await (await post({...body, stream: true})).text();
    const parts = text.trim().split('\n\n').map((part) => part.split('\ndata: '));
    for (const [line, json] of parts) {
      const event = JSON.parse(json);
      assert.equal(line, `event: ${event.type}`);
      assert.ok(events[event.type], `${event.type} is an event of the specification`);
      check(events[event.type], event, `${name}: ${event.type}`);
      ++seen;
    }
    const last = JSON.parse(parts.at(-1)[1]).response;
    check(resource, last, `${name}, streamed`);
    assert.deepEqual(last.output.map((item) => item.type), whole.output.map((item) => item.type));
    const next = await (await post({...body, input: [user], tools: [], tool_choice: 'auto', previous_response_id: last.id})).json();
    check(resource, next, `${name}, continued`);
  }
  const image = await post({input: [message('user', [{type: 'input_image', image_url: 'data:image/png;base64,AA=='}])]});
  assert.deepEqual([image.status, (await image.json()).error.type], [400, 'invalid_request_error']);
  console.log(`${Object.keys(requests).length} responses and ${seen} events are as the specification says`);
} finally {
  server.child.kill();
}
