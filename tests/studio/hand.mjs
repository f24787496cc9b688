// How a user reaches the page's controls: with a mouse, a finger, or the keyboard alone.
import assert from 'node:assert/strict';
import {wait} from './support.mjs';

/// Why an element can not be seen and hit; empty if it can.
const hidden = (selector) => {
  const found = document.querySelector(selector);
  if (!found) return 'does not exist';
  const element = found.matches('.offscreen') ? found.closest('label') : found;  // its label stands for a field of files
  const box = element.getBoundingClientRect();
  if (!box.width || !box.height) return 'has no size';
  const x = box.left + box.width / 2;
  const y = box.top + Math.min(box.height / 2, 10);
  if (x < 0 || y < 0 || x > innerWidth || y > innerHeight) return 'is not on the screen';
  let opacity = 1;
  for (let e = element; e; e = e.parentElement) opacity *= Number(getComputedStyle(e).opacity);
  if (!found.disabled && opacity < 0.5) return 'is transparent';
  const hit = document.elementFromPoint(x, y);
  return hit && (element.contains(hit) || hit.contains(element)) ? '' : `is covered by ${hit?.outerHTML.slice(0, 120)}`;
};

/// How many steps of Tab lead from the focus to an element, backwards if negative, by the order of the document.
const steps = (selector) => {
  const target = document.querySelector(selector);
  const active = document.activeElement;
  if (!target || active === target) return 0;
  const all = [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')]
    .filter((e) => !e.disabled && e.tabIndex >= 0 && e.checkVisibility());
  const [from, to] = [all.indexOf(active), all.indexOf(target)];
  return from >= 0 && to >= 0 ? to - from : 1;
};

export class Hand {
  /// `kind`: mouse, finger or keys.
  constructor(page, kind) {
    this.page = page;
    this.kind = kind;
  }

  get keys() { return this.kind === 'keys'; }

  async visible(selector) {
    let why = '';
    await wait(async () => !(why = await this.page.evaluate(hidden, selector))).catch(() => assert.fail(`${selector} ${why}`));
  }

  /// Moves the focus by Tab and Shift+Tab.
  async tabTo(selector) {
    await this.page.tab.waitForSelector(`${selector}:not(:disabled)`);
    for (let tries = 0; tries < 200; ++tries) {
      const distance = await this.page.evaluate(steps, selector);
      if (!distance) {
        assert.ok(await this.page.evaluate(() => document.activeElement.matches(':focus-visible')), `${selector} does not show its focus`);
        return this.visible(selector);
      }
      const {keyboard} = this.page.tab;
      const held = distance < 0 ? [keyboard.down('Shift')] : [];
      await Promise.all([...held, ...Array.from({length: Math.abs(distance)}, () => keyboard.press('Tab'))]);
      if (held.length) await keyboard.up('Shift');
    }
    assert.fail(`Tab does not lead to ${selector}`);
  }

  /// Presses a button, follows a link, checks a box.
  async use(selector) {
    if (this.keys) {
      await this.tabTo(selector);
      return this.page.press(await this.page.evaluate(() => document.activeElement.type === 'checkbox') ? 'Space' : 'Enter');
    }
    await this.page.tab.waitForSelector(`${selector}:not(:disabled)`);
    await this.page.evaluate((where) => document.querySelector(where).scrollIntoView({block: 'nearest'}), selector);
    if (this.kind === 'mouse') await this.page.tab.hover(selector);
    await this.visible(selector);
    return this.kind === 'mouse' ? this.page.tab.click(selector) : this.page.tab.tap(selector);
  }

  /// Replaces the text of a field.
  async write(selector, text) {
    if (this.keys) await this.tabTo(selector);
    else await this.use(selector);
    await this.page.press('Control+a');
    return text ? this.page.cdp.send('Input.insertText', {text}) : this.page.press('Delete');
  }

  async chooseFile(selector, path) {
    const [chooser] = await Promise.all([this.page.tab.waitForFileChooser(), this.use(selector)]);
    await chooser.accept([path]);
  }
}
