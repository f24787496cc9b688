import {signal} from '@preact/signals';
import {t} from '../i18n';
import {Dialog} from './dialog';

export const shortcutsOpen = signal(false);

export function Shortcuts() {
  const rows: [string, string][] = [
    ['Enter', t('Send the message')], ['Shift+Enter', t('Begin a line')], ['Esc', t('Stop the answer')],
    ['↑', t('Edit your last message (in an empty field)')], ['Ctrl+K', t('Search the history')],
    ['Ctrl+Shift+O', t('New chat')], ['Ctrl+,', t('Settings')], ['/', t('Go to the message field')],
    ['Ctrl+/', t('This list')],
  ];
  return (
    <Dialog title={t('Keyboard')} onClose={() => { shortcutsOpen.value = false; }}>
      <dl class="shortcuts">
        {rows.map(([keys, what]) => <div key={keys}><dt><kbd>{keys}</kbd></dt><dd>{what}</dd></div>)}
      </dl>
      <div class="actions">
        <button type="button" class="primary" autoFocus onClick={() => { shortcutsOpen.value = false; }}>{t('Close')}</button>
      </div>
    </Dialog>
  );
}
