"""The program on a pseudo-terminal, for tests. They set Session.program and Session.home."""
import codecs
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
import unittest

from limits import HANG
from terminal_screen import Screen

VOCABULARY = 300
# No control token, and more context than a test waits for: 14,000 tokens a second fill the model's own 4,096 before Ctrl-C.
ENDLESS = ("--ctx", 120000, "--rope-scaling", "linear",
           "--logit-bias", ",".join(f"{token}-inf" for token in range(VOCABULARY - 8, VOCABULARY)))


def environment(**extra):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("CHIMERE_", "XDG_")) and k not in ("NO_COLOR", "EDITOR", "VISUAL")}
    return {**kept, "HOME": str(Session.home), "TERM": "xterm-256color", **extra}


class Session:
    """The program on a terminal of its own. Class attributes: the program, its home folder."""
    program, home = None, None

    def __init__(self, *args, columns=80, rows=24, **extra):
        self.master, slave = pty.openpty()
        self.screen, self.output, self.closed = Screen(columns, rows), "", False
        self.resize(columns, rows)
        self.original = termios.tcgetattr(slave)
        # Else Ctrl-C discards the output that this test has not read yet.
        self.original[3] |= termios.NOFLSH
        termios.tcsetattr(slave, termios.TCSANOW, self.original)
        self.process = subprocess.Popen([self.program, *map(str, args)], stdin=slave, stdout=slave, stderr=slave, env=environment(**extra),
                                        cwd=self.home, start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.slave, self.decoder = slave, codecs.getincrementaldecoder("utf-8")("replace")

    def resize(self, columns, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.columns, self.screen.height = columns, rows

    def read(self, seconds=0.02):
        """Takes what the program has written."""
        while select.select([self.master], [], [], seconds)[0]:
            try:
                data = os.read(self.master, 1 << 16)
            except OSError:
                return
            text = self.decoder.decode(data)
            self.output += text
            self.screen.feed(text)
            seconds = 0

    def send(self, text):
        data = text.encode()
        while data:
            _, writable, _ = select.select([], [self.master], [], 0.02)
            if writable:
                data = data[os.write(self.master, data[:2048]):]
            self.read(0)

    def wait(self, condition, what):
        end = time.monotonic() + HANG
        while True:
            self.read()
            value = condition(self.screen)
            if value:
                return value
            if self.process.poll() is not None or time.monotonic() > end:
                self.read()
                if condition(self.screen):
                    return True
                raise AssertionError(f"no {what} (exit status {self.process.poll()}):\n{self.screen.text()[-3000:]}")

    def shows(self, text):
        self.wait(lambda screen: text in screen.text(), repr(text))

    def line(self, text):
        """Waits for the cursor's row to be this."""
        self.wait(lambda screen: screen.line() == text, f"row {text!r}")

    def prompt(self):
        self.wait(lambda screen: screen.line() == ">" and screen.bracketed_paste, "prompt")

    def ask(self, text, answer):
        self.send(text + "\r")
        self.shows(answer)
        self.prompt()

    def end(self):
        """The exit status; the terminal is as it was."""
        end = time.monotonic() + HANG
        while self.process.poll() is None:
            self.read()
            assert time.monotonic() < end, "the program does not end"
        self.read()
        return self.process.returncode

    def restored(self):
        return termios.tcgetattr(self.slave)[:4] == self.original[:4] and not self.screen.bracketed_paste

    def close(self):
        if self.closed:
            return
        self.closed = True
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


class Case(unittest.TestCase):
    """Tests of the chat with the model `tiny.gguf` in the home folder."""

    def open(self, *args, command="chat", verbose=True, **extra):
        session = Session(command, "-m", Session.home / "tiny.gguf", "-n", 8, "--seed", 3, *(["--verbose"] if verbose else []), *args, **extra)
        self.addCleanup(session.close)
        return session

    def chat(self, *args, **extra):
        session = self.open(*args, **extra)
        session.prompt()
        return session

    def leaves(self, session, status=0):
        self.assertEqual(session.end(), status, session.screen.text()[-2000:])
        self.assertTrue(session.restored())
        self.assertEqual(session.screen.unknown, [])
