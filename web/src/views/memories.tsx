// The key's n-gram memories: what they know, and what they would say next.
import {useEffect, useState} from 'preact/hooks';
import {get, post, request} from '../api';
import {bytes, number, t} from '../i18n';
import {attempt, choices} from '../state';

interface Memory {
  name: string;
  ngrams: number;
  contexts: number;
  bytes: number;
  sources: string[];
}

type Found = {kind: 'search'; matches: Record<string, any>[]} | {kind: 'predict'; predictions: Record<string, any>[]; rest?: number};

export default function Memories() {
  const [list, setList] = useState<Memory[] | null>(null);
  const [name, setName] = useState('');
  const [text, setText] = useState('');
  const [score, setScore] = useState('1');
  const [query, setQuery] = useState('');
  const [report, setReport] = useState('');
  const [found, setFound] = useState<Found | null>(null);
  const [sure, setSure] = useState('');
  const refresh = () => attempt(async () => setList((await get<{data: Memory[]}>('v1/engram')).data));
  useEffect(() => { void refresh(); }, []);

  const write = (event: Event) => {
    event.preventDefault();
    void attempt(async () => {
      const done = await post<{written: number; refused: string[]}>(`v1/engram/${encodeURIComponent(name.trim())}`,
        {source: 'studio', texts: [{text, score: Number(score)}]});
      setReport(done.written ? t('The text was added.') : done.refused.join(' '));
      if (done.written) setText('');
      await refresh();
    });
  };
  const look = (kind: 'search' | 'predict') => attempt(async () => {
    const answer = await post<Record<string, any>>(`v1/engram/${encodeURIComponent(name.trim())}/${kind}`, {text: query});
    setFound(kind === 'search' ? {kind, matches: answer.data ?? answer.matches ?? []} :
      {kind, predictions: answer.data ?? answer.predictions ?? [], rest: answer.model_share});
  });
  const act = (memory: string, action: 'decay' | 'delete') => attempt(async () => {
    if (action === 'delete') {
      if (sure !== memory) return setSure(memory);
      await request(`v1/engram/${memory}`, {method: 'DELETE'});
      const used = choices.value.memories ?? [];
      choices.value = {...choices.value, memories: used.filter((n) => n !== memory)};
    } else {
      await post(`v1/engram/${memory}/decay`, {});
    }
    setSure('');
    return refresh();
  });

  return (
    <main id="main" class="view"><div class="view-inner">
      <h2>{t('Memories')}</h2>
      <p class="faint">{t('A memory is a table of n-grams: it makes texts that it has seen more likely, and takes no place in the context. Choose in the settings which ones answers use.')}</p>
      {list && !list.length && <p>{t('There is none yet. Write the first text below.')}</p>}
      {list && list.length > 0 && (
        <div class="table-box" tabIndex={0} role="group" aria-label={t('Memories')}>
          <table class="plain-table">
            <thead><tr><th>{t('Name')}</th><th class="figure">{t('n-grams')}</th><th class="figure">{t('Size')}</th><th>{t('Sources')}</th><th><span class="offscreen">{t('Actions')}</span></th></tr></thead>
            <tbody>{list.map((m) => (
              <tr key={m.name}>
                <td><button class="link" onClick={() => setName(m.name)}>{m.name}</button></td>
                <td class="figure">{number(m.ngrams)}</td><td class="figure">{bytes(m.bytes)}</td><td>{m.sources.join(', ')}</td>
                <td>
                  <button onClick={() => void act(m.name, 'decay')} title={t('Halves counts older than 30 days, drops those older than 90')}>{t('Decay')}</button>{' '}
                  <button class="danger" onClick={() => void act(m.name, 'delete')}>{sure === m.name ? t('Delete for good?') : t('Delete')}</button>
                </td>
              </tr>
            ))}</tbody>
          </table>
        </div>
      )}
      <form class="memory-form" onSubmit={write}>
        <h3>{t('Add a text')}</h3>
        <label class="field">{t('Memory')}<input id="memory-name" value={name} pattern="[A-Za-z0-9_\-]{1,64}" required placeholder="notes" onInput={(e) => setName(e.currentTarget.value)} /></label>
        <label class="field">{t('Text')}<textarea id="memory-text" rows={4} dir="auto" required value={text} onInput={(e) => setText(e.currentTarget.value)} /></label>
        <label class="field">{t('Your judgement of it, from 0 to 1; below 0.5 it is refused')}<input inputMode="decimal" value={score} onInput={(e) => setScore(e.currentTarget.value)} /></label>
        <div class="actions start"><button class="primary" id="memory-write" disabled={!name.trim() || !text.trim()}>{t('Add')}</button></div>
        <p role="status">{report}</p>
      </form>
      <form class="memory-form" onSubmit={(e) => { e.preventDefault(); void look('predict'); }}>
        <h3>{t('Look up')}</h3>
        <label class="field">{t('A context')}<textarea id="memory-query" rows={2} dir="auto" value={query} onInput={(e) => setQuery(e.currentTarget.value)} /></label>
        <div class="actions start">
          <button id="memory-predict" disabled={!name.trim() || !query.trim()}>{t('What comes next?')}</button>
          <button type="button" disabled={!name.trim() || !query.trim()} onClick={() => void look('search')}>{t('What is known of it?')}</button>
        </div>
      </form>
      {found?.kind === 'predict' && (
        <div class="alternatives" role="status">
          {!found.predictions.length && <p>{t('The memory does not know this context.')}</p>}
          <ol>{found.predictions.map((p, i) => (
            <li key={i}><code>{p.text ?? p.token}</code><meter min={0} max={1} value={p.probability} aria-label={number(p.probability, 3)} /><span>{number(p.probability * 100, 1)} %</span></li>
          ))}</ol>
        </div>
      )}
      {found?.kind === 'search' && (
        <div class="alternatives" role="status">
          {!found.matches.length && <p>{t('Nothing was found.')}</p>}
          <ul>{found.matches.map((m, i) => <li key={i}><code>{m.text}</code></li>)}</ul>
        </div>
      )}
    </div></main>
  );
}
