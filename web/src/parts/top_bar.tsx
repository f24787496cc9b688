// The model, and the page's own controls.
import {t} from '../i18n';
import {choices, current, models, modelName, newConversation, settingsOpen, sidebarOpen, view} from '../state';
import {IconButton} from './icon';

const STATES: Record<string, string> = {
  ready: 'ready', absent: 'loaded when used', loading: 'loading', evicting: 'being unloaded',
};

export const stateText = (state?: string) => state ? t(STATES[state] ?? state) : '';

export function TopBar() {
  const {info} = current.value;
  void current.value.version.value;
  return (
    <header class="top">
      <IconButton icon="menu" id="menu" label={sidebarOpen.value ? t('Hide the history') : t('Show the history')}
                  aria-expanded={sidebarOpen.value} onClick={() => { sidebarOpen.value = !sidebarOpen.value; }} />
      {models.value.length > 1 ? (
        <select id="model" aria-label={t('Model')} value={modelName.value}
                onChange={(e) => { choices.value = {...choices.value, model: e.currentTarget.value}; }}>
          {models.value.map((m) => (
            <option key={m.id} value={m.id}>{m.id}{m.state && m.state !== 'ready' ? ` (${stateText(m.state)})` : ''}</option>
          ))}
        </select>
      ) : <span id="model" class="model-name" title={modelName.value}>{modelName.value}</span>}
      <h1 class="title">{view.value === 'chat' ? info.title : ''}</h1>
      {info.isFleeting && view.value === 'chat' && <span class="badge" title={t('Gone with this page')}>{t('not kept')}</span>}
      {info.isPrivate && !info.isFleeting && view.value === 'chat' && <span class="badge" title={t('Kept in this browser only')}>{t('private')}</span>}
      <IconButton icon="plus" id="reset" label={t('New chat')} onClick={() => newConversation()} />
      <IconButton icon="sliders" id="settings-button" label={t('Settings')} aria-expanded={settingsOpen.value}
                  onClick={() => { settingsOpen.value = !settingsOpen.value; }} />
    </header>
  );
}
