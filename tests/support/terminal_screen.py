"""What a terminal shows after the bytes that a program sent: enough of ECMA-48 for the line editor's tests."""
import re
import unicodedata

SEQUENCE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|\x1b.|\x1b$")


def width(character):
    if unicodedata.combining(character) or character in "\u200d\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


class Screen:
    """Rows of cells that wrap at the last column and scroll without end. `unknown`: sequences that it does not know."""

    def __init__(self, columns, rows):
        self.columns, self.height = columns, rows
        self.rows, self.row, self.column, self.pending = [[]], 0, 0, False
        self.unknown, self.bracketed_paste, self.held = [], False, ""

    def text(self):
        return "\n".join("".join(cell for cell in row).rstrip() for row in self.rows)

    def line(self):
        """The row of the cursor."""
        return "".join(self.rows[self.row]).rstrip()

    def feed(self, text):
        text, self.held = self.held + text, ""
        at = 0
        while at < len(text):
            character = text[at]
            if character == "\x1b":
                match = re.compile(r"\x1b\[[?0-9;]*$|\x1b$").match(text, at)
                if match:
                    self.held = text[at:]
                    return
                match = SEQUENCE.match(text, at)
                self.control(match)
                at = match.end()
                continue
            at += 1
            if character == "\r":
                self.column, self.pending = 0, False
            elif character == "\n":
                self.pending = False
                self.down()
            elif character == "\t":
                self.column = min(self.columns - 1, (self.column // 8 + 1) * 8)
            elif character == "\x07":
                self.unknown.append("BEL")
            elif ord(character) < 32 or 0x7f <= ord(character) < 0xa0:
                self.unknown.append(repr(character))
            else:
                self.put(character)

    def down(self):
        self.row += 1
        while len(self.rows) <= self.row:
            self.rows.append([])

    def put(self, character):
        cells = width(character)
        row = self.rows[self.row]
        if cells == 0:
            if self.column > 0 and len(row) >= self.column:
                row[self.column - 1] += character
            return
        if self.pending or self.column + cells > self.columns:
            self.column, self.pending = 0, False
            self.down()
            row = self.rows[self.row]
        row.extend(" " * (self.column + cells - len(row)))
        row[self.column] = character
        if cells == 2:
            row[self.column + 1] = ""
        self.column += cells
        if self.column >= self.columns:
            self.column, self.pending = self.columns - 1, True

    def control(self, match):
        parameters, final = match.group(1), match.group(2)
        number = int(parameters) if parameters and parameters.isdigit() else 1
        self.pending = self.pending and final in ("m", "h", "l", "J")
        if final == "A":
            self.row = max(0, self.row - number)
        elif final == "C":
            self.column = min(self.columns - 1, self.column + number)
        elif final == "J" and parameters in ("", "0"):
            del self.rows[self.row + 1:]
            del self.rows[self.row][self.column:]
        elif final == "J" and parameters == "2":
            self.rows, self.row, self.column = [[]], 0, 0
        elif final == "H" and not parameters:
            self.row, self.column = 0, 0
        elif final in ("h", "l") and parameters in ("?2004", "?25"):
            if parameters == "?2004":
                self.bracketed_paste = final == "h"
        elif final != "m":
            self.unknown.append(repr(match.group(0)))
