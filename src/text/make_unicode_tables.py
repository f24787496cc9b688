#!/usr/bin/python3
"""Writes unicode_tables.cc from this Python's unicodedata:  make_unicode_tables.py > unicode_tables.cc"""
import sys
import textwrap
import unicodedata

CATEGORIES = ["Cn", "Cc", "Cf", "Cs", "Co", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf",
              "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp"]  # in the order of Category
HANGUL = range(0xAC00, 0xAC00 + 11172)  # decomposed by arithmetic


def runs(value):
    """(first code point, value) wherever the value changes."""
    out = []
    for code in range(sys.maxunicode + 1):
        v = value(chr(code))
        if not out or out[-1][1] != v:
            out.append((code, v))
    return out


def array(kind, name, rows):
    body = textwrap.fill(" ".join(row.replace(" ", "\0") + "," for row in rows), 99, break_long_words=False, break_on_hyphens=False)
    return f"const std::array<{kind}, {len(rows)}> {name} = {{{{\n{body}}}}};\n".replace("\0", " ")


def decompositions():
    for code in range(sys.maxunicode + 1):
        c = chr(code)
        parts = unicodedata.decomposition(c).split()
        if not parts or parts[0].startswith("<") or code in HANGUL:
            continue
        second = parts[1] if len(parts) == 2 else "0"
        composes = len(parts) == 2 and unicodedata.normalize("NFC", c) == c
        yield f"{{0x{code:X}, 0x{parts[0]}, 0x{second}, {str(composes).lower()}}}"


def cases():
    """Rows of kCases; mappings to several characters go to kLongCases."""
    rows, long_cases = [], []

    def number(c, mapped):
        if len(mapped) == 1:
            return f"0x{ord(mapped):X}"
        long_cases.append("{" + ", ".join(f"0x{ord(m):X}" for m in mapped) + "}")
        return f"kLongCase + {len(long_cases) - 1}"

    for code in range(sys.maxunicode + 1):
        c = chr(code)
        lower, upper, title = c.lower(), c.upper(), c.title()
        if lower != c or upper != c or title != c:
            rows.append(f"{{0x{code:X}, {number(c, lower)}, {number(c, upper)}, {number(c, title)}}}")
    return rows, long_cases


def main():
    rows, long_cases = cases()
    print(f"""// Written by make_unicode_tables.py from Unicode {unicodedata.unidata_version}.
// clang-format off
#include "text/unicode_tables.h"

namespace chimere::text {{
""")
    print(array("uint32_t", "kCategoryRuns", [f"0x{code << 8 | CATEGORIES.index(c):X}" for code, c in runs(unicodedata.category)]))
    print(array("uint32_t", "kCombiningRuns", [f"0x{code << 8 | c:X}" for code, c in runs(unicodedata.combining)]))
    print(array("Decomposition", "kDecompositions", list(decompositions())))
    print(array("CaseRow", "kCases", rows))
    print(array("LongCase", "kLongCases", long_cases))
    print("}  // namespace chimere::text")


if __name__ == "__main__":
    main()
