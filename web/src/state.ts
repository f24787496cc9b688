// What the page shows, and what it can do.
import {batch, computed, effect, signal} from '@preact/signals';
import {get, Refused, serverReturned} from './api';
import {language, t} from './i18n';
import {BrowserStorage, NoStorage, ServerStorage, type Change, type Storage} from './storage';
import {Tree} from './tree';
import type {Choices, ConversationInfo, Message, Model, Option} from './types';

export type View = 'chat' | 'compare' | 'tokens' | 'memories' | 'collections' | 'server';

/// A value that is kept in the browser.
function kept<T>(name: string, initial: T) {
  let value = initial;
  try {
    const stored = localStorage.getItem(name);
    if (stored !== null) value = JSON.parse(stored) as T;
  } catch { /* another version of the page wrote it */ }
  const out = signal(value);
  effect(() => localStorage.setItem(name, JSON.stringify(out.value)));
  return out;
}

export const view = signal<View>('chat');
export const theme = kept<'auto' | 'light' | 'dark'>('theme', 'auto');
export const privateMode = kept('private', false);
/// Whether conversations are kept at all.
export const keepHistory = kept('keepHistory', true);
export const choices = kept<Choices>('choices', {});
export const presets = kept<Record<string, Choices>>('presets', {});
export const welcomed = kept('welcomed', false);
export const sidebarOpen = signal(innerWidth >= 900);
export const settingsOpen = signal(false);
export const announcement = signal('');  // for screen readers
export const notice = signal('');        // a sentence that the user should see

export const models = signal<Model[]>([]);
export const options = signal<Option[]>([]);
/// APIs that the server and the key have.
export const features = signal({history: false, memories: false, collections: false, status: false, requests: false, keys: false});
/// Names that the orchestrator answers.
export const isOrchestrated = (model: string | undefined) => /^odo(:|$)/.test(model ?? modelName.value);
export const modelName = computed(() => choices.value.model ?? models.value[0]?.id ?? '');

effect(() => {
  document.documentElement.dataset.theme = theme.value;
  document.documentElement.lang = language.value;
});

export const newId = () => {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('');
};

/// A conversation with its messages.
export class Conversation {
  readonly tree = new Tree();
  readonly version = signal(0);  // of the tree
  readonly leaf = signal('');
  readonly running = signal<AbortController | null>(null);
  readonly progress = signal(0);  // counts changes of the message that is generated
  stored: boolean;

  constructor(readonly info: ConversationInfo, stored: boolean) {
    this.stored = stored;
    this.leaf.value = info.leaf;
  }
  get storage(): Storage { return storageOf(this.info); }
  path(): Message[] {
    void this.version.value;
    return this.tree.path(this.leaf.value);
  }
  changed() { ++this.version.value; }
}

const browserStorage = new BrowserStorage();
const serverStorage = new ServerStorage();
const noStorage = new NoStorage();
export const storageOf = (info: {isPrivate: boolean; isFleeting?: boolean}): Storage =>
  info.isFleeting ? noStorage : info.isPrivate ? browserStorage : serverStorage;

export const conversations = signal<ConversationInfo[]>([]);
export const search = signal('');
export const searchResults = signal<ConversationInfo[] | null>(null);
const open = new Map<string, Conversation>();

function blank(): Conversation {
  const now = Date.now();
  return new Conversation({
    id: newId(), title: '', folder: '', pinned: false, leaf: '', created: now, updated: now, count: 0,
    isPrivate: privateMode.value || !features.value.history, isFleeting: !keepHistory.value, data: {},
  }, false);
}

export const current = signal<Conversation>(blank());

/// A new conversation; the old one continues to generate.
/// `focus`: the next key is for its message.
export function newConversation(focus = true) {
  batch(() => {
    current.value = blank();
    view.value = 'chat';
  });
  if (location.hash) history.pushState(null, '', location.pathname);
  if (focus) queueMicrotask(focusInput);  // when it is drawn
}

/// At once: the next key may be a letter of the message.
export function focusInput() { document.getElementById('text')?.focus(); }

export async function openConversation(info: ConversationInfo) {
  let conversation = open.get(info.id);
  if (!conversation) {
    conversation = new Conversation(info, true);
    for (const message of await conversation.storage.messages(info.id)) conversation.tree.add(message);
    if (!conversation.tree.messages.has(info.leaf)) {
      conversation.leaf.value = [...conversation.tree.messages.keys()].at(-1) ?? '';
    }
    open.set(info.id, conversation);
  }
  const chosen = conversation;
  batch(() => {
    current.value = chosen;
    view.value = 'chat';
    if (innerWidth < 900) sidebarOpen.value = false;
  });
  if (location.hash !== `#/c/${info.id}`) history.pushState(null, '', `#/c/${info.id}`);
}

/// Makes a conversation one of the list, at its first message.
export async function store(conversation: Conversation) {
  if (conversation.stored) return;
  conversation.stored = true;
  const {info} = conversation;
  open.set(info.id, conversation);
  conversations.value = [info, ...conversations.value];
  history.replaceState(null, '', `#/c/${info.id}`);
  await change(info, {title: info.title, leaf: info.leaf, data: info.data});
}

export async function change(info: ConversationInfo, what: Change) {
  Object.assign(info, what);
  conversations.value = conversations.value.map((other) => other.id === info.id ? {...other, ...what} : other);
  await attempt(() => storageOf(info).put(info.id, what));
}

export async function removeConversation(info: ConversationInfo) {
  open.get(info.id)?.running.value?.abort();
  open.delete(info.id);
  conversations.value = conversations.value.filter((other) => other.id !== info.id);
  if (current.value.info.id === info.id) newConversation();
  await attempt(() => storageOf(info).remove(info.id));
}

/// Says why an action failed. The page shows a server that does not answer elsewhere.
export async function attempt<T>(action: () => Promise<T>): Promise<T | undefined> {
  try {
    return await action();
  } catch (error) {
    notice.value = (error as Error).message;
    return undefined;
  }
}

export async function refreshList() {
  const before = new Set(conversations.peek().map((c) => c.id));
  const lists = [browserStorage.list(''), ...(features.value.history ? [serverStorage.list('')] : [])];
  const all = (await Promise.all(lists)).flat();
  // Those that were begun meanwhile may not be stored yet.
  all.push(...conversations.peek().filter((c) => (c.isFleeting || !before.has(c.id)) && !all.some((other) => other.id === c.id)));
  conversations.value = all.sort((a, b) => Number(b.pinned) - Number(a.pinned) || b.updated - a.updated);
}

let searches = 0;
effect(() => {
  const words = search.value.trim();
  const turn = ++searches;
  if (!words) {
    searchResults.value = null;
    return;
  }
  setTimeout(async () => {
    if (turn !== searches) return;
    const lists = [browserStorage.list(words), ...(features.value.history ? [serverStorage.list(words)] : [])];
    const found = (await attempt(() => Promise.all(lists)))?.flat() ?? [];
    if (turn === searches) searchResults.value = found;
  }, 150);
});

async function available(path: string): Promise<boolean> {
  try {
    await get(path);
    return true;
  } catch (error) {
    if (error instanceof Refused) return false;
    throw error;
  }
}

let firstConnect: Promise<void> | undefined;

/// Resolves when the page knows what the server has, or that it does not say.
export const connected = () => firstConnect ?? Promise.resolve();

/// Reads what the server has. Called again with another key, and after the server was gone.
export function connect(): Promise<void> {
  const reading = readServer();
  firstConnect ??= reading;
  return reading;
}

async function readServer() {
  try {
    models.value = (await get<{data: Model[]}>('v1/models')).data;
    const [history, memories, collections, status, requests, keys, table] = await Promise.all([
      ServerStorage.exists(), available('v1/engram'), available('v1/collections'), available('v1/status'),
      available('v1/requests'), available('v1/keys'),
      get<{data: Option[]}>('v1/options').then((o) => o.data, () => []),
    ]);
    batch(() => {
      features.value = {history, memories, collections, status, requests, keys};
      options.value = table;
      if (!current.value.stored && !current.value.tree.messages.size) {
        current.value.info.isPrivate = privateMode.value || !history;
        current.value.changed();
      }
    });
    await refreshList();
    await route();
  } catch (error) {
    if (error instanceof Refused && error.status !== 401) notice.value = error.message;
  }
}

export async function refreshModels() {
  await attempt(async () => { models.value = (await get<{data: Model[]}>('v1/models')).data; });
}

/// Shows what the address names: #/c/ID or #/VIEW.
export async function route() {
  const [, kind, id] = location.hash.split('/');
  if (kind === 'c' && id) {
    if (current.value.info.id === id) return;
    const info = conversations.value.find((c) => c.id === id);
    if (info) await attempt(() => openConversation(info));
    else notice.value = t('This conversation does not exist any more.');
  } else if (kind && ['compare', 'tokens', 'memories', 'collections', 'server'].includes(kind)) {
    view.value = kind as View;
  } else {
    view.value = 'chat';
  }
}

export function show(next: View) {
  view.value = next;
  if (innerWidth < 900) sidebarOpen.value = false;
  const hash = next !== 'chat' ? `#/${next}` : current.value.stored ? `#/c/${current.value.info.id}` : '';
  history.pushState(null, '', hash || location.pathname);
}

addEventListener('hashchange', () => void route());
addEventListener('popstate', () => void route());
serverReturned.subscribe((count) => { if (count) void connect(); });
