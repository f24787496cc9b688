// Collections of documents: what the orchestrator retrieves passages from.
import {useEffect, useState} from 'preact/hooks';
import {get, post, request} from '../api';
import {bytes, number, t} from '../i18n';
import {attempt} from '../state';

interface Collection {
  name: string;
  documents: number;
  chunks: number;
  chunks_without_vector: number;
  bytes: number;
}

interface Document {
  name: string;
  title: string;
  chunks: number;
}

interface Passage {
  id: number;
  document: string;
  title: string;
  place: string;
  text: string;
  score: number;
}

const path = (name: string, action = '') => `v1/collections/${encodeURIComponent(name)}${action}`;

/// A document as the API takes it: text, or bytes in base64.
async function asDocument(file: File): Promise<Record<string, string>> {
  const content = new Uint8Array(await file.arrayBuffer());
  if (!content.includes(0)) {
    try {
      return {name: file.name, text: new TextDecoder('utf-8', {fatal: true}).decode(content)};
    } catch { /* another encoding, or no text */ }
  }
  const url = await new Promise<string>((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result as string);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
  return {name: file.name, data: url.slice(url.indexOf(',') + 1)};
}

function Contents({name, onChange}: {name: string; onChange: () => Promise<unknown>}) {
  const [documents, setDocuments] = useState<Document[] | null>(null);
  const [progress, setProgress] = useState<{done: number; of: number; name: string} | null>(null);
  const [report, setReport] = useState<string[]>([]);
  const [address, setAddress] = useState('');
  const [query, setQuery] = useState('');
  const [found, setFound] = useState<{passages: Passage[]; note: string} | null>(null);
  const [over, setOver] = useState(false);
  const refresh = () => attempt(async () => setDocuments((await get<{data: Document[]}>(path(name))).data));
  useEffect(() => {
    setDocuments(null);
    setFound(null);
    setReport([]);
    void refresh();
  }, [name]);

  /// One request for each document, so that each is counted when it is indexed.
  const add = async (items: {name: string; read: () => Promise<Record<string, string>>}[]) => {
    if (progress || !items.length) return;
    const lines: string[] = [];
    let added = 0;
    for (const [i, item] of items.entries()) {
      setProgress({done: i, of: items.length, name: item.name});
      try {
        const done = await post<{added: number; changed: number; skipped: string[]}>(path(name, '/documents'), {documents: [await item.read()]});
        added += done.added + done.changed;
        lines.push(...done.skipped);
      } catch (error) {
        lines.push(`${item.name}: ${(error as Error).message}`);
      }
    }
    setProgress(null);
    setReport([t('{n} of {m} documents were added.', {n: added, m: items.length}), ...lines]);
    await refresh();
    await onChange();
  };
  const addFiles = (files: Iterable<File>) => void add([...files].map((file) => ({name: file.name, read: () => asDocument(file)})));
  const search = (event: Event) => {
    event.preventDefault();
    void attempt(async () => {
      const answer = await post<{data: Passage[]; note: string}>(path(name, '/search'), {query, count: 8});
      setFound({passages: answer.data, note: answer.note});
    });
  };

  return (
    <section aria-label={name} class={`collection ${over ? 'over' : ''}`}
             onDragOver={(e) => { e.preventDefault(); setOver(true); }} onDragLeave={() => setOver(false)}
             onDrop={(e) => { e.preventDefault(); setOver(false); addFiles(e.dataTransfer?.files ?? []); }}
             onPaste={(e) => { if (e.clipboardData?.files.length) { e.preventDefault(); addFiles(e.clipboardData.files); } }}>
      <h3>{name}</h3>
      <div class="row wrap">
        <label class="button">{t('Add files')}
          <input id="collection-files" class="offscreen" type="file" multiple disabled={progress !== null}
                 onChange={(e) => { addFiles(e.currentTarget.files ?? []); e.currentTarget.value = ''; }} />
        </label>
        <span class="faint">{t('or drop them here')}</span>
        <span class="gap" />
        <form class="row" onSubmit={(e) => {
          e.preventDefault();
          const url = address.trim();
          setAddress('');
          void add([{name: url, read: async () => ({url})}]);
        }}>
          <input id="collection-url" type="url" required value={address} aria-label={t('Address of a page')} placeholder="https://"
                 onInput={(e) => setAddress(e.currentTarget.value)} />
          <button disabled={!address.trim() || progress !== null}>{t('Add the page')}</button>
        </form>
      </div>
      {progress && (
        <p role="status">
          <progress max={progress.of} value={progress.done} aria-label={t('Documents added')} />{' '}
          {progress.done + 1}/{progress.of} {progress.name}
        </p>
      )}
      {report.length > 0 && <div id="collection-report" role="status">{report.map((line, i) => <p key={i} class={i ? 'error-text' : 'good'}>{line}</p>)}</div>}
      <form class="row" onSubmit={search}>
        <input id="collection-query" class="wide" value={query} dir="auto" aria-label={t('A question')} placeholder={t('A question')}
               onInput={(e) => setQuery(e.currentTarget.value)} />
        <button class="primary" id="collection-search" disabled={!query.trim()}>{t('Search')}</button>
      </form>
      {found && (
        <div class="passages" role="status">
          {found.note && <p class="faint">{found.note}</p>}
          {!found.passages.length && <p>{t('Nothing was found.')}</p>}
          {found.passages.map((p) => (
            <article key={p.id} class="passage">
              <p><strong>{p.title || p.document}</strong> <span class="faint">{p.place}</span></p>
              <p class="reasoning-text" dir="auto">{p.text}</p>
            </article>
          ))}
        </div>
      )}
      {documents && documents.length > 0 && (
        <div class="table-box" tabIndex={0} role="group" aria-label={t('Documents')}>
          <table class="plain-table">
            <thead><tr><th>{t('Document')}</th><th class="figure">{t('Passages')}</th><th><span class="offscreen">{t('Actions')}</span></th></tr></thead>
            <tbody>{documents.map((d) => (
              <tr key={d.name}>
                <td title={d.name}>{d.title || d.name}</td><td class="figure">{number(d.chunks)}</td>
                <td><button aria-label={t('Delete “{title}”', {title: d.name})} onClick={() => void attempt(async () => {
                  await request(path(name, `/documents?name=${encodeURIComponent(d.name)}`), {method: 'DELETE'});
                  await refresh();
                  await onChange();
                })}>{t('Delete')}</button></td>
              </tr>
            ))}</tbody>
          </table>
        </div>
      )}
    </section>
  );
}

export default function Collections() {
  const [list, setList] = useState<Collection[] | null>(null);
  const [open, setOpen] = useState('');
  const [name, setName] = useState('');
  const [sure, setSure] = useState('');
  const refresh = () => attempt(async () => setList((await get<{data: Collection[]}>('v1/collections')).data));
  useEffect(() => { void refresh(); }, []);
  const create = (event: Event) => {
    event.preventDefault();
    void attempt(async () => {
      await post('v1/collections', {name: name.trim()});
      await refresh();
      setOpen(name.trim());
      setName('');
    });
  };
  const erase = (which: string) => {
    if (sure !== which) return setSure(which);
    setSure('');
    if (open === which) setOpen('');
    return void attempt(async () => {
      await request(path(which), {method: 'DELETE'});
      await refresh();
    });
  };

  return (
    <main id="main" class="view"><div class="view-inner">
      <h2>{t('Collections')}</h2>
      <p class="faint">{t('A collection holds documents. The model “odo” answers from its passages and cites them; choose in the settings which collections it uses.')}</p>
      {list && !list.length && <p>{t('There is none yet.')}</p>}
      {list && list.length > 0 && (
        <div class="table-box" tabIndex={0} role="group" aria-label={t('Collections')}>
          <table class="plain-table">
            <thead><tr><th>{t('Name')}</th><th class="figure">{t('Documents')}</th><th class="figure">{t('Passages')}</th><th class="figure">{t('Size')}</th><th><span class="offscreen">{t('Actions')}</span></th></tr></thead>
            <tbody>{list.map((c) => (
              <tr key={c.name}>
                <td><button class="link open-collection" aria-expanded={open === c.name} onClick={() => setOpen(open === c.name ? '' : c.name)}>{c.name}</button></td>
                <td class="figure">{number(c.documents)}</td><td class="figure">{number(c.chunks)}</td><td class="figure">{bytes(c.bytes)}</td>
                <td><button class="danger" onClick={() => erase(c.name)}>{sure === c.name ? t('Delete for good?') : t('Delete')}</button></td>
              </tr>
            ))}</tbody>
          </table>
        </div>
      )}
      <form class="row" onSubmit={create}>
        <input id="collection-name" value={name} pattern="[A-Za-z0-9_\-]{1,64}" required aria-label={t('Name of a collection')} placeholder={t('Name')}
               onInput={(e) => setName(e.currentTarget.value)} />
        <button id="collection-create" disabled={!name.trim()}>{t('Create')}</button>
      </form>
      {open && <Contents name={open} onChange={refresh} />}
    </div></main>
  );
}
