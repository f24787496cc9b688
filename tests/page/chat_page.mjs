// The chat page in its own browser tab, with the operations that the tests use.

const WAIT_MS = 60000 * Number(process.env.TEST_TIMEOUT_FACTOR ?? 1);  // for hangs only

export class ChatPage {
  exceptions = [];  // of the page's script
  faults = [];  // what the browser's console calls an error

  static async create(browser) {
    const self = new ChatPage();
    self.context = await browser.createBrowserContext();
    self.tab = await self.context.newPage();
    self.tab.setDefaultTimeout(WAIT_MS);
    self.tab.on('pageerror', (error) => self.exceptions.push(String(error)));
    self.tab.on('console', (line) => line.type() === 'error' && self.faults.push(line.text()));
    self.cdp = await self.tab.createCDPSession();
    return self;
  }

  async open(url) {
    await this.tab.goto(url);
    await this.tab.focus('#text');
  }

  close() { return this.context.close(); }
  resize(width, height) { return this.tab.setViewport({width, height}); }
  phone(width, height) { return this.tab.setViewport({width, height, isMobile: true, hasTouch: true}); }  // loads again
  evaluate(code, ...values) { return this.tab.evaluate(code, ...values); }
  click(selector, options) { return this.tab.click(selector, options); }
  count(selector) { return this.tab.$$eval(selector, (found) => found.length); }
  property(selector, name) { return this.tab.$eval(selector, (element, key) => element[key], name); }
  draft() { return this.property('#text', 'value'); }
  text() { return this.tab.$eval('#messages', (element) => element.innerText.replace(/\s+/g, ' ').trim()); }

  // Keys pass through the browser's input handling, one event after the other; the page's handlers have run afterwards.
  async type(text) {
    await this.tab.focus('#text');
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
    await this.tab.$eval(selector, (element) => element.select());
    await this.tab.focus(selector);
    await this.cdp.send('Input.insertText', {text});
    await this.press('Enter');
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

  // Waits until the messages contain `text`, whatever white space is in between.
  shows(text) {
    return this.waitFor((wanted) => {
      return document.getElementById('messages').innerText.replace(/\s+/g, ' ').includes(wanted);
    }, text);
  }

  // Waits until no generation runs.
  idle() {
    return this.waitFor(() => {
      const send = document.getElementById('send');
      return !send.disabled && send.textContent === 'Send';
    });
  }
}
