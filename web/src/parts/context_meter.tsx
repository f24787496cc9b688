// How much of the context is taken, and what can be done when it is full.
import {contextUse, type ContextUse} from '../context';
import {number, t} from '../i18n';
import {models, modelName, newConversation, type Conversation} from '../state';
import {editRequest} from './message';

export function useOfContext(conversation: Conversation): ContextUse | undefined {
  void conversation.version.value;
  void conversation.running.value;  // figures come with the end of an answer
  return contextUse(conversation.path(), models.value.find((m) => m.id === modelName.value));
}

export function ContextMeter({use}: {use: ContextUse}) {
  const [n, m] = [number(use.used), number(use.limit)];
  const words = t('{n} of {m} tokens of the context', {n, m});
  return (
    <span class={`context ${use.state}`} title={words}>
      <meter id="context" min={0} max={use.limit} value={use.used} low={0.8 * use.limit} high={0.98 * use.limit} optimum={0}
             aria-label={t('Context')} aria-valuetext={words} />
      <span aria-hidden="true">{n} / {m}</span>
    </span>
  );
}

export function ContextNote({use, busy}: {use: ContextUse; busy: boolean}) {
  if (use.state === 'free') return null;
  const {branch} = use;
  return (
    <div class="context-note" id="context-note" role="status">
      <span>
        {use.state === 'full' ? t('The context is full: there is hardly any room for an answer.') :
          t('{share} % of the context is taken.', {share: Math.floor(use.share * 100)})}{' '}
        {t('A new chat begins with an empty one. A branch from an earlier message leaves out what followed it.')}
      </span>
      <button type="button" class="link" onClick={() => newConversation()}>{t('New chat')}</button>
      {branch && (
        <button type="button" class="link branch" disabled={busy} onClick={() => { editRequest.value = branch.id; }}>
          {t('Edit an earlier message')}
        </button>
      )}
    </div>
  );
}
