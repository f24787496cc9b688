"""Reads structured facts (name, one-line description, synopsis, options, examples) out of a rendered manual page."""
import dataclasses
import re


@dataclasses.dataclass
class Page:
    package: str
    section: str
    names: list
    whatis: str
    synopsis: list
    summary: str  # the first sentences of the description
    options: list  # (flags, text)
    examples: list  # (command line, text)
    see_also: list  # names


SECTION_FILE = re.compile(r"/man(\d)\w*/[^/]+\.(\d)\w*(?:\.gz)?$")
SENTENCE_END = re.compile(r"(?<=[a-z)\]0-9][.!]) (?=[A-Z\"'])")
ABBREVIATION = re.compile(r"(e\.g|i\.e|etc|vs|cf|resp)\.$")


def split_sections(text):
    sections, name = {}, None
    for line in text.split("\n"):
        if line[:1] not in ("", " "):
            name = line.strip().upper()
            sections.setdefault(name, [])
        elif name:
            sections[name].append(line)
    return sections


def first_sentences(text, limit):
    """Whole sentences from the start, at least one if it fits, at most `limit` characters; '' otherwise."""
    out = ""
    for sentence in SENTENCE_END.split(text):
        joined = (out + " " + sentence).strip()
        if len(joined) > limit:
            break
        out = joined
    return out if out.endswith((".", "!")) and not ABBREVIATION.search(out) else ""


def parse_options(lines):
    options, i = [], 0
    while i < len(lines):
        m = re.match(r"^( {2,8})(-{1,2}[A-Za-z0-9?][^ ]*(?:[ =][^ ]+)*?(?:, ?-[^ ].*?)?)(?:  +(\S.*))?$", lines[i])
        if m and len(m.group(2)) < 60:
            flags, text = m.group(2).strip(), m.group(3)
            # Short tags share their line with the text after one gap; long ones have it below.
            if text is None:
                short = re.match(r"^(-[A-Za-z0-9]) +(\S.*)$", flags)
                if short and len(flags) > 20:
                    flags, text = short.groups()
                elif i + 1 < len(lines) and re.match(r"^ {6,}\S", lines[i + 1]):
                    text = lines[i + 1].strip()
                    i += 1
            if text:
                options.append((flags, text.strip()))
        i += 1
    return options


def parse_examples(name, lines):
    """Command lines that name the page's command, each with the paragraph before or after it."""
    paragraphs = [p.strip("\n").split("\n") for p in "\n".join(lines).split("\n\n") if p.strip()]
    found = []
    for i, p in enumerate(paragraphs):
        first = re.sub(r"^[$#%] +", "", p[0].strip())
        if not re.match(rf"(sudo )?{re.escape(name)}( |$)", first) or len(first) > 100:
            continue
        about = " ".join(x.strip() for x in p[1:]) or (" ".join(x.strip() for x in paragraphs[i - 1]) if i else "")
        about = first_sentences(about, 200) or (about.rstrip(":") + "." if 15 < len(about) < 150 and about.endswith(":") else "")
        if about and not re.match(r"[$#%]", about):
            found.append((first, about))
    return found


def parse(package, path, text):
    """A Page, or None where the page has no usable NAME line."""
    where = SECTION_FILE.search(path)
    sections = split_sections(text)
    name_lines = " ".join(x.strip() for x in sections.get("NAME", []) if x.strip())
    m = re.match(r"^(.{1,120}?) +[-\u2013\u2014]+ +(.{6,200})$", name_lines)
    if not where or not m:
        return None
    names = [n.strip() for n in m.group(1).split(",") if re.match(r"^\s*[A-Za-z0-9_.:+-]+\s*$", n)]
    whatis = m.group(2).strip().rstrip(".")
    if not names or not re.search(r"[a-z]{3}", whatis) or len(names) > 12:
        return None
    synopsis = [x.strip() for x in sections.get("SYNOPSIS", []) if x.strip()][:3]
    description = [x.strip() for x in sections.get("DESCRIPTION", [])]
    paragraphs = [x for x in description if len(x) > 40 and not x.startswith(("-", "\u2022"))]
    summary = first_sentences(paragraphs[0], 320) if paragraphs else ""
    options = []
    for title, lines in sections.items():
        if title in ("DESCRIPTION", "OPTIONS", "SYNOPSIS") or "OPTION" in title or "SELECTION" in title or "CONTROL" in title:
            options += parse_options(lines)
    examples = parse_examples(names[0], sections.get("EXAMPLES", []) + sections.get("EXAMPLE", []))
    also = re.findall(r"\b([a-z][\w.+-]*)\((\d)\w*\)", " ".join(sections.get("SEE ALSO", [])))
    also = [n for n, section in also if section == where.group(2) and n not in names]
    return Page(package, where.group(2), names, whatis, synopsis, summary, options[:80], examples[:6], also[:8])
