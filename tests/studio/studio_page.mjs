// Studio in its own browser tab, with the operations that the tests use.

const WAIT_MS = 60000 * Number(process.env.TEST_TIMEOUT_FACTOR ?? 1);  // for hangs only

export class StudioPage {
  exceptions = [];  // of the page's script
  violations = [];  // of its Content-Security-Policy
  requests = [];    // addresses

  /// `seen`: whether the first visit's steps were read. Tests read English unless they say otherwise. `shared`: a tab of
  /// the browser's window; otherwise a context of its own, for which Chromium opens a window (seconds of computing).
  static async create(browser, {seen = true, language = 'en', dark = false, shared = false} = {}) {
    const self = new StudioPage();
    self.shared = shared;
    self.context = shared ? browser.defaultBrowserContext() : await browser.createBrowserContext();
    self.tab = await self.context.newPage();
    await self.tab.setViewport({width: 1280, height: 800});
    self.tab.setDefaultTimeout(WAIT_MS);
    self.tab.on('pageerror', (error) => self.exceptions.push(String(error.stack ?? error)));
    self.tab.on('request', (request) => self.requests.push(request.url()));
    self.tab.on('console', (line) => {
      if (/Content Security Policy|TrustedHTML|TrustedScript/.test(line.text())) self.violations.push(line.text());
    });
    if (dark) await self.tab.emulateMediaFeatures([{name: 'prefers-color-scheme', value: 'dark'}]);
    await self.tab.evaluateOnNewDocument((welcomed, lang) => {
      if (location.protocol !== 'http:' || self !== top) return;  // a diagram's frame has no storage
      localStorage.setItem('welcomed', String(welcomed));
      localStorage.getItem('language') ?? localStorage.setItem('language', lang);
    }, seen, language);
    self.cdp = await self.tab.createCDPSession();
    return self;
  }

  async open(url) {
    await this.tab.goto(url);
    await this.waitFor(() => document.getElementById('text') && document.getElementById('model')?.textContent);
    await this.tab.focus('#text');
  }

  /// Opens a server that needs a key, or that does not answer yet.
  async openOnly(url) {
    await this.tab.goto(url);
    await this.tab.waitForSelector('#text');
  }

  /// Nothing of the page is left in the browser: a later server may have the same port.
  async close() {
    if (!this.shared) return this.context.close();
    const origins = new Set(this.requests.filter((url) => url.startsWith('http')).map((url) => new URL(url).origin));
    for (const origin of origins) await this.cdp.send('Storage.clearDataForOrigin', {origin, storageTypes: 'all'});
    return this.tab.close();
  }
  resize(width, height) { return this.tab.setViewport({width, height}); }
  phone(width, height) { return this.tab.setViewport({width, height, isMobile: true, hasTouch: true}); }  // loads again
  evaluate(code, ...values) { return this.tab.evaluate(code, ...values); }
  async click(selector, options) {
    await this.tab.waitForSelector(selector);
    return this.tab.click(selector, options);
  }
  /// For elements that are shown when the pointer is near.
  async press_button(selector) {
    await this.tab.waitForSelector(selector);
    return this.tab.$eval(selector, (element) => element.click());
  }
  count(selector) { return this.tab.$$eval(selector, (found) => found.length); }
  property(selector, name) { return this.tab.$eval(selector, (element, key) => element[key], name); }
  draft() { return this.property('#text', 'value'); }
  text() { return this.tab.$eval('#messages', (element) => element.innerText.replace(/\s+/g, ' ').trim()); }

  // Keys pass through the browser's input handling, one event after the other; the page's handlers have run afterwards.
  async type(text, selector = '#text') {
    await this.tab.waitForSelector(selector);
    await this.tab.focus(selector);
    await this.cdp.send('Input.insertText', {text});
  }

  async press(chord) {
    const keys = chord.split('+');
    for (const key of keys) await this.tab.keyboard.down(key);
    for (const key of keys.reverse()) await this.tab.keyboard.up(key);
  }

  async send(text) {
    await this.type(text);
    await this.press('Enter');
  }

  async fill(selector, text) {
    await this.tab.waitForSelector(selector);
    await this.tab.focus(selector);
    await this.tab.$eval(selector, (element) => element.select());
    await this.cdp.send('Input.insertText', {text});
  }

  // An input method: a composition, a key with the code that it reports, and the text that it ends with.
  compose(text) {
    return this.cdp.send('Input.imeSetComposition', {text, selectionStart: text.length, selectionEnd: text.length});
  }
  key(event) { return this.cdp.send('Input.dispatchKeyEvent', {type: 'rawKeyDown', ...event}); }
  commit(text) { return this.cdp.send('Input.insertText', {text}); }

  // Polls by time: puppeteer's mutation observer sees neither scrolling nor growing text.
  waitFor(condition, ...values) {
    return this.tab.waitForFunction(condition, {polling: 20}, ...values);
  }

  // Waits until an element contains `text`, but for white space. (innerText leaves out what is not on the screen.)
  shows(text, selector = '#messages') {
    return this.waitFor((wanted, where) => {
      return document.querySelector(where)?.textContent.replace(/\s+/g, '').includes(wanted);
    }, text.replace(/\s+/g, ''), selector);
  }

  // Waits until no generation runs in the conversation that is shown.
  idle() {
    return this.waitFor(() => document.getElementById('send') && !document.querySelector('[aria-busy="true"]'));
  }
}
