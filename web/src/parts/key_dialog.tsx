// Asks for an API key when the server wants one.
import {useState} from 'preact/hooks';
import {keyWanted, setKey} from '../api';
import {t} from '../i18n';
import {connect} from '../state';
import {Dialog} from './dialog';

export function KeyDialog() {
  const [value, setValue] = useState('');
  const [remember, setRemember] = useState(false);
  const wrong = /[^\x21-\x7e]/.test(value.trim());
  const submit = (event: Event) => {
    event.preventDefault();
    if (!value.trim() || wrong) return;
    setKey(value.trim(), remember);
    void connect();
  };
  return (
    <Dialog title={t('API key')} id="key-dialog" onClose={() => { keyWanted.value = ''; }}>
      <form onSubmit={submit}>
        <p>{keyWanted.value} {t('Whoever runs it can make one with “chimere keys add”.')}</p>
        <label class="field">
          {t('Key')}
          <input id="key" type="password" autocomplete="off" autoFocus value={value}
                 onInput={(e) => setValue(e.currentTarget.value)} aria-describedby="key-error" />
        </label>
        <p id="key-error" class="error-text">{wrong ? t('The key has characters that no key of a server has.') : ''}</p>
        <label class="check">
          <input type="checkbox" checked={remember} onChange={(e) => setRemember(e.currentTarget.checked)} />
          {t('Remember it on this device')}
        </label>
        <div class="actions">
          <button type="button" onClick={() => { keyWanted.value = ''; }}>{t('Cancel')}</button>
          <button class="primary">{t('Use this key')}</button>
        </div>
      </form>
    </Dialog>
  );
}
