// Generations: from the messages of a branch to the next one.
import {batch} from '@preact/signals';
import {events, post, Refused, request, ServerGone, serverReturned} from './api';
import {t} from './i18n';
import {messageOf, sourcesOf, stepOf} from './message_data';
import {Saver} from './saver';
import {announcement, attempt, change, choices, connected, current, isOrchestrated, newId, refreshModels, store, models, type Conversation} from './state';
import {ServerStorage} from './storage';
import type {Choices, Message, TokenInfo, Usage} from './types';

const MAX_STORED_TOKENS = 2000;  // of log-probabilities kept with a message

type Json = Record<string, any>;

/// A message as the API takes it.
function toApi(m: Message): Json {
  if (m.role === 'tool') return {role: 'tool', content: m.content, tool_call_id: m.data.toolCallId};
  const calls = m.data.toolCalls?.map((c) => ({
    id: c.id, type: 'function', function: {name: c.name, arguments: c.arguments},
  }));
  return {
    role: m.role, content: m.content,
    ...(m.role === 'assistant' && m.reasoning && {reasoning_content: m.reasoning}),
    ...(calls?.length && {tool_calls: calls}),
  };
}

/// The body of a request. Throws a SyntaxError if a text that must be JSON is not.
export function requestBody(messages: Json[], c: Choices): Json {
  const system = c.system?.trim();
  const body: Json = {
    messages: system ? [{role: 'system', content: system}, ...messages] : messages,
    stream: true, stream_options: {include_usage: true}, ...c.options,
  };
  if (c.model) body.model = c.model;
  if (c.maxTokens) body.max_tokens = c.maxTokens;
  if (c.reasoning) {
    if (/^\d+$/.test(c.reasoning)) body.thinking_budget = Number(c.reasoning);
    else body.reasoning_effort = c.reasoning;
  }
  if (c.schema?.trim()) {
    body.response_format = {type: 'json_schema', json_schema: {name: 'answer', schema: JSON.parse(c.schema)}};
  }
  if (c.tools?.trim()) body.tools = JSON.parse(c.tools);
  if (c.memories?.length) body.engram = c.memories;
  if (isOrchestrated(c.model)) {
    const odo = {...(c.collections?.length && {collections: c.collections}), ...(c.mode && {mode: c.mode})};
    if (Object.keys(odo).length) body.odo = odo;
  }
  if (c.logprobs) Object.assign(body, {logprobs: true, top_logprobs: 8});
  return body;
}

/// What the orchestrator says beside the answer.
function readOrchestration(odo: Json, data: Message['data']) {
  if (odo.step) {
    const {name, seconds, ...details} = odo.step;
    (data.steps ??= []).push(stepOf(name, seconds, details));
  }
  if (odo.sources) data.sources = sourcesOf(odo.sources);
  if (odo.passages) data.verdict = odo.passages;
  if (odo.mode) data.mode = odo.mode;
}

function usageOf(u: Json): Usage {
  const details = u.completion_tokens_details ?? {};
  return {
    prompt: u.prompt_tokens, cached: u.prompt_tokens_details?.cached_tokens ?? 0, completion: u.completion_tokens,
    reasoning: details.reasoning_tokens ?? 0, draftsAccepted: details.accepted_prediction_tokens ?? 0,
    draftsRejected: details.rejected_prediction_tokens ?? 0,
  };
}

/// An answer that the server generates whether or not the page reads it, and stores in the message.
interface Kept {
  conversation: string;
  resumed: boolean;  ///< it has begun before; there is no request
  begun: () => void;  ///< called when the server has said that it keeps the answer
}

const PAUSES_MS = [300, 1000, 2000, 4000, 8000];  // before attempts to come back to a stream

const pathOf = (kept: Kept, message: Message) => `v1/conversations/${kept.conversation}/messages/${message.id}`;

/// The events of an answer. Comes back to a kept one when the connection ends.
async function* answerEvents(body: Json, message: Message, signal: AbortSignal, kept?: Kept): AsyncGenerator<any> {
  let last = -1;
  let any = false;
  let lost: ServerGone | undefined;  // the request may have arrived
  const seen = (number: number) => {
    if (last < 0) kept?.begun();
    last = number;
  };
  for (let failures = 0; ; ++failures) {
    try {
      const again = kept && (kept.resumed || last >= 0 || lost);
      const response = again ?
        await request(`${pathOf(kept, message)}/events${last >= 0 ? `?after=${last}` : ''}`, {signal}) :
        await request('v1/chat/completions', {
          json: kept ? {...body, conversation: {id: kept.conversation, message: message.id}} : body, signal,
        });
      for await (const event of events(response.body!, seen)) {
        failures = 0;
        any = true;
        yield event;
      }
      return;
    } catch (error) {
      if (lost && error instanceof Refused && error.status === 404) throw lost;  // it has not
      if (!(error instanceof ServerGone) || failures === PAUSES_MS.length) throw error;
      if (last < 0 && (!kept || kept.resumed || any)) throw error;
      if (last < 0 && lost) {
        kept!.begun();  // perhaps: what the server may have stored is not overwritten
        throw error;
      }
      if (last < 0) lost = error;
      await new Promise((resolve) => setTimeout(resolve, PAUSES_MS[failures]));
      signal.throwIfAborted();
    }
  }
}

function adopt(message: Message, other: Message) {
  message.content = other.content;
  message.reasoning = other.reasoning;
  message.complete = other.complete;
  for (const name of Object.keys(message.data)) delete (message.data as Json)[name];
  Object.assign(message.data, other.data);
}

/// Makes a kept answer, whose stream ended too early, what the server has of it. Returns whether there is no more to say.
async function settle(kept: Kept, message: Message, error: Error, stops: boolean): Promise<boolean> {
  try {
    if (stops) {
      adopt(message, messageOf((await post<Json>(`${pathOf(kept, message)}/stop`, {})).message));
      message.complete = true;
      message.data.finish ??= 'stopped';
      return true;
    }
    if (error instanceof Refused && error.status === 404) {  // the server was restarted, or the answer ended long ago
      const stored = (await new ServerStorage().messages(kept.conversation)).find((m) => m.id === message.id);
      if (stored) adopt(message, stored);
      if (stored && !stored.complete && !kept.resumed) message.data.error = t('The connection to the server ended before the answer was complete.');
      return true;
    }
  } catch { /* the server does not answer, or has ended it */ }
  if (stops || !(error instanceof ServerGone)) return false;
  if (!kept.resumed) message.data.error = error.message;
  return true;  // it may still be generated: resume() comes back to it
}

/// Streams an answer into `message`; calls `changed` after each event.
export async function stream(body: Json, message: Message, signal: AbortSignal, changed: () => void, kept?: Kept) {
  const began = kept?.resumed ? performance.now() - Math.max(0, Date.now() - message.created) : performance.now();
  const data = message.data;
  let tokens: TokenInfo[] = [];
  let isKept = kept?.resumed;
  const begun = () => {
    isKept = true;
    kept!.begun();
  };
  try {
    for await (const event of answerEvents(body, message, signal, kept && {...kept, begun})) {
      if (event.error) throw event.error.code === 'cancelled' ? new DOMException('', 'AbortError') : new Error(event.error.message);
      if (event.message) {  // the whole so far
        adopt(message, messageOf(event.message));
        tokens = [];
      }
      if (event.model) data.model = event.model;
      if (event.odo) readOrchestration(event.odo, data);
      if (event.usage) data.usage = usageOf(event.usage);
      for (const {delta, finish_reason, logprobs} of event.choices ?? []) {
        if (data.firstMs === undefined && (delta.content || delta.reasoning_content || delta.tool_calls)) {
          data.firstMs = performance.now() - began;
        }
        if (delta.reasoning_content) message.reasoning += delta.reasoning_content;
        if (delta.content) {
          if (message.reasoning && data.reasoningMs === undefined) data.reasoningMs = performance.now() - began;
          message.content += delta.content;
        }
        for (const call of delta.tool_calls ?? []) {
          const calls = (data.toolCalls ??= []);
          const entry = (calls[call.index ?? calls.length] ??= {id: '', name: '', arguments: ''});
          if (call.id) entry.id = call.id;
          if (call.function?.name) entry.name += call.function.name;
          if (call.function?.arguments) entry.arguments += call.function.arguments;
        }
        for (const token of logprobs?.content ?? []) {
          tokens.push({
            text: token.token, logprob: token.logprob,
            top: (token.top_logprobs ?? []).map((a: Json) => [a.token, a.logprob] as [string, number]),
            ...(token.from_draft && {drafted: true}),
          });
        }
        if (finish_reason) data.finish = finish_reason;
      }
      changed();
    }
    if (message.reasoning && data.reasoningMs === undefined) data.reasoningMs = performance.now() - began;
  } catch (error) {
    if (kept && (isKept || signal.aborted) && await settle(kept, message, error as Error, signal.aborted)) return changed();
    if ((error as Error).name === 'AbortError') {
      data.finish = 'stopped';
    } else {
      data.error = (error as Error).message;
      if (error instanceof Refused) data.errorCode = error.code;
      if (error instanceof Refused && error.status === 404) void refreshModels();
    }
  }
  data.totalMs = performance.now() - began;
  if (tokens.length && tokens.length <= MAX_STORED_TOKENS) data.tokens = [...(data.tokens ?? []), ...tokens];
  message.complete = true;
}

function titleOf(text: string): string {
  const line = text.trim().split('\n')[0]!.replace(/^[#>*`\s]+/, '');
  return line.length > 60 ? `${line.slice(0, 59)}…` : line;
}

function newMessage(role: Message['role'], parent: string, content = ''): Message {
  return {id: newId(), parent, role, content, reasoning: '', created: Date.now(), complete: true, data: {}};
}

/// Generates into `answer`, which is the last message of the branch that is shown. `unsaved`: what is stored with it.
async function generate(conversation: Conversation, answer: Message, continues: boolean, unsaved: Message[] = []) {
  const controller = new AbortController();
  answer.complete = false;
  conversation.running.value = controller;
  const before = conversation.tree.path(answer.parent).filter(inContext);
  const onServer = conversation.storage instanceof ServerStorage;
  const saver = new Saver(conversation.storage, conversation.info.id, answer, unsaved);
  let close = () => {};
  try {
    const body = requestBody([...before, ...(continues ? [answer] : [])].map(toApi), choices.value);
    if (continues) delete body.response_format;
    const stored = saver.begin();
    close = () => saver.flush();
    addEventListener('pagehide', close);
    const kept = onServer && await stored ?
      {conversation: conversation.info.id, resumed: false, begun: () => saver.release()} : undefined;
    await stream(body, answer, controller.signal, () => { ++conversation.progress.value; }, kept);
  } catch (error) {  // a schema or tools that are no JSON
    answer.data.error = (error as Error).message;
    answer.complete = true;
  }
  removeEventListener('pagehide', close);
  ended(conversation, answer);
  await saver.end();
  if (models.value.some((m) => m.state !== 'ready')) void refreshModels();
}

function ended(conversation: Conversation, answer: Message) {
  batch(() => {
    conversation.running.value = null;
    ++conversation.progress.value;
    conversation.changed();
    if (answer.data.error || answer.complete) announcement.value = answer.data.error ?? t('The answer is complete.');
  });
}

/// Follows the answer at the end of the branch that is shown if it was not complete when it was read: the server may
/// still generate it.
async function resume(conversation: Conversation) {
  const answer = conversation.path().at(-1);
  if (answer?.role !== 'assistant' || answer.complete || conversation.running.value) return;
  if (!(conversation.storage instanceof ServerStorage)) return;
  const controller = new AbortController();
  conversation.running.value = controller;
  delete answer.data.error;
  await stream({}, answer, controller.signal, () => { ++conversation.progress.value; },
               {conversation: conversation.info.id, resumed: true, begun: () => {}});
  ended(conversation, answer);
}

current.subscribe((conversation) => void resume(conversation));
serverReturned.subscribe((count) => { if (count) void resume(current.value); });

/// Turns that failed, or were stopped before the answer began, are shown but not part of the context.
export function inContext(m: Message): boolean {
  return m.role !== 'assistant' || m.content !== '' || Boolean(m.data.toolCalls?.length);
}

async function add(conversation: Conversation, message: Message) {
  conversation.tree.add(message);
  conversation.info.leaf = message.id;
  batch(() => {
    conversation.leaf.value = message.id;
    conversation.changed();
  });
}

async function answerTo(conversation: Conversation, parent: string, unsaved: Message[] = []) {
  const answer = newMessage('assistant', parent);
  await add(conversation, answer);
  void change(conversation.info, {leaf: answer.id, data: conversation.info.data});
  await generate(conversation, answer, false, unsaved);
}

/// A new message of the user at the end of the branch, and the answer to it.
export async function send(conversation: Conversation, text: string) {
  if (conversation.running.value) return;
  await connected();  // where it will be kept depends on the server
  const path = conversation.path();
  const last = path.at(-1);
  // A question without an answer stays on its branch: the next message follows what was before it.
  const parent = last && last.role === 'assistant' && !inContext(last) ? (path.at(-3)?.id ?? '') : last?.id ?? '';
  await sendAfter(conversation, parent, text);
}

async function sendAfter(conversation: Conversation, parent: string, text: string, role: Message['role'] = 'user',
                         callId?: string) {
  const message = newMessage(role, parent, text);
  if (callId) message.data.toolCallId = callId;
  if (!conversation.info.title) conversation.info.title = titleOf(text);
  await add(conversation, message);
  await store(conversation);
  await answerTo(conversation, message.id, [message]);
}

/// Another branch beside a message of the user.
export async function edit(conversation: Conversation, message: Message, text: string) {
  if (conversation.running.value) return;
  await sendAfter(conversation, message.parent, text);
}

export async function regenerate(conversation: Conversation, message: Message) {
  if (conversation.running.value) return;
  await answerTo(conversation, message.parent);
}

/// Continues an answer that was stopped, or cut off at a limit.
export async function continueAnswer(conversation: Conversation, message: Message) {
  if (conversation.running.value) return;
  delete message.data.error;
  await generate(conversation, message, true);
}

/// The result of a tool's call; the answer follows when every call has one.
export async function giveToolResult(conversation: Conversation, message: Message, callId: string, text: string) {
  const given = conversation.path().filter((m) => m.role === 'tool').map((m) => m.data.toolCallId);
  const calls = message.data.toolCalls ?? [];
  const missing = calls.filter((c) => c.id !== callId && !given.includes(c.id));
  const result = newMessage('tool', conversation.leaf.value, text);
  result.data.toolCallId = callId;
  await add(conversation, result);
  if (missing.length) await attempt(() => conversation.storage.putMessages(conversation.info.id, [result]));
  else await answerTo(conversation, result.id, [result]);
}

export function showBranch(conversation: Conversation, id: string) {
  const leaf = conversation.tree.newestLeaf(id);
  conversation.info.leaf = leaf;
  conversation.leaf.value = leaf;
  void change(conversation.info, {leaf});
  void resume(conversation);
}

export async function removeMessage(conversation: Conversation, message: Message) {
  if (conversation.running.value) return;
  conversation.tree.remove(message.id);
  const sibling = conversation.tree.siblings(message).at(-1);
  const leaf = sibling ? conversation.tree.newestLeaf(sibling) : message.parent;
  conversation.info.leaf = leaf;
  batch(() => {
    conversation.leaf.value = leaf;
    conversation.changed();
  });
  void change(conversation.info, {leaf});
  await conversation.storage.removeMessage(conversation.info.id, message.id).catch(() => {});
}
