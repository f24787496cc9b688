// Choices for the next generations: system prompt, limits, every sampling option, the form of the answer, presets.
import {useEffect, useState} from 'preact/hooks';
import {get} from '../api';
import {language, setLanguage, t, type Language} from '../i18n';
import {schemaProblems} from '../schema';
import {
  choices, conversations, current, features, isOrchestrated, keepHistory, options, presets, refreshList, settingsOpen, theme, attempt, storageOf, newConversation,
} from '../state';
import type {Choices, Option} from '../types';
import {IconButton} from './icon';

const MAIN = ['temperature', 'top_p', 'top_k', 'min_p', 'repeat_penalty', 'seed'];
const EFFORTS = ['', 'none', 'low', 'medium', 'high'];

function set(change: Partial<Choices>) { choices.value = {...choices.value, ...change}; }

function setOption(field: string, value: unknown) {
  const next = {...choices.value.options};
  if (value === undefined) delete next[field];
  else next[field] = value;
  set({options: next});
}

const shown = (value: unknown) => Array.isArray(value) ? value.join(', ') : value === undefined ? '' : String(value);

function read(option: Option, text: string): unknown {
  if (!text.trim()) return undefined;
  if (option.type === 'list') return text.split(',').map((item) => item.trim()).filter(Boolean);
  if (option.type === 'text') return text;
  const value = Number(text);
  return Number.isFinite(value) ? value : undefined;
}

/// A text field that keeps what is being typed, also where it reads as another value ("0." is 0).
function Typed({value, onText, ...rest}: {value: string; onText: (text: string) => void} & Record<string, unknown>) {
  const [typed, setTyped] = useState<string | null>(null);
  return (
    <input {...rest} value={typed ?? value} onBlur={() => setTyped(null)} onInput={(e) => {
      setTyped(e.currentTarget.value);
      onText(e.currentTarget.value);
    }} />
  );
}

function OptionField({option}: {option: Option}) {
  const value = choices.value.options?.[option.field];
  const id = `option-${option.field}`;
  const low = typeof value === 'number' && option.min !== undefined && value < option.min;
  const high = typeof value === 'number' && option.max !== undefined && value > option.max;
  const label = option.field.replace(/_/g, ' ');
  return (
    <div class="option">
      <label for={id}>{label}</label>
      {option.choices && option.type !== 'list' ? (
        <select id={id} value={shown(value)} onChange={(e) => setOption(option.field, read(option, e.currentTarget.value))}>
          <option value="">{t('default')}</option>
          {option.choices.map((c) => <option key={c} value={c}>{c}</option>)}
        </select>
      ) : (
        <Typed id={id} value={shown(value)} inputMode={option.type === 'integer' || option.type === 'number' ? 'decimal' : 'text'}
               placeholder={shown(option.default)} aria-describedby={`${id}-help`} aria-invalid={low || high}
               onText={(text) => setOption(option.field, read(option, text))} />
      )}
      <p id={`${id}-help`} class={low || high ? 'error-text' : 'faint'}>
        {low || high ? t('From {min} to {max}.', {min: option.min!, max: option.max!}) : `${option.help}.`}
      </p>
    </div>
  );
}

function Presets() {
  const [name, setName] = useState('');
  const names = Object.keys(presets.value).sort();
  return (
    <fieldset>
      <legend>{t('Presets')}</legend>
      <ul class="presets">
        {names.map((n) => (
          <li key={n}>
            <button onClick={() => { choices.value = {...presets.value[n]}; }}>{n}</button>
            <IconButton icon="trash" class="icon-button small" label={t('Delete the preset “{name}”', {name: n})} onClick={() => {
              const {[n]: _, ...rest} = presets.value;
              presets.value = rest;
            }} />
          </li>
        ))}
      </ul>
      <form class="row" onSubmit={(e) => {
        e.preventDefault();
        if (!name.trim()) return;
        presets.value = {...presets.value, [name.trim()]: choices.value};
        setName('');
      }}>
        <input value={name} aria-label={t('Name of a preset')} placeholder={t('Name')} onInput={(e) => setName(e.currentTarget.value)} />
        <button disabled={!name.trim()}>{t('Save these choices')}</button>
      </form>
    </fieldset>
  );
}

function MemoriesField() {
  const [names, setNames] = useState<string[]>([]);
  useEffect(() => { void attempt(async () => setNames((await get<{data: {name: string}[]}>('v1/engram')).data.map((m) => m.name))); }, []);
  if (!names.length) return null;
  const used = choices.value.memories ?? [];
  return (
    <fieldset>
      <legend>{t('Memories')}</legend>
      {names.map((name) => (
        <label class="check" key={name}>
          <input type="checkbox" checked={used.includes(name)} onChange={(e) =>
            set({memories: e.currentTarget.checked ? [...used, name] : used.filter((n) => n !== name)})} />
          {name}
        </label>
      ))}
    </fieldset>
  );
}

function CollectionsField() {
  const [names, setNames] = useState<string[]>([]);
  useEffect(() => { void attempt(async () => setNames((await get<{data: {name: string}[]}>('v1/collections')).data.map((c) => c.name))); }, []);
  const used = choices.value.collections ?? [];
  return (
    <fieldset id="orchestration">
      <legend>{t('Orchestration')}</legend>
      <div class="option">
        <label for="odo-mode">{t('Effort')}</label>
        <select id="odo-mode" value={choices.value.mode ?? ''} onChange={(e) => set({mode: e.currentTarget.value || undefined})}>
          <option value="">{t('as the question needs')}</option>
          <option value="fast">{t('fast')}</option>
          <option value="quality">{t('quality')}</option>
          <option value="ultra">{t('ultra')}</option>
        </select>
      </div>
      {names.map((name) => (
        <label class="check" key={name}>
          <input type="checkbox" checked={used.includes(name)} onChange={(e) =>
            set({collections: e.currentTarget.checked ? [...used, name] : used.filter((n) => n !== name)})} />
          {t('Passages from {name}', {name})}
        </label>
      ))}
    </fieldset>
  );
}

function JsonField({label, field, help}: {label: string; field: 'schema' | 'tools'; help: string}) {
  const text = choices.value[field] ?? '';
  let problems: string[] = [];
  if (field === 'schema') problems = schemaProblems(text);
  else if (text.trim()) {
    try {
      if (!Array.isArray(JSON.parse(text))) problems = [t('This must be a list.')];
    } catch (error) {
      problems = [t('This is no JSON: {why}', {why: (error as Error).message})];
    }
  }
  return (
    <div class="field">
      <label for={`json-${field}`}>{label}</label>
      <textarea id={`json-${field}`} class="code-input" dir="ltr" rows={text ? 8 : 3} spellcheck={false} value={text}
                aria-invalid={problems.length > 0} aria-describedby={`json-${field}-help`}
                placeholder={help} onInput={(e) => set({[field]: e.currentTarget.value})} />
      <div id={`json-${field}-help`} role="status">
        {problems.map((p) => <p key={p} class="error-text">{p}</p>)}
        {!problems.length && text.trim() && <p class="good">{t('Valid.')}</p>}
      </div>
    </div>
  );
}

function Data() {
  const [sure, setSure] = useState(false);
  return (
    <fieldset>
      <legend>{t('Page')}</legend>
      <label class="field">{t('Colours')}
        <select id="theme" value={theme.value} onChange={(e) => { theme.value = e.currentTarget.value as typeof theme.value; }}>
          <option value="auto">{t('as the system')}</option>
          <option value="light">{t('light')}</option>
          <option value="dark">{t('dark')}</option>
        </select>
      </label>
      <label class="field">{t('Language')}
        <select id="language" value={language.value} onChange={(e) => setLanguage(e.currentTarget.value as Language)}>
          <option value="en" lang="en">English</option>
          <option value="fr" lang="fr">Français</option>
        </select>
      </label>
      <label class="check">
        <input id="keep-history" type="checkbox" checked={keepHistory.value} onChange={(e) => {
          keepHistory.value = e.currentTarget.checked;
          if (!current.value.stored) newConversation(false);
        }} />
        {t('Keep conversations')}
      </label>
      <p class="faint">{keepHistory.value ? '' : t('New conversations are kept nowhere: they end with this page.')}</p>
      <button class="danger" onClick={() => {
        if (!sure) return setSure(true);
        setSure(false);
        newConversation();
        void attempt(async () => {
          await storageOf({isPrivate: true}).removeAll();
          if (features.value.history) await storageOf({isPrivate: false}).removeAll();
          await refreshList();
        });
      }}>{sure ? t('Delete all {n} conversations for good?', {n: conversations.value.length}) : t('Delete all conversations')}</button>
    </fieldset>
  );
}

export function SettingsPanel() {
  const c = choices.value;
  const main = MAIN.flatMap((field) => options.value.find((o) => o.field === field) ?? []);
  const rest = options.value.filter((o) => !MAIN.includes(o.field));
  const isBudget = /^\d+$/.test(c.reasoning ?? '');
  const count = Object.keys(c.options ?? {}).filter((f) => !MAIN.includes(f)).length;
  return (
    <aside class="settings" id="settings" aria-label={t('Settings')}>
      <div class="settings-head">
        <h2>{t('Settings')}</h2>
        <IconButton icon="close" label={t('Close the settings')} onClick={() => { settingsOpen.value = false; }} />
      </div>
      <div class="settings-body" tabIndex={-1}>
        <label class="field">{t('System prompt')}
          <textarea id="system" rows={4} dir="auto" value={c.system ?? ''} placeholder={t('What the model should be or do')}
                    onInput={(e) => set({system: e.currentTarget.value})} />
        </label>
        <Presets />
        <fieldset>
          <legend>{t('Limits')}</legend>
          <div class="option">
            <label for="max-tokens">{t('Tokens of an answer')}</label>
            <Typed id="max-tokens" inputMode="numeric" value={shown(c.maxTokens)} placeholder={t('no limit')}
                   onText={(text) => set({maxTokens: Number(text) >= 1 ? Math.floor(Number(text)) : undefined})} />
          </div>
          <div class="option">
            <label for="effort">{t('Reasoning')}</label>
            <select id="effort" value={isBudget ? 'budget' : c.reasoning ?? ''}
                    onChange={(e) => set({reasoning: e.currentTarget.value === 'budget' ? '1024' : e.currentTarget.value || undefined})}>
              {EFFORTS.map((e) => <option key={e} value={e}>{e ? t(e) : t('default')}</option>)}
              <option value="budget">{t('a number of tokens')}</option>
            </select>
            {isBudget && <Typed id="budget" inputMode="numeric" aria-label={t('Tokens of reasoning')} value={c.reasoning!}
                                onText={(text) => set({reasoning: /^\d+$/.test(text) ? text : '0'})} />}
          </div>
        </fieldset>
        <fieldset>
          <legend>{t('Sampling')}</legend>
          {main.map((o) => <OptionField key={o.field} option={o} />)}
          {rest.length > 0 && (
            <details>
              <summary>{t('All sampling options')}{count ? ` (${count})` : ''}</summary>
              {rest.map((o) => <OptionField key={o.field} option={o} />)}
            </details>
          )}
          <button class="link" onClick={() => set({options: {}})}>{t('Reset to the defaults')}</button>
        </fieldset>
        <fieldset>
          <legend>{t('Form of the answer')}</legend>
          <JsonField label="JSON Schema" field="schema" help={'{"type": "object", "properties": {"name": {"type": "string"}}}'} />
          <JsonField label={t('Tools')} field="tools" help={'[{"type": "function", "function": {"name": "weather"}}]'} />
        </fieldset>
        {isOrchestrated(c.model) && <CollectionsField />}
        {features.value.memories && <MemoriesField />}
        <fieldset>
          <legend>{t('Look inside')}</legend>
          <label class="check">
            <input id="logprobs" type="checkbox" checked={c.logprobs ?? false} onChange={(e) => set({logprobs: e.currentTarget.checked})} />
            {t('Ask for the probabilities of the tokens')}
          </label>
        </fieldset>
        <Data />
      </div>
    </aside>
  );
}
