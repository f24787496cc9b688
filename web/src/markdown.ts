// Markdown of a model as DOM. The text is hostile: HTML in it stays text, what markdown-it makes is sanitised, and
// nothing in it makes the browser send a request or follow a link before the user agrees.
import DOMPurify from 'dompurify';
import MarkdownIt from 'markdown-it';
import type {RuleBlock} from 'markdown-it/lib/parser_block.mjs';
import type {RuleInline} from 'markdown-it/lib/parser_inline.mjs';
import type Token from 'markdown-it/lib/token.mjs';
import {t} from './i18n';

const md = new MarkdownIt({html: false, linkify: true, breaks: false});
md.linkify.set({fuzzyLink: false, fuzzyEmail: false});

/// $a$ and \(a\): the delimiters of $ touch the formula, and no digit follows ("$5 and $6").
const inlineMath: RuleInline = (state, silent) => {
  const {src, pos} = state;
  let open = '$', close = '$';
  if (src.startsWith('\\(', pos)) [open, close] = ['\\(', '\\)'];
  else if (src.startsWith('\\[', pos)) [open, close] = ['\\[', '\\]'];
  else if (src.startsWith('$$', pos)) open = close = '$$';
  else if (src[pos] !== '$' || /\s/.test(src[pos + 1] ?? ' ')) return false;
  const from = pos + open.length;
  const end = src.indexOf(close, from);
  if (end <= from || end >= state.posMax) return false;
  if (open === '$' && (/\s/.test(src[end - 1]!) || /\d/.test(src[end + 1] ?? ''))) return false;
  if (!silent) {
    const token = state.push('math', 'span', 0);
    token.content = src.slice(from, end);
    token.meta = open === '$$' || open === '\\[';
  }
  state.pos = end + close.length;
  return true;
};

const blockMath: RuleBlock = (state, startLine, endLine, silent) => {
  const line = (n: number) => state.src.slice(state.bMarks[n]! + state.tShift[n]!, state.eMarks[n]!);
  const first = line(startLine);
  const [open, close] = first.startsWith('$$') ? ['$$', '$$'] : first.startsWith('\\[') ? ['\\[', '\\]'] : ['', ''];
  if (!open) return false;
  if (silent) return true;
  let last = startLine;
  let content = first.slice(2);
  for (let text = content; !text.includes(close); content += `\n${text}`) {
    if (++last >= endLine) return false;
    text = line(last);
  }
  const end = content.indexOf(close);
  if (content.slice(end + 2).trim()) return false;
  const token = state.push('math', 'span', 0);
  token.block = true;
  token.content = content.slice(0, end);
  token.meta = true;
  token.map = [startLine, last + 1];
  state.line = last + 1;
  return true;
};

const escape = md.utils.escapeHtml;
md.inline.ruler.before('escape', 'math', inlineMath);
md.block.ruler.before('fence', 'math', blockMath, {alt: ['paragraph', 'blockquote', 'list']});
md.renderer.rules.math = (tokens, i) =>
  `<span class="math${tokens[i]!.meta ? ' display' : ''}" dir="ltr">${escape(tokens[i]!.content)}</span>`;
md.renderer.rules.image = (tokens, i) => {
  const source = tokens[i]!.attrGet('src') ?? '';
  const alt = tokens[i]!.content;
  if (/^data:image\/(png|jpeg|gif|webp);/i.test(source)) return `<img src="${escape(source)}" alt="${escape(alt)}">`;
  return `<a class="image" href="${escape(source)}">${escape(t('Image: {alt}', {alt: alt || source}))}</a>`;
};
const fence = (tokens: Token[], i: number) => {
  const language = tokens[i]!.info.trim().split(/\s+/)[0] ?? '';
  return `<pre class="code" dir="ltr" title="${escape(language)}"><code>${escape(tokens[i]!.content)}</code></pre>`;
};
md.renderer.rules.fence = fence;
md.renderer.rules.code_block = fence;
// markdown-it aligns by a style attribute, which the page's policy forbids.
for (const rule of ['th_open', 'td_open']) {
  md.renderer.rules[rule] = (tokens, i) => {
    const align = /text-align:(left|center|right)/.exec(tokens[i]!.attrGet('style') ?? '')?.[1];
    return `<${tokens[i]!.tag}${align ? ` class="${align}"` : ''}>`;
  };
}
md.renderer.rules.table_open = () => '<div class="table"><table>';
md.renderer.rules.table_close = () => '</table></div>';

const PURIFY = {
  ALLOWED_TAGS: ['p', 'br', 'hr', 'strong', 'em', 's', 'code', 'pre', 'blockquote', 'ul', 'ol', 'li', 'a', 'img', 'h1',
                 'h2', 'h3', 'h4', 'h5', 'h6', 'table', 'thead', 'tbody', 'tr', 'th', 'td', 'div', 'span'],
  ALLOWED_ATTR: ['href', 'src', 'alt', 'title', 'class', 'dir', 'start'],
  ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false, RETURN_DOM_FRAGMENT: true as const,
};

function sanitised(html: string): DocumentFragment {
  const fragment = DOMPurify.sanitize(html, PURIFY) as unknown as DocumentFragment;
  for (const image of fragment.querySelectorAll('img')) {
    if (!image.getAttribute('src')?.startsWith('data:image/')) image.remove();
  }
  for (const link of fragment.querySelectorAll('a')) {
    link.rel = 'noopener noreferrer nofollow';
    link.target = '_blank';
  }
  for (const block of fragment.querySelectorAll('p, li, blockquote, h1, h2, h3, h4, h5, h6, td, th')) {
    block.setAttribute('dir', 'auto');
  }
  for (const table of fragment.querySelectorAll('div.table')) {
    table.setAttribute('tabindex', '0');
    table.setAttribute('role', 'group');
    table.setAttribute('aria-label', t('Table'));
  }
  return fragment;
}

type Finish = (root: Element) => void;

/// Shows a text that grows. Blocks before the last one do not change any more, and are made once.
export class MarkdownView {
  private text = '';
  private settled = 0;              // characters of the blocks that are made
  private tail: ChildNode[] = [];   // what the last block is shown as
  private openCode: Text | null = null;
  private finished = false;
  private env = {};

  /// `finish`: called with new elements: it highlights code and draws formulas.
  constructor(private readonly root: HTMLElement, private readonly finish: Finish) {}

  update(text: string, done: boolean) {
    if (this.finished && text === this.text) return;
    if (this.finished || !text.startsWith(this.text)) this.clear();
    this.finished = done;
    // A link may be defined after its use.
    if (done && this.settled && /^ {0,3}\[[^\]]+\]:/m.test(text)) this.clear();
    this.text = text;
    const rest = text.slice(this.settled);
    if (!done && this.growCode(rest)) return;
    this.openCode = null;
    const tokens = md.parse(rest, this.env);
    const last = done ? tokens.length : this.lastBlock(tokens);
    for (const node of this.tail) node.remove();
    this.tail = [];
    if (last > 0) {
      const fragment = sanitised(md.renderer.render(tokens.slice(0, last), md.options, this.env));
      const made = [...fragment.children];
      this.root.append(fragment);
      for (const element of made) this.finish(element);
      this.settled = done ? text.length : this.settled + this.offsetOfLine(rest, tokens[last]!.map![0]);
    }
    if (last === tokens.length) return;
    const fragment = sanitised(md.renderer.render(tokens.slice(last), md.options, this.env));
    this.tail = [...fragment.childNodes];
    this.root.append(fragment);
    if (tokens.length === last + 1 && tokens[last]!.type === 'fence') {
      const code = this.root.lastElementChild?.querySelector('code');
      this.openCode = code ? (code.firstChild as Text ?? code.appendChild(new Text())) : null;
    }
  }

  /// Appends to the code block at the end without making it again. False: the text is something else.
  private growCode(rest: string): boolean {
    if (!this.openCode?.isConnected) return false;
    const mark = /^(`{3,}|~{3,})[^\n]*\n/.exec(rest);
    if (!mark || rest.includes(`\n${mark[1]}`)) return false;
    const code = rest.slice(mark[0].length);
    const shown = this.openCode.data.replace(/\n$/, '');
    if (!code.startsWith(shown)) return false;
    this.openCode.replaceData(shown.length, this.openCode.length - shown.length, code.slice(shown.length));
    return true;
  }

  /// The index of the first token of the last block.
  private lastBlock(tokens: Token[]): number {
    let last = 0;
    for (let i = 0; i < tokens.length; ++i) {
      const token = tokens[i]!;
      if (token.level === 0 && token.nesting >= 0 && token.map) last = i;
    }
    return last;
  }

  private offsetOfLine(text: string, line: number): number {
    let at = 0;
    for (let i = 0; i < line; ++i) at = text.indexOf('\n', at) + 1;
    return at;
  }

  private clear() {
    this.root.replaceChildren();
    this.text = '';
    this.settled = 0;
    this.tail = [];
    this.openCode = null;
    this.env = {};
  }
}
