// Where conversations are kept: on the server (its route /v1/conversations), or in this browser (IndexedDB) in private
// mode and where the server keeps none.
import {get, post, request, Refused} from './api';
import type {ConversationInfo, Message} from './types';

export interface Change {
  title?: string;
  folder?: string;
  pinned?: boolean;
  leaf?: string;
  data?: ConversationInfo['data'];
}

/// A part of a message that is being generated: offsets in bytes of UTF-8.
export interface Part {
  message: string;
  content_at: number;
  content: string;
  reasoning_at: number;
  reasoning: string;
}

export interface Storage {
  list(search: string): Promise<ConversationInfo[]>;
  messages(id: string): Promise<Message[]>;
  put(id: string, change: Change): Promise<void>;
  putMessages(id: string, messages: Message[]): Promise<void>;
  append(id: string, part: Part): Promise<void>;
  remove(id: string): Promise<void>;
  removeMessage(id: string, message: string): Promise<void>;
  removeAll(): Promise<void>;
}

type Wire = Record<string, any>;

const fromWire = (c: Wire): ConversationInfo => ({
  id: c.id, title: c.title, folder: c.folder, pinned: c.pinned, leaf: c.leaf, created: c.created, updated: c.updated,
  count: c.message_count, isPrivate: false, excerpt: c.excerpt, data: c.data ?? {},
});

export const messageFromWire = (m: Wire): Message => ({
  id: m.id, parent: m.parent ?? '', role: m.role, content: m.content, reasoning: m.reasoning ?? '',
  created: m.created, complete: m.complete ?? true, data: m.data ?? {},
});

const messageToWire = (m: Message): Wire => ({
  id: m.id, ...(m.parent && {parent: m.parent}), role: m.role, content: m.content, reasoning: m.reasoning,
  created: m.created, complete: m.complete, data: m.data,
});

export class ServerStorage implements Storage {
  /// Whether the server keeps conversations.
  static async exists(): Promise<boolean> {
    try {
      await request('v1/conversations?limit=1');
      return true;
    } catch (error) {
      if (error instanceof Refused && error.status === 404) return false;
      throw error;
    }
  }

  async list(search: string) {
    const query = search ? `?limit=200&search=${encodeURIComponent(search)}` : '?limit=1000';
    return (await get<{data: Wire[]}>(`v1/conversations${query}`)).data.map(fromWire);
  }
  async messages(id: string) {
    return (await get<{messages: Wire[]}>(`v1/conversations/${id}`)).messages.map(messageFromWire);
  }
  async put(id: string, change: Change) { await post(`v1/conversations/${id}`, change); }
  async putMessages(id: string, messages: Message[]) {
    for (let i = 0; i < messages.length; i += 1000) {
      await post(`v1/conversations/${id}/messages`, {messages: messages.slice(i, i + 1000).map(messageToWire)});
    }
  }
  async append(id: string, part: Part) { await post(`v1/conversations/${id}/append`, part); }
  async remove(id: string) { await request(`v1/conversations/${id}`, {method: 'DELETE'}); }
  async removeMessage(id: string, message: string) {
    await request(`v1/conversations/${id}/messages/${message}`, {method: 'DELETE'});
  }
  async removeAll() { await request('v1/conversations', {method: 'DELETE'}); }
}

/// Keeps nothing: a conversation is gone with the page.
export class NoStorage implements Storage {
  async list() { return []; }
  async messages() { return []; }
  async put() {}
  async putMessages() {}
  async append() {}
  async remove() {}
  async removeMessage() {}
  async removeAll() {}
}

function result<T>(wanted: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    wanted.onsuccess = () => resolve(wanted.result);
    wanted.onerror = () => reject(wanted.error);
  });
}

export class BrowserStorage implements Storage {
  private readonly database: Promise<IDBDatabase>;

  constructor() {
    const opened = indexedDB.open('chimere', 1);
    opened.onupgradeneeded = () => {
      opened.result.createObjectStore('conversations', {keyPath: 'id'});
      opened.result.createObjectStore('messages', {keyPath: ['conversation', 'id']});
    };
    this.database = result(opened);
  }

  private async store(name: string, mode: IDBTransactionMode = 'readonly') {
    return (await this.database).transaction(name, mode).objectStore(name);
  }
  private ofConversation(id: string) { return IDBKeyRange.bound([id, ''], [id, '\uffff']); }

  async list(search: string) {
    const all: ConversationInfo[] = await result((await this.store('conversations')).getAll());
    all.sort((a, b) => Number(b.pinned) - Number(a.pinned) || b.updated - a.updated);
    const words = search.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return all;
    const found: ConversationInfo[] = [];
    for (const info of all) {
      const texts = [info.title, ...(await this.messages(info.id)).map((m) => m.content)];
      const hit = texts.find((text) => words.every((word) => text.toLowerCase().includes(word)));
      if (hit === undefined) continue;
      const at = hit.toLowerCase().indexOf(words[0]!);
      const end = at + words[0]!.length;
      found.push({...info, excerpt: `${hit.slice(Math.max(0, at - 40), at)}\x02${hit.slice(at, end)}\x03${hit.slice(end, end + 60)}`});
    }
    return found;
  }
  async messages(id: string) {
    const all: (Message & {order: number})[] = await result((await this.store('messages')).getAll(this.ofConversation(id)));
    return all.sort((a, b) => a.created - b.created);
  }
  async put(id: string, change: Change) {
    const store = await this.store('conversations', 'readwrite');
    const now = Date.now();
    const old = await result(store.get(id)) ?? {
      id, title: '', folder: '', pinned: false, leaf: '', created: now, count: 0, isPrivate: true, data: {},
    };
    await result(store.put({...old, ...change, updated: now}));
  }
  async putMessages(id: string, messages: Message[]) {
    const store = await this.store('messages', 'readwrite');
    await Promise.all(messages.map((m) => result(store.put({...m, data: {...m.data}, conversation: id}))));
  }
  async append(id: string, part: Part) {
    const store = await this.store('messages', 'readwrite');
    const old = await result(store.get([id, part.message]));
    if (!old) throw new Error(`no message ${part.message}`);
    await result(store.put({...old, content: old.content + part.content, reasoning: old.reasoning + part.reasoning}));
  }
  async remove(id: string) {
    await result((await this.store('messages', 'readwrite')).delete(this.ofConversation(id)));
    await result((await this.store('conversations', 'readwrite')).delete(id));
  }
  async removeMessage(id: string, message: string) {
    await result((await this.store('messages', 'readwrite')).delete([id, message]));
  }
  async removeAll() {
    await result((await this.store('messages', 'readwrite')).clear());
    await result((await this.store('conversations', 'readwrite')).clear());
  }
}
