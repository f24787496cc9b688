// What the orchestrator did for an answer: its steps, and the passages that the answer cites.
import {number, seconds, t} from '../i18n';
import type {Source, Step} from '../types';

const STEPS: Record<string, string> = {
  route: 'Choosing the way', probe: 'First tokens', retrieve: 'Passages', step: 'Part', tool: 'Tool', search: 'Search among answers',
  gate: 'Check', retry: 'Second attempt',
};

const share = (value: unknown) => typeof value === 'number' ? `${number(value * 100)} %` : '';

const words = (...values: unknown[]): string[] => values.filter((value) => typeof value === 'string' && value !== '') as string[];

/// The details of a step in one line.
function summary({name, details: d}: Step): string {
  const list = (values: unknown) => Array.isArray(values) ? values : [];
  switch (name) {
    case 'route': return words(d.mode, d.intent, d.pipeline).join(', ');
    case 'probe': return t('certain to {share}', {share: share(d.confidence)});
    case 'retrieve': return [t('{n} found', {n: list(d.sources).length}), ...words(d.verdict)].join(', ');
    case 'step': return words(d.step, d.state === 'begins' ? '…' : '').join(' ');
    case 'tool': return words(d.tool, d.outcome).join(': ');
    case 'search': return t('round {n}, best {share}', {n: typeof d.round === 'number' ? d.round : 0, share: share(Math.max(0, ...list(d.scores).filter((s) => typeof s === 'number')))});
    default: return share(d.score);
  }
}

export function Steps({steps, running}: {steps: Step[]; running: boolean}) {
  const last = steps.at(-1)!;
  return (
    <details class={`reasoning steps-taken ${running ? 'busy' : ''}`}>
      <summary>{running ? `${t(STEPS[last.name] ?? last.name)}…` : t('{n} steps', {n: steps.length})} · {seconds(last.seconds * 1000)}</summary>
      <ol>
        {steps.map((step, i) => (
          <li key={i}>
            <strong>{t(STEPS[step.name] ?? step.name)}</strong> {summary(step)} <span class="faint">{seconds(step.seconds * 1000)}</span>
            {Array.isArray(step.details.reasons) && <ul>{words(...step.details.reasons).map((r, k) => <li key={k}>{r}</li>)}</ul>}
            {typeof step.details.text === 'string' && <p class="reasoning-text" dir="auto">{step.details.text}</p>}
          </li>
        ))}
      </ol>
    </details>
  );
}

const passageId = (message: string, n: number) => `passage-${message}-${n}`;

export function Sources({id, sources}: {id: string; sources: Source[]}) {
  return (
    <section class="sources" aria-label={t('Passages')}>
      {sources.map((s) => (
        <details key={s.n} id={passageId(id, s.n)} class={s.cited ? 'cited' : ''}>
          <summary>[{s.n}] {s.name}{s.place && `, ${s.place}`} {!s.cited && <span class="faint">({t('not cited')})</span>}</summary>
          {s.quote && <blockquote dir="auto">{s.quote}</blockquote>}
          <p class="reasoning-text" dir="auto">{s.text}</p>
          <p class="faint">{[s.document, s.collection, t('covers {share} of the question', {share: share(s.relevance)})].filter(Boolean).join(' · ')}</p>
        </details>
      ))}
    </section>
  );
}

/// Makes [n] in the text of an answer a button that opens passage n.
export function markCitations(root: HTMLElement, message: string, sources: Source[]) {
  const known = new Set(sources.map((s) => s.n));
  const texts: Text[] = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode as Text;
    if (/\[\d+\]/.test(text.data) && !text.parentElement?.closest('code, pre, .math, a, button')) texts.push(text);
  }
  for (const text of texts) {
    const parts = text.data.split(/(\[\d+\])/);
    text.replaceWith(...parts.filter(Boolean).map((part) => {
      const n = Number(/^\[(\d+)\]$/.exec(part)?.[1]);
      if (!known.has(n)) return part;
      const button = document.createElement('button');
      button.type = 'button';
      button.className = 'cite';
      button.textContent = part;
      button.setAttribute('aria-label', t('Passage {n}', {n}));
      button.addEventListener('click', () => {
        const passage = document.getElementById(passageId(message, n)) as HTMLDetailsElement | null;
        if (!passage) return;
        passage.open = true;
        passage.scrollIntoView({block: 'nearest'});
        passage.querySelector('summary')?.focus();
      });
      return button;
    }));
  }
}
