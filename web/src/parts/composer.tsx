// The field for the next message. Its text survives a reload; files become a part of it.
import {useLayoutEffect, useRef, useState} from 'preact/hooks';
import {send} from '../generate';
import {t} from '../i18n';
import {announcement, features, notice, privateMode, type Conversation} from '../state';
import {ContextMeter, ContextNote, useOfContext} from './context_meter';
import {editRequest} from './message';
import {Icon, IconButton} from './icon';

const MAX_FILE = 1 << 20;

const draftName = (c: Conversation) => c.stored ? `draft:${c.info.id}` : 'draft';

/// A file's text as a block of code, named by the file.
async function asText(file: File): Promise<string> {
  if (file.size > MAX_FILE) throw new Error(t('{name} has more than 1 MiB.', {name: file.name}));
  const bytes = new Uint8Array(await file.arrayBuffer());
  if (bytes.includes(0)) throw new Error(t('{name} is no text. The models accept text only.', {name: file.name}));
  const text = new TextDecoder().decode(bytes);
  const longest = Math.max(2, ...(text.match(/`{3,}/g) ?? []).map((run) => run.length));
  const mark = '`'.repeat(longest + 1);
  const extension = /\.(\w+)$/.exec(file.name)?.[1] ?? '';
  return `${file.name}:\n${mark}${extension}\n${text}${text.endsWith('\n') ? '' : '\n'}${mark}\n`;
}

export function Composer({conversation, onSent}: {conversation: Conversation; onSent: () => void}) {
  const field = useRef<HTMLTextAreaElement>(null);
  const files = useRef<HTMLInputElement>(null);
  const [text, setText] = useState(() => localStorage.getItem(draftName(conversation)) ?? '');
  const [over, setOver] = useState(false);
  const running = conversation.running.value;
  const use = useOfContext(conversation);

  const change_ = (value: string) => {
    setText(value);
    if (value && !conversation.info.isFleeting) localStorage.setItem(draftName(conversation), value);
    else localStorage.removeItem(draftName(conversation));
  };
  useLayoutEffect(() => { if (matchMedia('(pointer: fine)').matches) field.current!.focus(); }, []);
  useLayoutEffect(() => {
    const element = field.current!;
    element.style.height = 'auto';
    element.style.height = `${element.scrollHeight + 2}px`;
  }, [text]);

  const submit = () => {
    if (running || !text.trim()) return;
    const message = text.trim();
    change_('');
    onSent();
    void send(conversation, message);
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.isComposing || event.keyCode === 229) return;  // 229: Safari, where this key ends the composition
    if (event.key === 'Enter' && !event.shiftKey) {
      event.preventDefault();
      submit();
    } else if (event.key === 'ArrowUp' && !text) {
      const last = conversation.path().findLast((m) => m.role === 'user');
      if (last) {
        event.preventDefault();
        editRequest.value = last.id;
      }
    }
  };
  const attach = async (list: Iterable<File>) => {
    for (const file of list) {
      try {
        const added = await asText(file);
        const old = field.current!.value;
        change_(old ? `${old.replace(/\n?$/, '\n')}${added}` : added);
        announcement.value = t('{name} was added to the message.', {name: file.name});
      } catch (error) {
        notice.value = (error as Error).message;
      }
    }
    field.current!.focus();
  };

  return (
    <form id="form" class={`composer ${over ? 'over' : ''}`} onSubmit={(e) => { e.preventDefault(); submit(); }}
          onDragOver={(e) => { e.preventDefault(); setOver(true); }} onDragLeave={() => setOver(false)}
          onDrop={(e) => { e.preventDefault(); setOver(false); void attach(e.dataTransfer?.files ?? []); }}>
      {use && <ContextNote use={use} busy={running !== null} />}
      <div class="composer-box">
        <textarea id="text" ref={field} rows={1} dir="auto" value={text} placeholder={t('Ask something')}
                  aria-label={t('Your message')} enterkeyhint="send" onKeyDown={onKey}
                  onInput={(e) => change_(e.currentTarget.value)}
                  onPaste={(e) => {
                    const pasted = e.clipboardData?.files;
                    if (!pasted?.length) return;
                    e.preventDefault();
                    void attach(pasted);
                  }} />
        <div class="composer-bar">
          <IconButton icon="clip" label={t('Add text files')} onClick={() => files.current!.click()} />
          <input ref={files} class="offscreen" type="file" multiple tabIndex={-1} aria-hidden="true"
                 onChange={(e) => { void attach([...e.currentTarget.files ?? []]); e.currentTarget.value = ''; }} />
          {features.value.history && !conversation.stored && !conversation.info.isFleeting && (
            <label class="check private-check" title={t('Kept in this browser only, not on the server')}>
              <input id="private" type="checkbox" checked={conversation.info.isPrivate} onChange={(e) => {
                privateMode.value = e.currentTarget.checked;
                conversation.info.isPrivate = privateMode.value;
                conversation.changed();
              }} />
              {t('Private')}
            </label>
          )}
          <span class="gap" />
          {use && <ContextMeter use={use} />}
          <span class="hint">{t('Enter sends, Shift+Enter begins a line')}</span>
          {running ? (
            <button type="button" id="stop" class="round" aria-label={t('Stop')} title={t('Stop')}
                    onClick={() => { running.abort(); field.current!.focus(); }}><Icon name="stop" /></button>
          ) : (
            <button id="send" class="round" aria-label={t('Send')} title={t('Send')} disabled={!text.trim()}><Icon name="send" /></button>
          )}
        </div>
      </div>
    </form>
  );
}

