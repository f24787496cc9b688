// How much of the model's context a conversation takes.
import type {Message, Model} from './types';

export interface ContextUse {
  used: number;  ///< tokens of the last answer and of its prompt
  limit: number;
  share: number;
  state: 'free' | 'scarce' | 'full';
  /// The message of the user to branch from: the last one before which at most half of the context was taken.
  branch?: Message;
}

const SCARCE = 0.8;
const FULL = 0.98;

const tokensOf = (m: Message) => (m.data.usage?.prompt ?? 0) + (m.data.usage?.completion ?? 0);

/// Of the branch that is shown; undefined where the server does not say how many tokens there are.
export function contextUse(path: Message[], model: Model | undefined): ContextUse | undefined {
  const limit = model?.context_length ?? 0;
  if (limit <= 0) return undefined;
  const last = path.at(-1);
  const refused = last?.data.error !== undefined && last.data.errorCode === 'context_length_exceeded';
  const measured = path.findLast((m) => tokensOf(m) > 0);
  const used = refused ? limit : measured ? tokensOf(measured) : 0;
  if (!used) return undefined;
  const share = Math.min(1, used / limit);
  let before = 0;
  let branch: Message | undefined;
  for (const m of path) {
    if (m.role === 'user' && (!branch || before <= limit / 2)) branch = m;
    before = tokensOf(m) || before;
  }
  return {used, limit, share, state: share >= FULL ? 'full' : share >= SCARCE ? 'scarce' : 'free', branch};
}
