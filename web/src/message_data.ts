// What a message has besides its text, from a file or from another client: parts that are not what they should be are
// left out, so that the page draws what it knows.
import type {Message, MessageData, Role, Source, Step, TokenInfo, ToolCall, Usage} from './types';

type Json = Record<string, unknown>;

const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value);
const objects = (value: unknown): Json[] => Array.isArray(value) ? value.filter(isObject) : [];
const text = (value: unknown) => typeof value === 'string' ? value : '';
const figure = (value: unknown) => typeof value === 'number' && Number.isFinite(value) ? value : 0;

export const sourcesOf = (value: unknown): Source[] => objects(value).map((s) => ({
  n: figure(s.n), name: text(s.name), document: text(s.document), place: text(s.place), collection: text(s.collection),
  text: text(s.text), ...(typeof s.quote === 'string' && {quote: s.quote}), relevance: figure(s.relevance), cited: s.cited === true,
}));

export const stepOf = (name: unknown, seconds: unknown, details: unknown): Step =>
  ({name: text(name), seconds: figure(seconds), details: isObject(details) ? details : {}});

const callOf = (c: Json): ToolCall => ({id: text(c.id), name: text(c.name), arguments: text(c.arguments)});

const tokenOf = (token: Json): TokenInfo => ({
  text: text(token.text), logprob: figure(token.logprob), ...(token.drafted === true && {drafted: true}),
  top: (Array.isArray(token.top) ? token.top : []).filter(Array.isArray).map(([other, p]): [string, number] => [text(other), figure(p)]),
});

const usageOf = (u: Json): Usage => ({
  prompt: figure(u.prompt), cached: figure(u.cached), completion: figure(u.completion), reasoning: figure(u.reasoning),
  draftsAccepted: figure(u.draftsAccepted), draftsRejected: figure(u.draftsRejected),
});

/// Fields that this page does not know stay as they are.
export function dataOf(value: unknown): MessageData {
  if (!isObject(value)) return {};
  const out: MessageData = {...value};
  for (const field of ['model', 'finish', 'error', 'errorCode', 'toolCallId', 'verdict', 'mode'] as const) {
    if (typeof value[field] !== 'string') delete out[field];
  }
  for (const field of ['firstMs', 'totalMs', 'reasoningMs'] as const) {
    if (typeof value[field] !== 'number') delete out[field];
  }
  const read = <F extends keyof MessageData>(field: F, valid: boolean, from: () => MessageData[F]) => {
    if (valid) out[field] = from();
    else delete out[field];
  };
  read('usage', isObject(value.usage), () => usageOf(value.usage as Json));
  read('toolCalls', Array.isArray(value.toolCalls), () => objects(value.toolCalls).map(callOf));
  read('tokens', Array.isArray(value.tokens), () => objects(value.tokens).map(tokenOf));
  read('steps', objects(value.steps).length > 0, () => objects(value.steps).map((s) => stepOf(s.name, s.seconds, s.details)));
  read('sources', Array.isArray(value.sources), () => sourcesOf(value.sources));
  return out;
}

const ROLES: Role[] = ['user', 'assistant', 'system', 'tool'];

export function messageOf(m: Json): Message {
  return {
    id: String(m.id ?? ''), parent: text(m.parent), role: ROLES.find((role) => role === m.role) ?? 'user', content: text(m.content),
    reasoning: text(m.reasoning), created: figure(m.created), complete: m.complete !== false, data: dataOf(m.data),
  };
}
