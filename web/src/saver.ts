// Stores a message while it is generated: twice a second what is new, at the end the whole. After a failure the whole
// message is sent again when the server answers. Of an answer that the server stores by itself, only the beginning.
import {serverReturned} from './api';
import type {Storage} from './storage';
import type {Message} from './types';

const INTERVAL_MS = 500;
const bytes = (text: string) => new TextEncoder().encode(text).length;

export class Saver {
  private content = 0;  // characters that are stored
  private reasoning = 0;
  private contentBytes = 0;
  private reasoningBytes = 0;
  private broken = false;
  private released = false;
  private timer = 0;
  private busy: Promise<void> = Promise.resolve();

  /// `before`: messages that are not stored yet. They go with the first write, so that no other one is before them.
  constructor(private readonly storage: Storage, private readonly conversation: string,
              private readonly message: Message, private before: Message[] = []) {}

  /// Stores the message as it is. To be called first. Resolves to whether it is stored.
  async begin(): Promise<boolean> {
    this.timer = window.setInterval(() => this.flush(), INTERVAL_MS);
    this.busy = this.putWhole();
    await this.busy;
    return !this.broken;
  }

  /// The server stores what follows.
  release() {
    clearInterval(this.timer);
    this.released = true;
  }

  /// Stores what is new, after what is being stored. `keepalive`: also while the page closes.
  flush() { this.busy = this.busy.then(() => this.part()); }

  async end() {
    clearInterval(this.timer);
    if (this.released) return;
    this.busy = this.busy.then(() => this.putWhole());
    await this.busy;
    if (!this.broken) return;
    const stop = serverReturned.subscribe(() => {
      if (this.broken) void this.putWhole().then(() => { if (!this.broken) stop(); });
    });
  }

  private async part() {
    if (this.released) return;
    if (this.broken) return this.putWhole();
    const {content, reasoning} = this.message;
    const more = content.slice(this.content);
    const moreReasoning = reasoning.slice(this.reasoning);
    if (!more && !moreReasoning) return;
    try {
      await this.storage.append(this.conversation, {
        message: this.message.id, content_at: this.contentBytes, content: more,
        reasoning_at: this.reasoningBytes, reasoning: moreReasoning,
      });
      this.count(content, reasoning, more, moreReasoning);
    } catch {
      this.broken = true;
    }
  }

  private count(content: string, reasoning: string, more: string, moreReasoning: string) {
    this.content = content.length;
    this.reasoning = reasoning.length;
    this.contentBytes += bytes(more);
    this.reasoningBytes += bytes(moreReasoning);
  }

  private async putWhole() {
    const {content, reasoning} = this.message;
    try {
      await this.storage.putMessages(this.conversation, [...this.before, this.message]);
      this.before = [];
      this.contentBytes = this.reasoningBytes = 0;
      this.count(content, reasoning, content, reasoning);
      this.broken = false;
    } catch {
      this.broken = true;
    }
  }
}
