"""Turns documentation files (man, HTML, plain text, pod) into clean plain text, one line a paragraph."""
import gzip
import html.parser
import re
import subprocess

OVERSTRIKE = re.compile(".\x08")
BLANKS = re.compile(r"\n{3,}")
SENTENCE_GAP = re.compile(r"(?<=[.?!:;,)]) {2,}(?=\S)")
ENGLISH = frozenset("the of to and is in a for that this be by with it as are or".split())
# Sections on authors and copyright; the licences are listed in the model card instead.
LEGAL_SECTION = re.compile(r"^(AUTHORS?|COPYRIGHT|REPORTING BUGS|COLOPHON|LICENSE|RESOURCES|BUGS? REPORTS?)\b")
MAX_FILE = 20_000_000


def read_text(path):
    """The file's text; gzip by name. Latin-1 where it is no UTF-8."""
    opener = gzip.open if path.endswith((".gz", ".dz")) else open
    with opener(path, "rb") as f:
        data = f.read(MAX_FILE)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def tidy(text):
    """Trailing blanks, runs of empty lines and control characters removed."""
    text = "".join(c for c in text.replace("\t", "    ") if c == "\n" or c >= " ")
    lines = [SENTENCE_GAP.sub(" ", line.rstrip()) for line in text.split("\n")]
    return BLANKS.sub("\n\n", "\n".join(lines)).strip("\n") + "\n"


def is_english(text):
    words = re.findall(r"[A-Za-z]+", text[:20_000])
    return len(words) >= 40 and sum(w.lower() in ENGLISH for w in words) > 0.12 * len(words)


def man(path):
    """A manual page, through mandoc with lines so wide that a paragraph stays on one. Returns None for
    an alias (.so) or a page that mandoc cannot set."""
    source = read_text(path)
    if source.lstrip().startswith(".so ") or len(source) < 200:
        return None
    done = subprocess.run(["mandoc", "-K", "utf-8", "-T", "utf8", "-O", "width=900,indent=4"],
                          input=source.encode(), capture_output=True, timeout=60, check=False)
    lines = OVERSTRIKE.sub("", done.stdout.decode("utf-8", "replace")).rstrip("\n").split("\n")
    if len(lines) < 6:
        return None
    body, skipping = [], False
    for line in lines[1:-1]:  # the first and last lines are the page's header and footer
        if line[:1] not in ("", " "):
            skipping = bool(LEGAL_SECTION.match(line))
        if not skipping:
            body.append(line)
    return tidy("\n".join(body))


class _Html(html.parser.HTMLParser):
    SKIP = {"script", "style", "head", "nav", "footer", "header", "form", "svg", "button"}
    BLOCK = {"p", "div", "li", "ul", "ol", "dl", "dt", "dd", "table", "tr", "h1", "h2", "h3", "h4", "h5",
             "h6", "section", "article", "blockquote", "br", "hr", "title"}
    CHROME = re.compile(r"sphinxsidebar|related|navheader|navfooter|headerlink|toc\b|breadcrumb")

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.out, self.skip, self.pre, self.stack = [], 0, 0, []

    def handle_starttag(self, tag, attrs):
        if tag in ("br", "hr", "img", "meta", "link", "input", "col", "wbr", "area", "base"):
            self.out.append("\n" if tag in ("br", "hr") and not self.skip else "")
            return
        hidden = tag in self.SKIP or bool(self.CHROME.search(dict(attrs).get("class") or ""))
        self.stack.append((tag, hidden))
        self.skip += hidden
        if tag == "pre":
            self.pre += 1
        if not self.skip:
            if tag == "li":
                self.out.append("\n- ")
            elif tag in ("td", "th"):
                self.out.append("  ")
            elif tag in self.BLOCK or tag == "pre":
                self.out.append("\n\n" if tag != "tr" else "\n")

    def handle_endtag(self, tag):
        if not any(t == tag for t, _ in self.stack):
            return
        while self.stack:
            name, hidden = self.stack.pop()
            self.skip -= hidden
            if name == "pre":
                self.pre = max(0, self.pre - 1)
            if name == tag:
                break
        if not self.skip and (tag in self.BLOCK or tag == "pre"):
            self.out.append("\n")

    def handle_data(self, data):
        if not self.skip:
            self.out.append(data if self.pre else re.sub(r"\s+", " ", data))


def html_page(path):
    parser = _Html()
    parser.feed(read_text(path))
    text = "".join(parser.out).replace("\u00b6", "").replace("\u00a0", " ")
    text = re.sub(r"\n[ ]*- \s+", "\n- ", re.sub(r"\n +(?=\n)", "\n", text))
    return tidy(text)


def plain(path):
    """Plain text and reStructuredText: hard-wrapped paragraphs are joined into one line."""
    return unwrap(tidy(read_text(path)))


def unwrap(text):
    out = []
    for paragraph in re.split(r"\n\s*\n", text):
        lines = paragraph.split("\n")
        indents = {len(line) - len(line.lstrip()) for line in lines}
        prose = len(indents) == 1 and len(lines) > 1 and all(len(x.strip()) > 45 for x in lines[:-1])
        if prose:
            paragraph = " " * indents.pop() + " ".join(line.strip() for line in lines)
        out.append(paragraph)
    return tidy("\n\n".join(out))


def pod(path):
    """Perl's documentation: commands become headings, formatting codes their text."""
    text = re.sub(r"^=(head\d|item|over|back|for|begin|end|pod|cut|encoding)\b *(.*)$",
                  lambda m: m.group(2) if m.group(1)[:4] in ("head", "item") else "", read_text(path), flags=re.M)
    for _ in range(3):
        text = re.sub(r"\b[BCIFLSX]<<? ?([^<>]*?) ?>?>", r"\1", text)
    text = text.replace("E<gt>", ">").replace("E<lt>", "<")
    paragraphs = []
    for p in re.split(r"\n\s*\n", text):
        paragraphs.append(p if p.startswith((" ", "\t")) else " ".join(p.split("\n")))
    return tidy("\n\n".join(paragraphs))


def info(path):
    """A GNU info manual: node headers, menus, indexes and the tables at the end are left out."""
    nodes = read_text(path).split("\x1f\n")
    kept = []
    for node in nodes[1:]:
        header, _, body = node.partition("\n")
        if not header.startswith("File:") or re.search(r"Node: [^,]*(Index|License|Copying)", header):
            continue
        body = re.sub(r"^\* [^\n]*:[^\n]*\n(?: {20,}[^\n]*\n)*", "", body.replace("* Menu:\n", ""), flags=re.M)
        kept.append(re.sub(r"\*note ([^:]+)::", r"\1", body))
    return unwrap(tidy("\n\n".join(kept)))


def wordnet(path):
    """One line a set of synonyms: the words, the part of speech and the gloss."""
    parts = {"n": "noun", "v": "verb", "a": "adjective", "s": "adjective", "r": "adverb"}
    out = []
    for line in read_text(path).split("\n"):
        fields, _, gloss = line.partition(" | ")
        words = fields.split(" ")
        if len(words) < 6 or line.startswith(" "):
            continue
        names = [words[4 + 2 * i].replace("_", " ") for i in range(int(words[3], 16))]
        out.append(f"{', '.join(names)} ({parts[words[2]]}): {gloss.strip()}")
    return tidy("\n\n".join(out))


def pieces(text, size=200_000):
    """Long documents in pieces that end at a paragraph."""
    while len(text) > size:
        cut = text.rfind("\n\n", size // 2, size)
        cut = cut if cut > 0 else size
        yield text[:cut] + "\n"
        text = text[cut:].lstrip("\n")
    yield text
