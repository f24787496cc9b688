// A message with what belongs to it: reasoning, calls of tools, figures, branches and actions.
import {signal} from '@preact/signals';
import {useEffect, useLayoutEffect, useRef, useState} from 'preact/hooks';
import {copy} from '../clipboard';
import {enrich} from '../enrich';
import {continueAnswer, edit, giveToolResult, inContext, regenerate, removeMessage, showBranch} from '../generate';
import {number, seconds, t} from '../i18n';
import {MarkdownView} from '../markdown';
import {focusInput, type Conversation} from '../state';
import type {Message, ToolCall} from '../types';
import {onLink} from './confirm_link';
import {IconButton} from './icon';
import {markCitations, Sources, Steps} from './orchestration';
import {TokenText} from './token_text';

/// The message that is being edited.
export const editRequest = signal('');

/// Markdown that may grow; drawn at most once in a frame, and less often while drawing takes long.
export function Markdown({text, done, progress, onDrawn}:
    {text: () => string; done: boolean; progress?: number; onDrawn?: (root: HTMLElement) => void}) {
  const element = useRef<HTMLDivElement>(null);
  const state = useRef<{view: MarkdownView; timer: number; frame: number; cost: number} | null>(null);
  const stop = () => {
    clearTimeout(state.current?.timer);
    cancelAnimationFrame(state.current?.frame ?? 0);
  };
  useEffect(() => stop, []);
  // In the same commit as what says that the message is complete.
  useLayoutEffect(() => {
    const s = (state.current ??= {view: new MarkdownView(element.current!, enrich), timer: 0, frame: 0, cost: 0});
    const draw = () => {
      s.timer = 0;
      const began = performance.now();
      s.view.update(text(), done);
      if (done) onDrawn?.(element.current!);
      s.cost = performance.now() - began;
    };
    if (done) {
      stop();
      draw();
    } else {
      s.timer ||= window.setTimeout(() => { s.frame = requestAnimationFrame(draw); }, Math.max(40, 12 * s.cost));
    }
  }, [progress, done, text()]);
  return <div ref={element} class="markdown" onClick={onLink} onAuxClick={onLink} />;
}

function Reasoning({message, running}: {message: Message; running: boolean}) {
  const body = useRef<HTMLDivElement>(null);
  const [open, setOpen] = useState(false);
  const thinking = running && !message.content;
  const tokens = message.data.usage?.reasoning;
  const parts = [
    thinking ? t('Reasoning…') : t('Reasoning'),
    message.data.reasoningMs !== undefined && seconds(message.data.reasoningMs),
    tokens && t('{n} tokens', {n: number(tokens)}),
  ].filter(Boolean);
  return (
    <details class={`reasoning ${thinking ? 'busy' : ''}`} open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>{parts.join(' · ')}</summary>
      <div ref={body} class="reasoning-text" dir="auto">{open ? message.reasoning : ''}</div>
    </details>
  );
}

function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function ToolCallView({call, conversation, message, isOpen}:
    {call: ToolCall; conversation: Conversation; message: Message; isOpen: boolean}) {
  const [result, setResult] = useState('');
  return (
    <div class="tool-call">
      <p><strong>{t('Call of a tool')}</strong> <code>{call.name}</code></p>
      <pre tabIndex={0} dir="ltr">{pretty(call.arguments)}</pre>
      {isOpen && (
        <form onSubmit={(e) => { e.preventDefault(); void giveToolResult(conversation, message, call.id, result); }}>
          <label class="field">{t('Its result')}
            <textarea rows={2} value={result} dir="auto" onInput={(e) => setResult(e.currentTarget.value)} />
          </label>
          <button class="primary" disabled={!result.trim()}>{t('Send the result')}</button>
        </form>
      )}
    </div>
  );
}

function Figures({message}: {message: Message}) {
  const {usage, firstMs, totalMs, model} = message.data;
  if (!usage || totalMs === undefined) return null;
  const rate = usage.completion > 1 && totalMs > (firstMs ?? 0) ?
    (usage.completion - 1) / (totalMs - (firstMs ?? 0)) * 1000 : 0;
  const parts = [
    t('{n} tokens', {n: number(usage.completion)}), rate && t('{n} tokens/s', {n: number(rate, rate < 100 ? 1 : 0)}),
    firstMs !== undefined && t('first after {time}', {time: seconds(firstMs)}),
    usage.cached > 0 && t('{n} of {m} prompt tokens reused', {n: number(usage.cached), m: number(usage.prompt)}),
    usage.draftsAccepted > 0 && t('{n} tokens from drafts', {n: number(usage.draftsAccepted)}), model,
  ].filter(Boolean);
  return <span class="figures">{parts.join(' · ')}</span>;
}

function note(message: Message): string {
  const {error, finish} = message.data;
  if (error) return error;
  if (finish === 'stopped') return t('Stopped.');
  if (finish === 'length') return t('The answer was cut off at the length limit.');
  if (!message.complete) return t('The answer was interrupted.');
  if (!message.content && !message.data.toolCalls?.length) return t('The model gave no answer.');
  return '';
}

function Editor({conversation, message}: {conversation: Conversation; message: Message}) {
  const [text, setText] = useState(message.content);
  const field = useRef<HTMLTextAreaElement>(null);
  const close = () => {
    editRequest.value = '';
    focusInput();
  };
  const save = () => {
    if (!text.trim()) return;
    editRequest.value = '';
    void edit(conversation, message, text.trim());
  };
  useLayoutEffect(() => {
    field.current!.focus();
    field.current!.setSelectionRange(text.length, text.length);
  }, []);
  return (
    <form class="editor" onSubmit={(e) => { e.preventDefault(); save(); }}>
      <textarea class="edit-text" ref={field} value={text} dir="auto" aria-label={t('Edit your message')}
                rows={Math.min(12, text.split('\n').length + 1)} onInput={(e) => setText(e.currentTarget.value)}
                onKeyDown={(e) => {
                  if (e.isComposing || e.keyCode === 229) return;
                  if (e.key === 'Enter' && !e.shiftKey) { e.preventDefault(); save(); }
                  if (e.key === 'Escape') { e.preventDefault(); e.stopPropagation(); close(); }
                }} />
      <div class="actions">
        <button type="button" onClick={close}>{t('Cancel')}</button>
        <button class="primary">{t('Send as a branch')}</button>
      </div>
    </form>
  );
}

function Branches({conversation, message}: {conversation: Conversation; message: Message}) {
  const siblings = conversation.tree.siblings(message);
  if (siblings.length < 2) return null;
  const at = siblings.indexOf(message.id);
  const go = (by: number) => showBranch(conversation, siblings[at + by]!);
  return (
    <span class="branches" role="group" aria-label={t('Branches')}>
      <IconButton icon="left" class="icon-button small" label={t('Previous branch')} disabled={at === 0} onClick={() => go(-1)} />
      <span>{at + 1}/{siblings.length}</span>
      <IconButton icon="right" class="icon-button small" label={t('Next branch')} disabled={at === siblings.length - 1} onClick={() => go(1)} />
    </span>
  );
}

interface Props {
  conversation: Conversation;
  message: Message;
  isLast: boolean;
  running: boolean;
}

export function MessageView(props: Props) {
  const {message} = props;
  if (message.role === 'user') return <UserMessage {...props} />;
  if (message.role === 'tool') {
    return (
      <article class="message tool" aria-label={t('Result of a tool')}>
        <p><strong>{t('Result of a tool')}</strong></p><pre tabIndex={0}>{message.content}</pre>
      </article>
    );
  }
  return <AssistantMessage {...props} />;
}

function UserMessage({conversation, message}: Props) {
  const busy = conversation.running.value !== null;
  return (
    <article class="turn user-turn" aria-label={t('You')}>
      {editRequest.value === message.id ? <Editor conversation={conversation} message={message} /> : (
        <>
          <div class="message user" dir="auto">{message.content}</div>
          <div class="message-bar">
            <Branches conversation={conversation} message={message} />
            <IconButton icon="copy" class="icon-button small" label={t('Copy')} onClick={() => void copy(message.content)} />
            <IconButton icon="edit" class="icon-button small edit" label={t('Edit')} disabled={busy}
                        onClick={() => { editRequest.value = message.id; }} />
            <IconButton icon="trash" class="icon-button small remove" label={t('Delete this message and what follows')} disabled={busy}
                        onClick={() => void removeMessage(conversation, message)} />
          </div>
        </>
      )}
    </article>
  );
}

function AssistantMessage({conversation, message, isLast, running}: Props) {
  const [inside, setInside] = useState(false);
  // Only the message that is generated is drawn again when a token comes.
  const progress = running ? conversation.progress.value : 0;
  const busy = conversation.running.value !== null;
  const {toolCalls, tokens, finish, error, sources, steps} = message.data;
  const hint = running ? '' : note(message);
  const left = !running && !inContext(message);
  const answered = !isLast;
  return (
    <article class={`turn assistant-turn ${left ? 'left-out' : ''}`} aria-label={t('Assistant')} aria-busy={running}>
      {steps && <Steps steps={steps} running={running && !message.content} />}
      {message.reasoning && <Reasoning message={message} running={running} />}
      <div class="message assistant">
        {running && !message.content && !message.reasoning && <span class="waiting" aria-hidden="true"><i /><i /><i /></span>}
        {inside && tokens ? <TokenText tokens={tokens} /> :
          <Markdown text={() => message.content} done={!running} progress={progress}
                    onDrawn={sources && ((root) => markCitations(root, message.id, sources))} />}
        {toolCalls?.map((call) => call && (
          <ToolCallView key={call.id} call={call} conversation={conversation} message={message}
                        isOpen={!running && !answered} />
        ))}
      </div>
      {!running && sources && sources.length > 0 && <Sources id={message.id} sources={sources} />}
      {hint && (
        <p class={`note ${error ? 'error-text' : ''}`} role={error ? 'alert' : undefined}>
          {hint} {left && t('This turn is not part of the conversation.')}
        </p>
      )}
      {!running && (
        <div class="message-bar">
          <Branches conversation={conversation} message={message} />
          <IconButton icon="copy" class="icon-button small copy" label={t('Copy')} onClick={() => void copy(message.content)} />
          <IconButton icon="again" class="icon-button small retry" label={left ? t('Retry') : t('Regenerate')} disabled={busy}
                      onClick={() => void regenerate(conversation, message)} />
          {isLast && message.content && (finish === 'length' || finish === 'stopped' || error || !message.complete) && (
            <IconButton icon="forward" class="icon-button small continue" label={t('Continue')} disabled={busy}
                        onClick={() => void continueAnswer(conversation, message)} />
          )}
          {tokens && (
            <IconButton icon="eye" class={`icon-button small look ${inside ? 'on' : ''}`} label={t('Probabilities of the tokens')} aria-pressed={inside}
                        onClick={() => setInside(!inside)} />
          )}
          <IconButton icon="trash" class="icon-button small remove" label={t('Delete this message and what follows')} disabled={busy}
                      onClick={() => void removeMessage(conversation, message)} />
          <Figures message={message} />
        </div>
      )}
    </article>
  );
}
