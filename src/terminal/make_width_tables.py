#!/usr/bin/python3
"""Writes width_tables.h from this Python's unicodedata:  make_width_tables.py > width_tables.h"""
import sys
import textwrap
import unicodedata


def wide(code):
    # UAX #11: unassigned code points of the blocks of ideographs are wide. Python calls all unassigned ones F.
    reserved = 0x3400 <= code <= 0x4DBF or 0x4E00 <= code <= 0x9FFF or 0xF900 <= code <= 0xFAFF or 0x20000 <= code <= 0x3FFFD
    assigned = unicodedata.category(chr(code)) != "Cn"
    return reserved or (assigned and unicodedata.east_asian_width(chr(code)) in "WF")


def main():
    ranges = []
    for code in range(sys.maxunicode + 1):
        if not wide(code):
            continue
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    rows = " ".join(f"{{0x{a:X},\0{f'0x{b:X}'}}}," for a, b in ranges)
    body = textwrap.fill(rows, 99, break_long_words=False, break_on_hyphens=False).replace("\0", " ")
    print(f"""// Written by make_width_tables.py from Unicode {unicodedata.unidata_version}.
// clang-format off
#ifndef CHIMERE_TERMINAL_WIDTH_TABLES_H_
#define CHIMERE_TERMINAL_WIDTH_TABLES_H_

#include <array>
#include <cstdint>

namespace chimere::terminal {{

struct CodeRange {{
  uint32_t first;
  uint32_t last;
}};
/// Code points of two columns (UAX #11: W and F), in order.
inline constexpr std::array<CodeRange, {len(ranges)}> kWideRanges = {{{{
{body}}}}};

}}  // namespace chimere::terminal

#endif  // CHIMERE_TERMINAL_WIDTH_TABLES_H_""")


if __name__ == "__main__":
    main()
