// Texts of the page. The key of a text is its English form.
import {signal} from '@preact/signals';
import {french} from './french';

export type Language = 'en' | 'fr';
const preferred = () => (navigator.languages ?? []).some((l) => l.startsWith('fr')) &&
    !navigator.languages[0]?.startsWith('en') ? 'fr' : 'en';
export const language = signal<Language>((localStorage.getItem('language') as Language | null) ?? preferred());

export function setLanguage(value: Language) {
  localStorage.setItem('language', value);
  language.value = value;
}

/// The text in the user's language, with {names} replaced.
export function t(text: string, values: Record<string, string | number> = {}): string {
  const form = language.value === 'fr' ? french[text] ?? text : text;
  return form.replace(/\{(\w+)\}/g, (whole, name: string) => name in values ? String(values[name]) : whole);
}

export const number = (value: number, digits = 0) =>
  value.toLocaleString(language.value, {maximumFractionDigits: digits, minimumFractionDigits: digits});

export function seconds(ms: number): string {
  return ms < 9950 ? `${number(ms / 1000, 1)} s` : ms < 60_000 ? `${number(ms / 1000)} s` :
    `${Math.floor(ms / 60_000)} min ${Math.round(ms % 60_000 / 1000)} s`;
}

export function bytes(value: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  for (; value >= 1024 && unit < units.length - 1; ++unit) value /= 1024;
  return `${number(value, unit && value < 100 ? 1 : 0)} ${units[unit]}`;
}
