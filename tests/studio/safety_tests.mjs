// Hostile texts: no script runs, and no request leaves for another host.
import assert from 'node:assert/strict';
import {DIAGRAMS, TEXTS} from './hostile_payloads.mjs';

const foreign = (page, server) =>
  page.requests.filter((url) => !url.startsWith(server.url) && !url.startsWith('data:') && !url.startsWith('blob:') && url !== 'about:blank');

/// What is in the answer that should not be.
const findings = () => {
  const out = [];
  for (const element of document.querySelectorAll('.message *')) {
    const name = element.localName;
    if (element.closest('.katex')) {
      if (/^(a|img|image|script|iframe)$/.test(name)) out.push(element.outerHTML.slice(0, 200));
    } else if (!/^(p|br|hr|strong|em|s|code|pre|blockquote|ul|ol|li|a|img|h[1-6]|table|thead|tbody|tr|th|td|div|span|button|figure|figcaption|iframe)$/.test(name)) {
      out.push(element.outerHTML.slice(0, 200));
    }
    for (const {name: attribute, value} of element.attributes) {
      if (/^on/i.test(attribute) || (attribute === 'style' && !element.closest('.katex'))) out.push(element.outerHTML.slice(0, 200));
      if (/^(href|src)$/.test(attribute) && name !== 'a' && name !== 'iframe' && !/^data:image\/(png|jpeg|gif|webp)/.test(value)) out.push(`${name} ${value}`);
      if (attribute === 'href' && /^\s*(javascript|vbscript|data|file|blob):/i.test(element.href)) out.push(`${name} ${value}`);
    }
  }
  return out;
};

export const safetyTests = {
  async hostile_texts_do_nothing({page, server}) {
    assert.ok(TEXTS.length + DIAGRAMS.length >= 200, `${TEXTS.length + DIAGRAMS.length} texts`);
    for (let i = 0; i < TEXTS.length; i += 40) {
      await page.click('#reset');
      await page.send('go on');
      const generation = await server.next();
      // As it comes and as a whole: blocks are drawn while they are incomplete.
      for (const text of TEXTS.slice(i, i + 40)) {
        generation.say(text.slice(0, text.length / 2));
        generation.say(`${text.slice(text.length / 2)}\n\n`);
      }
      generation.reason(TEXTS.slice(i, i + 40).join('\n'));
      generation.finish();
      await page.idle();
      await page.press_button('.reasoning summary');
      await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 300)));  // formulas and colours are drawn
      assert.deepEqual(await page.evaluate(findings), []);
    }
    // Each once more on its own, from the user, in a title and as a tool's name and result.
    for (const text of ['<img src=x onerror=pwned=1>', '[x](javascript:pwned=1)', '"><script>pwned=1</script>']) {
      await page.click('#reset');
      await page.send(text);
      const generation = await server.next();
      generation.call(text, text);
      generation.finish('tool_calls', {prompt_tokens: 1, completion_tokens: 1});
      await page.idle();
      assert.deepEqual(await page.evaluate(() => document.querySelectorAll('.message img, .message script, .message a').length), 0);
    }
    assert.equal(await page.evaluate(() => typeof pwned), 'undefined');
    assert.deepEqual(foreign(page, server), []);
  },

  async hostile_diagrams_stay_in_their_frame({page, server}) {
    await page.send('go on');
    (await server.next()).answer(DIAGRAMS.map((d) => `\`\`\`mermaid\n${d}\n\`\`\`\n`).join('\n'));
    await page.idle();
    for (let i = 0; i < DIAGRAMS.length; ++i) {
      await page.evaluate((at) => document.querySelectorAll('figcaption button:first-of-type')[at].click(), i);
      await page.waitFor((at) => {
        const box = document.querySelectorAll('.code-box')[at];
        return box.querySelector('iframe[height]') || box.querySelector('button:disabled');
      }, i);
    }
    for (const frame of page.tab.frames()) {
      assert.equal(await frame.evaluate(() => typeof pwned), 'undefined');
      if (frame !== page.tab.mainFrame()) assert.equal(await frame.evaluate(() => origin), 'null');
    }
    // The policy of the frame stops what Mermaid would load; the browser reports the attempt as a request without an answer.
    const made = server.requests.filter((path) => path.includes('evil'));
    assert.deepEqual(made, []);
    page.violations = [];
  },

  async a_click_on_a_hostile_link_asks_first({page, server}) {
    await page.send('go on');
    (await server.next()).answer('[x](<https://evil.test/?q=secret>) [y](/v1/models) https://evil.test/auto');
    await page.shows('auto');
    await page.idle();
    for (let i = 0; i < 3; ++i) {
      await page.evaluate((at) => document.querySelectorAll('.message a')[at].click(), i);
      await page.tab.waitForSelector('#link-dialog[open]');
      await page.press('Escape');
      await page.waitFor(() => !document.querySelector('#link-dialog'));
    }
    assert.deepEqual(foreign(page, server), []);
  },
};
