// The same prompt and seed with two models, or two choices of settings.
import {signal} from '@preact/signals';
import {useRef, useState} from 'preact/hooks';
import {requestBody, stream} from '../generate';
import {number, seconds, t} from '../i18n';
import {Markdown} from '../parts/message';
import {choices, models, modelName, presets} from '../state';
import type {Choices, Message} from '../types';

interface Side {
  model: string;
  preset: string;
  temperature: string;
  reasoning: string;
}

const prompt = signal('');
const seed = signal('1');
const sides = [
  signal<Side>({model: '', preset: '', temperature: '', reasoning: ''}),
  signal<Side>({model: '', preset: '', temperature: '1.2', reasoning: ''}),
];
const answers = [signal<Message | null>(null), signal<Message | null>(null)];
const progress = [signal(0), signal(0)];

function choicesOf(side: Side): Choices {
  const base = side.preset ? presets.value[side.preset] ?? {} : choices.value;
  const options: Record<string, unknown> = {...base.options, seed: Number(seed.value) || 0};
  if (side.temperature.trim()) options.temperature = Number(side.temperature);
  return {
    ...base, model: side.model || modelName.value, options, logprobs: false, tools: undefined,
    reasoning: side.reasoning || base.reasoning,
  };
}

function SideView({index}: {index: 0 | 1}) {
  const side = sides[index]!;
  const value = side.value;
  const answer = answers[index]!.value;
  const set = (change: Partial<Side>) => { side.value = {...value, ...change}; };
  const {usage, totalMs, error} = answer?.data ?? {};
  const name = index ? 'B' : 'A';
  return (
    <section class="side" aria-label={t('Side {name}', {name})}>
      <div class="row">
        <label>{t('Model')}
          <select value={value.model || modelName.value} onChange={(e) => set({model: e.currentTarget.value})}>
            {models.value.map((m) => <option key={m.id} value={m.id}>{m.id}</option>)}
          </select>
        </label>
        <label>{t('Preset')}
          <select value={value.preset} onChange={(e) => set({preset: e.currentTarget.value})}>
            <option value="">{t('the settings')}</option>
            {Object.keys(presets.value).sort().map((n) => <option key={n} value={n}>{n}</option>)}
          </select>
        </label>
        <label>{t('Temperature')}
          <input inputMode="decimal" value={value.temperature} placeholder={t('default')} onInput={(e) => set({temperature: e.currentTarget.value})} />
        </label>
        <label>{t('Reasoning')}
          <select value={value.reasoning} onChange={(e) => set({reasoning: e.currentTarget.value})}>
            {['', 'none', 'low', 'medium', 'high'].map((r) => <option key={r} value={r}>{r ? t(r) : t('default')}</option>)}
          </select>
        </label>
      </div>
      <div class="answer" aria-busy={answer ? !answer.complete : false}>
        {answer?.reasoning && <details><summary>{t('Reasoning')}</summary><p class="faint">{answer.reasoning}</p></details>}
        {answer && <Markdown text={() => answer.content} done={answer.complete} progress={progress[index]!.value} />}
        {error && <p class="error-text" role="alert">{error}</p>}
        {usage && totalMs !== undefined && (
          <p class="figures faint">
            {t('{n} tokens', {n: number(usage.completion)})} · {seconds(totalMs)} ·{' '}
            {t('{n} tokens/s', {n: number(usage.completion / totalMs * 1000, 1)})}
          </p>
        )}
      </div>
    </section>
  );
}

export default function Compare() {
  const [running, setRunning] = useState(false);
  const controller = useRef<AbortController | null>(null);
  const run = async () => {
    if (!prompt.value.trim() || running) return;
    controller.current = new AbortController();
    setRunning(true);
    await Promise.all(sides.map(async (side, i) => {
      const message: Message = {
        id: String(i), parent: '', role: 'assistant', content: '', reasoning: '', created: 0, complete: false, data: {},
      };
      answers[i]!.value = message;
      try {
        const body = requestBody([{role: 'user', content: prompt.value.trim()}], choicesOf(side.value));
        await stream(body, message, controller.current!.signal, () => { ++progress[i]!.value; });
      } catch (error) {
        message.data.error = (error as Error).message;
        message.complete = true;
      }
      answers[i]!.value = {...message};
    }));
    setRunning(false);
  };
  const [a, b] = answers.map((x) => x.value);
  const same = a?.complete && b?.complete && !a.data.error && a.content === b.content;
  return (
    <main id="main" class="view"><div class="view-inner">
      <h2>{t('Compare')}</h2>
      <p class="faint">{t('Two models or two choices of settings answer the same prompt with the same seed.')}</p>
      <form onSubmit={(e) => { e.preventDefault(); void run(); }}>
        <textarea id="compare-prompt" class="wide" rows={3} dir="auto" aria-label={t('Prompt')} placeholder={t('Ask something')}
                  value={prompt.value} onInput={(e) => { prompt.value = e.currentTarget.value; }} />
        <div class="row">
          <label class="row">{t('Seed')} <input inputMode="numeric" size={6} value={seed.value} onInput={(e) => { seed.value = e.currentTarget.value; }} /></label>
          <span class="gap" />
          {running ? <button type="button" onClick={() => controller.current?.abort()}>{t('Stop')}</button> :
            <button class="primary" id="compare-run" disabled={!prompt.value.trim()}>{t('Run both')}</button>}
        </div>
      </form>
      {same && <p class="good" role="status">{t('Both answers are the same, character for character.')}</p>}
      <div class="sides"><SideView index={0} /><SideView index={1} /></div>
    </div></main>
  );
}
