// The clipboard; over plain HTTP from another machine browsers have an older way only.
import {t} from './i18n';
import {announcement} from './state';

export async function copy(text: string, trigger?: HTMLElement) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement('textarea');
    area.value = text;
    area.className = 'offscreen';
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
  announcement.value = t('Copied.');
  if (!trigger) return;
  const label = trigger.textContent;
  trigger.textContent = t('Copied');
  setTimeout(() => { trigger.textContent = label; }, 1500);
}
