// The history of conversations, and the way to the other views.
import {useState} from 'preact/hooks';
import {exportConversation, importConversation} from '../export';
import {t} from '../i18n';
import {
  attempt, change, conversations, current, features, newConversation, openConversation, refreshList, removeConversation,
  search, searchResults, show, sidebarOpen, view, type View,
} from '../state';
import type {ConversationInfo} from '../types';
import {Dialog} from './dialog';
import {Icon, IconButton, type IconName} from './icon';
import {shortcutsOpen} from './shortcuts';

/// The words that a search found, between \x02 and \x03.
function Excerpt({text}: {text: string}) {
  const parts = text.split(/[\x02\x03]/);
  return <span class="excerpt">{parts.map((part, i) => i % 2 ? <mark key={i}>{part}</mark> : part)}</span>;
}

function EditDialog({info, onClose}: {info: ConversationInfo; onClose: () => void}) {
  const [title, setTitle] = useState(info.title);
  const [folder, setFolder] = useState(info.folder);
  const [sure, setSure] = useState(false);
  const folders = [...new Set(conversations.value.map((c) => c.folder).filter(Boolean))].sort();
  const open = current.value.info.id === info.id ? current.value : undefined;
  const save = (event: Event) => {
    event.preventDefault();
    void change(info, {title: title.trim(), folder: folder.trim()});
    if (open) {
      Object.assign(open.info, {title: title.trim(), folder: folder.trim()});
      open.changed();
    }
    onClose();
  };
  return (
    <Dialog title={t('Conversation')} id="conversation-dialog" onClose={onClose}>
      <form onSubmit={save}>
        <label class="field">{t('Title')}
          <input value={title} dir="auto" maxLength={200} autoFocus onInput={(e) => setTitle(e.currentTarget.value)} />
        </label>
        <label class="field">{t('Folder')}
          <input value={folder} dir="auto" list="folders" maxLength={60} placeholder={t('none')}
                 onInput={(e) => setFolder(e.currentTarget.value)} />
          <datalist id="folders">{folders.map((name) => <option key={name} value={name} />)}</datalist>
        </label>
        <div class="actions start">
          <button type="button" onClick={() => void exportConversation(info, 'markdown', open)}>{t('Export Markdown')}</button>
          <button type="button" onClick={() => void exportConversation(info, 'json', open)}>{t('Export JSON')}</button>
        </div>
        <div class="actions">
          <button type="button" class="danger delete" onClick={() => {
            if (!sure) return setSure(true);
            onClose();
            void removeConversation(info);
          }}>{sure ? t('Delete for good?') : t('Delete')}</button>
          <span class="gap" />
          <button type="button" onClick={onClose}>{t('Cancel')}</button>
          <button class="primary">{t('Save')}</button>
        </div>
      </form>
    </Dialog>
  );
}

function Entry({info, onEdit}: {info: ConversationInfo; onEdit: () => void}) {
  const isCurrent = view.value === 'chat' && current.value.info.id === info.id;
  return (
    <li class={`entry ${isCurrent ? 'current' : ''}`}>
      <button class="open" aria-current={isCurrent ? 'page' : undefined} dir="auto"
              onClick={() => void attempt(() => openConversation(info))}>
        <span class="entry-title">
          {info.isPrivate && features.value.history && <Icon name="lock" />}
          {info.title || t('Untitled')}
        </span>
        {info.excerpt && <Excerpt text={info.excerpt} />}
      </button>
      <IconButton icon="pin" class={`icon-button small ${info.pinned ? 'on' : ''}`} aria-pressed={info.pinned}
                  label={t('Pin “{title}”', {title: info.title})}
                  onClick={() => void change(info, {pinned: !info.pinned}).then(refreshList)} />
      <IconButton icon="more" class="icon-button small edit-entry" label={t('Change “{title}”', {title: info.title})}
                  onClick={onEdit} />
    </li>
  );
}

function groupsOf(list: ConversationInfo[]): [string, ConversationInfo[]][] {
  const now = new Date();
  const midnight = new Date(now.getFullYear(), now.getMonth(), now.getDate()).getTime();
  const day = 86_400_000;
  const groups = new Map<string, ConversationInfo[]>();
  const put = (name: string, info: ConversationInfo) => groups.set(name, [...(groups.get(name) ?? []), info]);
  for (const info of list.filter((c) => c.pinned)) put(t('Pinned'), info);
  const folders = list.filter((c) => !c.pinned && c.folder);
  for (const info of folders.sort((a, b) => a.folder.localeCompare(b.folder))) put(info.folder, info);
  for (const info of list.filter((c) => !c.pinned && !c.folder)) {
    put(info.updated >= midnight ? t('Today') : info.updated >= midnight - day ? t('Yesterday') :
        info.updated >= midnight - 7 * day ? t('The last seven days') : t('Older'), info);
  }
  return [...groups];
}

const VIEWS: [View, IconName, string, keyof typeof features.value | ''][] = [
  ['compare', 'compare', 'Compare', ''], ['tokens', 'tokens', 'Tokens', ''],
  ['collections', 'folder', 'Collections', 'collections'], ['memories', 'memory', 'Memories', 'memories'],
  ['server', 'server', 'Server', 'status'],
];

export function Sidebar() {
  const [editing, setEditing] = useState<ConversationInfo | null>(null);
  const [more, setMore] = useState(100);
  const found = searchResults.value;
  const list = found ?? conversations.value;
  const groups: [string, ConversationInfo[]][] = found ? [[t('Found'), list]] : groupsOf(list.slice(0, more));
  return (
    <nav class="sidebar" aria-label={t('History')}>
      <div class="brand">
        <img src="favicon.ico" alt="" width="24" height="24" /> <span>Chimère</span>
        <IconButton icon="close" class="icon-button narrow-only" label={t('Hide the history')} onClick={() => { sidebarOpen.value = false; }} />
      </div>
      <button class="new-chat" onClick={() => newConversation()}><Icon name="plus" /> {t('New chat')}</button>
      <div class="search">
        <Icon name="search" />
        <input id="search" type="search" aria-label={t('Search the history')} placeholder={t('Search')} dir="auto"
               value={search.value} onInput={(e) => { search.value = e.currentTarget.value; }} />
      </div>
      <div class="list" tabIndex={-1}>
        {!list.length && <p class="faint">{found ? t('Nothing was found.') : t('Conversations appear here.')}</p>}
        {groups.map(([name, infos]) => (
          <section key={name} aria-label={name}>
            <h2>{name}</h2>
            <ul>{infos.map((info) => <Entry key={info.id} info={info} onEdit={() => setEditing(info)} />)}</ul>
          </section>
        ))}
        {!found && list.length > more && <button class="link" onClick={() => setMore(more + 200)}>{t('Show more')}</button>}
      </div>
      <ul class="views">
        <li><button aria-current={view.value === 'chat' ? 'page' : undefined} onClick={() => show('chat')}><Icon name="chat" /> {t('Chat')}</button></li>
        {VIEWS.filter(([, , , feature]) => !feature || features.value[feature]).map(([id, icon, label]) => (
          <li key={id}>
            <button id={`view-${id}`} aria-current={view.value === id ? 'page' : undefined} onClick={() => show(id)}>
              <Icon name={icon} /> {t(label)}
            </button>
          </li>
        ))}
      </ul>
      <div class="foot">
        <label class="link">
          {t('Import')}
          <input class="offscreen" type="file" accept=".json,application/json"
                 onChange={(e) => { for (const f of e.currentTarget.files ?? []) void importConversation(f); e.currentTarget.value = ''; }} />
        </label>
        <button class="link" onClick={() => { shortcutsOpen.value = true; }}>{t('Keyboard')}</button>
      </div>
      {editing && <EditDialog info={editing} onClose={() => setEditing(null)} />}
    </nav>
  );
}

