// A link or an image of an answer leads elsewhere only after the user has seen its address.
import {signal} from '@preact/signals';
import {copy} from '../clipboard';
import {t} from '../i18n';
import {Dialog} from './dialog';

const target = signal('');

/// Handles clicks on an element that shows text of a model.
export function onLink(event: MouseEvent) {
  const link = (event.target as Element).closest('a');
  if (!link) return;
  event.preventDefault();
  target.value = link.href;
}

export function ConfirmLink() {
  const address = target.value;
  if (!address) return null;
  const web = /^https?:/.test(address);
  const host = web ? new URL(address).host : '';
  const close = () => { target.value = ''; };
  return (
    <Dialog title={t('Open this address?')} id="link-dialog" onClose={close}>
      <p>{web ? t('It was written by a model, and leads to {host}.', {host}) : t('This page opens web addresses only.')}</p>
      <p class="address" dir="ltr">{address}</p>
      <div class="actions">
        <button type="button" onClick={close}>{t('Cancel')}</button>
        <button type="button" onClick={(e) => void copy(address, e.currentTarget)}>{t('Copy')}</button>
        {web && (
          <button type="button" class="primary" onClick={() => { open(address, '_blank', 'noopener,noreferrer'); close(); }}>
            {t('Open')}
          </button>
        )}
      </div>
    </Dialog>
  );
}
