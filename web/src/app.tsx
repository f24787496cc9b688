// The frame of the page: history at the side, the view in the middle, choices on the other side.
import {effect, signal} from '@preact/signals';
import {useLayoutEffect} from 'preact/hooks';
import {gone, keyWanted} from './api';
import {t} from './i18n';
import {ConfirmLink} from './parts/confirm_link';
import {KeyDialog} from './parts/key_dialog';
import {Lazy} from './parts/lazy';
import {SettingsPanel} from './parts/settings_panel';
import {Shortcuts, shortcutsOpen} from './parts/shortcuts';
import {Sidebar} from './parts/sidebar';
import {TopBar} from './parts/top_bar';
import {announcement, current, focusInput, newConversation, notice, settingsOpen, sidebarOpen, view} from './state';
import {ChatView} from './views/chat';

const secondsGone = signal(0);
effect(() => {
  if (!gone.value) {
    secondsGone.value = 0;
    return;
  }
  const timer = setInterval(() => { secondsGone.value = secondsGone.peek() + 1; }, 1000);
  return () => clearInterval(timer);
});

function onKey(event: KeyboardEvent) {
  if (event.isComposing) return;
  const command = event.ctrlKey || event.metaKey;
  const target = event.target as HTMLElement;
  const typing = target.matches('input, textarea, select');
  if (command && event.key === 'k') {
    event.preventDefault();
    sidebarOpen.value = true;
    queueMicrotask(() => document.getElementById('search')?.focus());  // when it is drawn
  } else if (command && event.shiftKey && event.key.toLowerCase() === 'o') {
    event.preventDefault();
    newConversation();
  } else if (command && event.key === ',') {
    event.preventDefault();
    settingsOpen.value = !settingsOpen.value;
  } else if (command && event.key === '/') {
    event.preventDefault();
    shortcutsOpen.value = true;
  } else if (event.key === 'Escape' && !document.querySelector('dialog[open]')) {
    if (current.value.running.value) current.value.running.value.abort();
    else if (settingsOpen.value) settingsOpen.value = false;
    focusInput();
  } else if (event.key === '/' && !typing && !command) {
    event.preventDefault();
    focusInput();
  }
}

const VIEWS = {
  compare: () => import('./views/compare'),
  tokens: () => import('./views/tokens'),
  memories: () => import('./views/memories'),
  collections: () => import('./views/collections'),
  server: () => import('./views/server'),
};

export function App() {
  useLayoutEffect(() => {
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);
  const shown = view.value;
  return (
    <>
      <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); focusInput(); }}>{t('Skip to the message')}</a>
      <div class={`frame ${sidebarOpen.value ? 'with-sidebar' : ''} ${settingsOpen.value ? 'with-settings' : ''}`}>
        {sidebarOpen.value && <Sidebar />}
        <div class="middle">
          <TopBar />
          {gone.value && (
            <p class="banner error" role="alert" id="gone">
              {t('The server does not answer. This page tries again every second.')}
              {secondsGone.value > 2 && ` (${secondsGone.value} s)`}
            </p>
          )}
          {notice.value && (
            <p class="banner" role="alert" id="notice">
              {notice.value} <button class="link" onClick={() => { notice.value = ''; }}>{t('Dismiss')}</button>
            </p>
          )}
          {shown === 'chat' ? <ChatView /> : <Lazy key={shown} load={VIEWS[shown]} />}
        </div>
        {settingsOpen.value && <SettingsPanel />}
      </div>
      <div class="offscreen" role="status" aria-live="polite">{announcement.value}</div>
      {keyWanted.value && <KeyDialog />}
      <ConfirmLink />
      {shortcutsOpen.value && <Shortcuts />}
    </>
  );
}
