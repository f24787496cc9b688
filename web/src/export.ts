// Conversations as files: JSON with all branches, Markdown with the branch that is shown.
import {t} from './i18n';
import {messageOf} from './message_data';
import {attempt, conversations, features, newId, openConversation, privateMode, storageOf, type Conversation} from './state';
import {Tree} from './tree';
import type {ConversationInfo, Message} from './types';

export function download(name: string, type: string, text: string) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], {type}));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const fileName = (title: string) => (title.replace(/[^\p{L}\p{N} _-]+/gu, '').trim() || 'conversation').slice(0, 60);

export function toJson(info: ConversationInfo, messages: Message[]): string {
  const {id, title, folder, pinned, leaf, created, updated, data} = info;
  return JSON.stringify({format: 'chimere-conversation', id, title, folder, pinned, leaf, created, updated, data, messages}, null, 1);
}

export function toMarkdown(info: ConversationInfo, branch: Message[]): string {
  const who = {user: t('You'), assistant: t('Assistant'), system: t('System'), tool: t('Tool')};
  const parts = branch.map((m) => {
    const reasoning = m.reasoning ? `<details><summary>${t('Reasoning')}</summary>\n\n${m.reasoning}\n\n</details>\n\n` : '';
    const calls = (m.data.toolCalls ?? []).map((c) => `\n\n\`${c.name}(${c.arguments})\``).join('');
    return `## ${who[m.role]}\n\n${reasoning}${m.content}${calls}`;
  });
  return `# ${info.title}\n\n${parts.join('\n\n')}\n`;
}

export async function exportConversation(info: ConversationInfo, form: 'json' | 'markdown', open?: Conversation) {
  const messages = open ? [...open.tree.messages.values()] : await attempt(() => storageOf(info).messages(info.id));
  if (!messages) return;
  if (form === 'json') return download(`${fileName(info.title)}.json`, 'application/json', toJson(info, messages));
  const tree = new Tree();
  for (const m of messages) tree.add(m);
  download(`${fileName(info.title)}.md`, 'text/markdown', toMarkdown(info, tree.path(open?.leaf.value ?? info.leaf)));
}

/// Adds the conversation of an exported JSON file, under a new id.
export async function importConversation(file: File) {
  await attempt(async () => {
    const read = JSON.parse(await file.text());
    if (read?.format !== 'chimere-conversation' || !Array.isArray(read.messages)) {
      throw new Error(t('{name} is no conversation that Studio exported.', {name: file.name}));
    }
    const now = Date.now();
    const messages: Message[] = read.messages.filter((m: unknown) => typeof m === 'object' && m !== null).map(messageOf)
      .map((m: Message) => ({...m, created: m.created || now, complete: true}));
    const info: ConversationInfo = {
      id: newId(), title: String(read.title ?? file.name), folder: String(read.folder ?? ''), pinned: false,
      leaf: String(read.leaf ?? ''), created: now, updated: now, count: messages.length,
      isPrivate: privateMode.value || !features.value.history, data: {},
    };
    await storageOf(info).put(info.id, {title: info.title, folder: info.folder, leaf: info.leaf, data: info.data});
    if (messages.length) await storageOf(info).putMessages(info.id, messages);
    conversations.value = [info, ...conversations.value];
    await openConversation(info);
  });
}
