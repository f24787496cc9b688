// A conversation's messages as a tree, of which one branch is shown.
import type {Message} from './types';

export class Tree {
  readonly messages = new Map<string, Message>();
  private readonly children = new Map<string, string[]>();  // by parent, oldest first

  add(message: Message) {
    const siblings = this.children.get(message.parent) ?? [];
    if (!this.messages.has(message.id)) siblings.push(message.id);
    this.children.set(message.parent, siblings);
    this.messages.set(message.id, message);
  }

  /// From the first message to `leaf`.
  path(leaf: string): Message[] {
    const out: Message[] = [];
    const seen = new Set<string>();
    for (let m = this.messages.get(leaf); m && !seen.has(m.id); m = this.messages.get(m.parent)) {
      seen.add(m.id);
      out.push(m);
    }
    return out.reverse();
  }

  /// Ids of the messages that have the same parent, oldest first; itself is one of them.
  siblings(message: Message): string[] {
    return this.children.get(message.parent) ?? [];
  }

  /// The newest leaf below a message.
  newestLeaf(id: string): string {
    for (let next; (next = this.children.get(id)?.at(-1)) !== undefined;) id = next;
    return id;
  }

  /// Removes a message and those below it.
  remove(id: string) {
    for (const child of this.children.get(id) ?? []) this.remove(child);
    this.children.delete(id);
    const message = this.messages.get(id);
    if (!message) return;
    this.messages.delete(id);
    this.children.set(message.parent, this.siblings(message).filter((other) => other !== id));
  }
}
