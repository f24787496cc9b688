// API keys, for a key with the scope "admin".
import {useEffect, useState} from 'preact/hooks';
import {get, post, request} from '../api';
import {copy} from '../clipboard';
import {number, t} from '../i18n';
import {attempt} from '../state';

interface Key {
  name: string;
  scopes: string[];
  parallel: number;
  per_minute: number;
  tokens_per_day: number;
  tokens_today: number;
}

const limit = (value: number) => value ? number(value) : '–';

export function Keys() {
  const [keys, setKeys] = useState<Key[]>([]);
  const [scopes, setScopes] = useState<string[]>([]);
  const [name, setName] = useState('');
  const [chosen, setChosen] = useState<string[]>(['inference', 'metrics']);
  const [parallel, setParallel] = useState('');
  const [perDay, setPerDay] = useState('');
  const [made, setMade] = useState<{name: string; key: string} | null>(null);
  const [sure, setSure] = useState('');
  const refresh = () => attempt(async () => {
    const answer = await get<{data: Key[]; scopes: string[]}>('v1/keys');
    setKeys(answer.data);
    setScopes(answer.scopes);
  });
  useEffect(() => { void refresh(); }, []);
  const create = (event: Event) => {
    event.preventDefault();
    void attempt(async () => {
      setMade(await post('v1/keys', {
        name: name.trim(), scopes: chosen, parallel: Number(parallel) || 0, tokens_per_day: Number(perDay) || 0,
      }));
      setName('');
      await refresh();
    });
  };
  const erase = (which: string) => {
    if (sure !== which) return setSure(which);
    setSure('');
    return void attempt(async () => {
      await request(`v1/keys/${encodeURIComponent(which)}`, {method: 'DELETE'});
      await refresh();
    });
  };
  return (
    <section id="keys" aria-label={t('API keys')}>
      <h3>{t('API keys')}</h3>
      <div class="table-box" tabIndex={0} role="group" aria-label={t('API keys')}>
        <table class="plain-table">
          <thead><tr><th>{t('Name')}</th><th>{t('Scopes')}</th><th class="figure">{t('At the same time')}</th><th class="figure">{t('Tokens today')}</th><th class="figure">{t('Tokens a day')}</th><th><span class="offscreen">{t('Actions')}</span></th></tr></thead>
          <tbody>{keys.map((k) => (
            <tr key={k.name}>
              <td>{k.name}</td><td>{k.scopes.join(', ')}</td><td class="figure">{limit(k.parallel)}</td>
              <td class="figure">{number(k.tokens_today)}</td><td class="figure">{limit(k.tokens_per_day)}</td>
              <td><button class="danger" onClick={() => erase(k.name)}>{sure === k.name ? t('Delete for good?') : t('Delete')}</button></td>
            </tr>
          ))}</tbody>
        </table>
      </div>
      {made && (
        <p role="status" id="new-key">
          {t('The key of {name}; it is shown this once:', {name: made.name})} <code class="address">{made.key}</code>{' '}
          <button onClick={(e) => void copy(made.key, e.currentTarget)}>{t('Copy')}</button>
        </p>
      )}
      <form class="memory-form" onSubmit={create}>
        <label class="field">{t('Name of a client')}<input id="key-name" value={name} required pattern="[A-Za-z0-9_.\-]{1,64}" onInput={(e) => setName(e.currentTarget.value)} /></label>
        <div class="row wrap" role="group" aria-label={t('Scopes')}>
          {scopes.map((scope) => (
            <label class="check" key={scope}>
              <input type="checkbox" checked={chosen.includes(scope)} onChange={(e) =>
                setChosen(e.currentTarget.checked ? [...chosen, scope] : chosen.filter((s) => s !== scope))} />
              {scope}
            </label>
          ))}
        </div>
        <div class="row wrap">
          <label class="field">{t('Requests at the same time')}<input inputMode="numeric" placeholder={t('no limit')} value={parallel} onInput={(e) => setParallel(e.currentTarget.value)} /></label>
          <label class="field">{t('Tokens a day')}<input inputMode="numeric" placeholder={t('no limit')} value={perDay} onInput={(e) => setPerDay(e.currentTarget.value)} /></label>
        </div>
        <div class="actions start"><button class="primary" id="key-create" disabled={!name.trim() || !chosen.length}>{t('Create a key')}</button></div>
      </form>
    </section>
  );
}
