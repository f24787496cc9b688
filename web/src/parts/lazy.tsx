// A view that is loaded when it is shown first.
import type {ComponentType} from 'preact';
import {useEffect, useState} from 'preact/hooks';
import {t} from '../i18n';

export function Lazy({load}: {load: () => Promise<{default: ComponentType}>}) {
  const [View, setView] = useState<ComponentType | null>(null);
  const [failed, setFailed] = useState(false);
  useEffect(() => { load().then((m) => setView(() => m.default), () => setFailed(true)); }, []);
  if (failed) return <p class="banner error" role="alert">{t('This part of the page could not be loaded.')}</p>;
  return View ? <View /> : <p class="loading">{t('Loading…')}</p>;
}
