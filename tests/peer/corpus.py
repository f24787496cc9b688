"""Lines to compare tokenizers on: code and prose of this machine, every script of Unicode, and strings made to hurt.

Equal arguments give equal lines on machines with equal files. Only characters that this Python's unicodedata knows are used,
because libraries of different age disagree about unassigned ones.
"""
import pathlib
import random
import sys
import unicodedata

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Punctuation, marks and format characters that came or changed after Unicode 8. Hugging Face's library goes by about that version where it
# does not use regular expressions: in normal form C, and for BERT and Falcon.
AFTER_UNICODE_8 = """
    166D 1734 A9BD 111C9 61D 7FD 890-891 898-89F 8CA-8E2 9FD-9FE A76 AFA-AFF B55 C04 C3C C77 C84 D00 D3B-D3C D81 EBA 1715 180F 1ABF-1ACE 1B7D-1B7E 1CF7
    1DF6-1DFB 2E43-2E4F 2E52-2E5D A82C A8C5 A8FF 10D24-10D27 10EAB-10EAD 10F46-10F50 10F55-10F59 10F82-10F89 11070 11073-11074 110C2
    110CD 11145-11146 111CE-111CF 1123E 1133B 11435-11446 1144B-1144F 1145A-1145B 1145D-1145E 11660-1166C 116B9 1182C-1183B
    11930-11935 11937-11938 1193B-1193E 11940 11942-11946 119D1-119D7 119DA-119E0 119E2 119E4 11A01-11A0A 11A33-11A39 11A3B-11A47
    11A51-11A5B 11A8A-11A9C 11A9E-11AA2 11C2F-11C36 11C38-11C3F 11C41-11C45 11C70-11C71 11C92-11CA7 11CA9-11CB6 11D31-11D36 11D3A
    11D3C-11D3D 11D3F-11D45 11D47 11D8A-11D8E 11D90-11D91 11D93-11D97 11EF3-11EF8 11FFF 12FF1-12FF2 13430-13438 16E97-16E9A 16F4F
    16F7F-16F87 16FE2 16FE4 16FF0-16FF1 1CF00-1CF2D 1CF30-1CF46 1E000-1E006 1E008-1E018 1E01B-1E021 1E023-1E024 1E026-1E02A
    1E130-1E136 1E2AE 1E2EC-1E2EF 1E944-1E94A 1E95E-1E95F"""
MAX_CHARS = 400  # of one line; longer ones are cut


def files(folder, *patterns):
    return sorted(path for pattern in patterns for path in pathlib.Path(folder).rglob(pattern)
                  if path.is_file() and not {"node_modules", "build", ".git"} & set(path.parts))


def lines_of(paths, draw, count):
    """Up to `count` runs of 1 to 4 lines, from random places of the files."""
    everything = []
    for path in paths:
        try:
            everything.append(path.read_text(encoding="utf-8").splitlines(keepends=True))
        except UnicodeDecodeError:
            continue
    flat = [(number, at) for number, lines in enumerate(everything) for at in range(len(lines))]
    chosen = draw.sample(flat, min(count, len(flat)))
    return ["".join(everything[number][at:at + draw.choice((1, 1, 1, 2, 4))])[:MAX_CHARS] for number, at in chosen]


def scripts():
    """Characters by the first word of their Unicode name, which names the script for letters."""
    table = {}
    for code in range(sys.maxunicode + 1):
        c = chr(code)
        if unicodedata.category(c) in ("Cs", "Co", "Cn"):
            continue
        table.setdefault(unicodedata.name(c, "CONTROL").split(" ")[0].split("-")[0], []).append(c)
    return table


PIECES = [" ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "\u00a0", "\u3000", "\u200b", "\u200d", "\ufeff", "\u2028", "\v\f", "\x85", "\u1680", "\u180e",
          "'s", "'S", "'ll", "'LL", "'re", "'Ve", "’s", "'", "''", "'ſ", "don't", "0", "7", "42", "1234567", "٣٤", "½", "²", "Ⅻ", "①", "a", "B", "abc",
          "ABC", "aBcD", "HelloWorld", "é", "e\u0301", "\u0301", "A\u030a", "Å", "Å", "각", "각", "ﬁ", "ǆ", "ǅ", "İ", "ı", "ß", "ẞ", "Σ", "ς", "ﷺ", "K", "Ω",
          "中", "文字", "かな", "カナ", "ｶﾅ", "한글", "ไทย", "हिन्दी", "ক্ষ", "עִבְרִית", "العربية", "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "☺️", "!", "?!", "...", "…", "--", "->", "=>", "//",
          "/*", "*/", "#", "##", "{", "}", "()", "[]", "<", ">", "</", "<|", "|>", "\\", "\\n", "$", "€", "+", "=", "^", "`", "```", "~", "|", "_", "__", "@", "%", "&", "*",
          "；", "。", "，", "！", "「", "」", "▁", "▁▁", "Ġ", "Ċ", "Ã", "<0x0A>", "##ing", "\0", "\x01", "\x7f", "\ufffd", "\u0600", "\u00ad", "http://x.y/z?a=b&c=d", "x@y.org"]


def generated(draw, count, table):
    names = sorted(table)
    out = []
    for number in range(count):
        name = names[number % len(names)]
        words = []
        for _ in range(draw.randrange(1, 9)):
            pool = table[name] if draw.random() < 0.8 else table[draw.choice(names)]
            words.append("".join(draw.choice(pool) for _ in range(draw.choice((1, 2, 3, 5, 8)))))
        out.append(draw.choice((" ", " ", "", "\n", ", ")).join(words))
    return out


def torture(draw, count, added):
    """`added`: texts of added tokens of the tokenizer; also cut short."""
    out = []
    for _ in range(count):
        text = []
        for _ in range(draw.randrange(1, 16)):
            kind = draw.random()
            if added and kind < 0.1:
                token = draw.choice(added)
                text.append(token if draw.random() < 0.7 else token[:draw.randrange(len(token) + 1)])
            elif kind < 0.2:
                text.append(draw.choice(PIECES) * draw.randrange(1, 40))
            else:
                text.append(draw.choice(PIECES))
        out.append("".join(text))
    return out


class Corpus:
    """The part that is the same for every tokenizer is made once."""

    def __init__(self, seed, count):
        self.seed, self.torture = seed, count // 5
        draw = random.Random(seed)
        repository = files(ROOT, "*.cc", "*.h", "*.py", "*.md", "*.mjs", "*.txt", "*.jinja", "*.cmake")
        python = files("/usr/lib/python3", "*.py") + files(f"/usr/lib/python3.{sys.version_info.minor}", "*.py")
        prose = files("/usr/share/common-licenses", "*") + files("/usr/share/perl", "*.pod") + files(ROOT / "docs", "*.md")
        self.common = lines_of(repository, draw, count // 5) + lines_of(python, draw, count // 5) + lines_of(prose, draw, count // 10)
        self.common += generated(draw, count - self.torture - len(self.common), scripts())

    def lines(self, added, unicode_8=False):
        """All lines for a tokenizer with these added tokens; `unicode_8`: without characters of AFTER_UNICODE_8."""
        lines = self.common + torture(random.Random(self.seed + 1), self.torture, added)
        if unicode_8:
            ranges = [part.split("-") for part in AFTER_UNICODE_8.split()]
            newer = {chr(code) for part in ranges for code in range(int(part[0], 16), int(part[-1], 16) + 1)}
            lines = [line for line in lines if newer.isdisjoint(line)]
        return lines
