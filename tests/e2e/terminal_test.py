#!/usr/bin/env python3
"""The chat on a pseudo-terminal: editing, history, pastes, Ctrl-C, colours, hostile answers.

  terminal_test.py CHIMERE WRITE_TINY_MODEL DOCS [unittest arguments]
"""
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from limits import HANG  # noqa: E402
from terminal_session import ENDLESS, VOCABULARY, Case, Session, environment  # noqa: E402

CHIMERE, WRITER, DOCS = (pathlib.Path(arg).absolute() for arg in sys.argv[1:4])
SEED = int(os.environ.get("TEST_SEED", random.randrange(1 << 32)))
FOLDER = tempfile.TemporaryDirectory()
HOME = pathlib.Path(FOLDER.name)
MODEL = HOME / "tiny.gguf"
Session.program, Session.home = CHIMERE, HOME
HISTORY = HOME / ".local" / "state" / "chimere" / "chat_history"
UP, DOWN, RIGHT, LEFT = "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D"


class Editing(Case):
    def test_arrows_move_and_the_line_is_edited(self):
        chat = self.chat()
        chat.send("/nonsnse" + LEFT * 3 + "e")
        chat.line("> /nonsense")
        self.assertEqual(chat.screen.column, len("> /nonse"))
        chat.send("\x1b[H" + "\x1b[3~")  # home, delete
        chat.line("> nonsense")
        chat.send("/\x05\x17")  # end, kill the word
        chat.line(">")
        chat.send("\x19\r")  # yank
        chat.shows("There is no command /nonsense")
        self.assertNotIn("^[[", chat.screen.text())
        chat.prompt()
        chat.send("\x04")
        self.leaves(chat)

    def test_history_survives_and_is_private(self):
        HISTORY.unlink(missing_ok=True)
        chat = self.chat()
        for text in ("/first", "/second\\\rline", "/third"):
            chat.ask(text, "There is no command " + text.partition("\\")[0])
        chat.send("\x04")
        self.leaves(chat)
        self.assertEqual(HISTORY.stat().st_mode & 0o777, 0o600)
        chat = self.chat()
        chat.send("draft" + UP)
        chat.line("> /third")
        chat.send(UP)
        chat.line("  line")
        self.assertIn("> /second", chat.screen.text().splitlines()[-2])
        chat.send(UP + UP)
        chat.line("> /first")
        chat.send(DOWN * 9)
        chat.line("> draft")
        # Reverse search.
        chat.send("\x12ir")
        chat.line("(search: ir) /third")
        chat.send("\x12")
        chat.line("(search: ir) /first")
        chat.send("\x12")
        chat.line("(no match: ir) /first")
        chat.send("\x07")
        chat.line("> draft")
        chat.send("\x12sec\r")
        chat.shows("There is no command /second")

    def test_wide_characters(self):
        chat = self.chat(columns=20)
        chat.send("/日本語x" + LEFT + LEFT)
        chat.line("> /日本語x")
        chat.wait(lambda screen: screen.column == 7, "column 7")
        chat.send("\x7f")
        chat.line("> /日語x")
        chat.send("\x05🙂👩‍👩‍👧e\u0301")
        chat.wait(lambda screen: screen.line().startswith("> /日語x🙂👩"), "emoji")
        chat.send("\x7f" * 3)
        chat.line("> /日語x")
        # A wide character does not straddle the margin: 18 columns are left of the prompt.
        chat.send("\x15" + "日" * 9 + "本")
        chat.line("本")
        self.assertEqual(chat.screen.text().splitlines()[-2], "> " + "日" * 9)
        chat.send("\x15/" + "日" * 9)
        chat.line("日")
        self.assertEqual(chat.screen.text().splitlines()[-2], "> /" + "日" * 8)

    def test_resize(self):
        chat = self.chat()
        text = "".join(chr(97 + i % 26) for i in range(100))
        chat.send(text)
        chat.line(text[78:])
        chat.resize(40, 24)
        chat.line(text[78:])  # 38 + 40 + 22
        chat.resize(120, 24)
        chat.line("> " + text)
        chat.resize(10, 5)
        chat.wait(lambda screen: screen.line() == text[98:], "the last row")
        chat.send("\x03\x04")
        self.leaves(chat)

    def test_a_paste_of_any_size(self):
        draw = random.Random(SEED)
        lines = ["".join(draw.choice("abc é日🙂\t\\\x03\x04") for _ in range(60)).strip() + "." for _ in range(13000)]
        text = "\n".join([*lines, "END OF IT"])
        self.assertGreater(len(text.encode()), 1 << 20)
        chat = self.chat()
        started = time.monotonic()
        chat.send("/system \x1b[200~x" + text.replace("\n", "\r") + "\x1b[201~")
        chat.line("> /system [pasted 13001 lines]")
        chat.send("\r")
        chat.shows("The system message is set")
        chat.prompt()
        chat.send("/save pasted.json\r")
        chat.shows("Saved in pasted.json")
        print(f"1 MB pasted in {time.monotonic() - started:.1f} s")
        saved = json.loads((HOME / "pasted.json").read_text())
        self.assertEqual(saved["messages"][0]["content"], "x" + text)
        chat.prompt()
        chat.send("\x04")
        self.leaves(chat)

    def test_five_pasted_lines_are_one_message(self):
        chat = self.chat()
        text = "one\ntwo\n\n/exit\nfive"
        chat.send("\x1b[200~" + text.replace("\n", "\r") + "\x1b[201~")
        chat.line("  five")
        self.assertEqual(chat.screen.text().splitlines()[-5:], ["> one", "  two", "", "  /exit", "  five"])
        chat.send("\r")
        chat.shows("; seed ")
        chat.prompt()
        chat.ask("/save five.json", "Saved in five.json")
        questions = [m["content"] for m in json.loads((HOME / "five.json").read_text())["messages"] if m["role"] == "user"]
        self.assertEqual(questions, [text])

    def test_lines(self):
        chat = self.chat()
        chat.send("/system one\x1b\rtwo\\\rthree\r")
        chat.shows("The system message is set")
        chat.prompt()
        chat.send("/system\r")
        chat.shows("one\ntwo\nthree\n")

    def test_words_of_other_programs(self):
        chat = self.chat()
        chat.ask("/set parameter temperature 0", "temp is 0 from now on")
        chat.ask('/set system "Be brief."', "The system message is set")
        chat.send('"""\r')
        chat.line("...")
        chat.send("one\r")
        chat.wait(lambda screen: screen.line() == "..." and "... one" in screen.text(), "a second line")
        chat.send('two"""\r')
        chat.shows("tok/s")
        chat.prompt()
        chat.ask("/save block.json", "Saved in block.json")
        chat.ask("/hlep", "did you mean /help?")
        self.assertEqual([m["content"] for m in json.loads((HOME / "block.json").read_text())["messages"][:2]], ["Be brief.", "one\ntwo"])
        chat.send("quit\r")
        self.leaves(chat)

    def test_completion(self):
        (HOME / "notes.txt").write_text("the moth\n")
        (HOME / "folder").mkdir(exist_ok=True)
        models = HOME / ".local" / "share" / "chimere" / "models"
        models.mkdir(parents=True, exist_ok=True)
        if not (models / "mothlike.gguf").exists():
            (models / "mothlike.gguf").symlink_to(MODEL)
        chat = self.chat()
        for typed, line in (("/sa\t", "> /save"), ("no\t", "> /save notes.txt"), ("\x15/file fol\t", "> /file folder/"),
                            ("\x15/model moth\t", "> /model mothlike"), ("\x15/set min\t", "> /set min-p"),
                            ("\x15/set mirostat 2\t", "> /set mirostat 2"), ("\x15a question\t", "> a question")):
            chat.send(typed)
            chat.line(line)
        chat.send("\x15/s\t")
        chat.shows("/stats   Show the length and speed")
        chat.send("a")
        chat.wait(lambda screen: "/stats   Show" not in screen.text(), "an end of the list")
        chat.line("> /sa")

    def test_an_editor_of_the_users(self):
        script = HOME / "editor.sh"
        script.write_text('#!/bin/sh\nprintf "/from the editor: " | cat - "$1" > "$1.new" && mv "$1.new" "$1"\n')
        script.chmod(0o755)
        chat = self.chat(EDITOR=str(script))
        chat.send("abc\x18\x05")
        chat.line("> /from the editor: abc")
        chat.send("\r")
        chat.shows("There is no command /from")
        chat.prompt()
        chat.send("moth\r")
        chat.shows("tok/s")
        chat.prompt()
        chat.send("/edit\r")
        chat.shows("> /from the editor: moth")
        chat.prompt()
        self.assertFalse((HOME / ".local" / "state" / "chimere" / "question.md").exists())


class Interrupts(Case):
    def test_at_the_prompt(self):
        chat = self.chat()
        chat.send("text\x03")
        chat.line(">")
        chat.send("\x03")
        chat.shows("Ctrl-C again, or Ctrl-D, leaves")
        chat.send("x\x7f\x03")
        chat.shows("Ctrl-C again, or Ctrl-D, leaves")
        self.assertIsNone(chat.process.poll())
        chat.send("\x03")
        self.leaves(chat)

    def test_it_stops_the_answer_and_the_chat_continues(self):
        chat = self.chat("-n", -1, *ENDLESS)
        chat.send("moth\r")
        chat.wait(lambda screen: not screen.bracketed_paste and len(chat.output.split("moth\r\n")[-1]) > 20, "answer")
        chat.send("\x03")
        chat.shows("stopped by Ctrl-C")
        chat.prompt()
        chat.ask("/stats", "cancelled")
        chat.send("\x04")
        self.leaves(chat)

    def test_it_stops_the_answer_that_has_not_begun(self):
        # Ctrl-C is read with the question, or waits in the terminal while it is still a key.
        chat = self.chat("-n", -1, *ENDLESS)
        chat.send("moth\r\x03")
        chat.shows("stopped by Ctrl-C")
        chat.prompt()
        chat.send("\x04")
        self.leaves(chat)

    def test_twice_during_the_answer_leaves(self):
        chat = self.chat("-n", -1, *ENDLESS)
        chat.send("moth\r")
        chat.wait(lambda screen: not screen.bracketed_paste, "answer")
        while chat.process.poll() is None:
            os.killpg(chat.process.pid, signal.SIGINT)
            os.killpg(chat.process.pid, signal.SIGINT)
            chat.read()
            if chat.screen.bracketed_paste:  # both came before the answer
                chat.send("\x15moth\r")
        self.assertEqual(chat.end(), 130)
        self.assertTrue(chat.restored())

    def test_at_any_moment(self):
        draw = random.Random(SEED)
        print(f"TEST_SEED={SEED}")
        for _ in range(12):
            chat = self.open("-n", 40)
            if draw.random() < 0.7:
                chat.prompt()
                chat.send("moth\r")
            time.sleep(draw.random() * 0.3)
            while chat.process.poll() is None:
                try:
                    chat.send("\x03")
                except OSError:
                    break
                chat.read(draw.random() * 0.1)
            self.assertIn(chat.end(), (0, 130, -signal.SIGINT))
            # A signal during loading ends the process in the terminal's own mode.
            self.assertTrue(chat.restored())
            chat.close()

    def test_sigterm_restores_the_terminal(self):
        chat = self.chat()
        self.assertFalse(chat.restored())
        chat.process.send_signal(signal.SIGTERM)
        self.assertEqual(chat.end(), -signal.SIGTERM)
        self.assertTrue(chat.restored())

    def test_the_end_of_the_terminal_ends_the_chat(self):
        session = Session("chat", "-m", MODEL)
        session.prompt()
        os.close(session.slave)
        os.close(session.master)
        session.closed = True
        session.process.wait(HANG)


class Colours(Case):
    def test_colours_only_where_they_are_wanted(self):
        chat = self.chat()
        self.assertIn("\x1b[1;36m> ", chat.output)
        chat = self.chat(NO_COLOR="1")
        chat.send("moth\r")
        chat.shows("tok/s")
        self.assertNotRegex(chat.output, r"\x1b\[[0-9;]*m")
        dumb = self.open(TERM="dumb")
        dumb.line(">")
        dumb.send("/stats\n")
        dumb.shows("There is no answer yet.")
        dumb.send("moth\n")
        dumb.shows("seed 3")
        dumb.send("\x04")
        self.assertEqual(dumb.end(), 0)
        self.assertNotIn("\x1b", dumb.output)

    def test_a_constrained_text_is_no_markdown(self):
        session = Session("run", "-m", MODEL, "-p", "x", "--choice", "a **bold** x", "-q")
        self.addCleanup(session.close)
        self.assertEqual(session.end(), 0)
        self.assertIn("a **bold** x", session.output)

    def test_a_hostile_answer_is_shown_and_not_obeyed(self):
        for regex, shown in ((r"\x1b\]0;title\x07", "^[]0;title^G"), (r"\x1b\[2J\x1b\[\?1049h", "^[[2J^[[?1049h"),
                             (r"a\x08b\rc", "a^Hb^Mc")):
            session = Session("run", "-m", MODEL, "-p", "x", "--regex", regex)
            self.addCleanup(session.close)
            self.assertEqual(session.end(), 0)
            self.assertIn(shown, session.screen.text())
            self.assertEqual(session.screen.unknown, [])
        # Elsewhere the bytes are the model's.
        done = subprocess.run([CHIMERE, "run", "-m", MODEL, "-p", "x", "-q", "--regex", r"\x1b\[2J"], capture_output=True, check=True,
                              env=environment(), timeout=HANG)
        self.assertEqual(done.stdout, b"\x1b[2J\n")
        # A model that writes anything at all.
        chat = self.chat("-n", 400, "--temp", 2, *ENDLESS)
        chat.send("moth\r")
        chat.shows("400 tokens")
        chat.prompt()
        self.assertEqual(chat.screen.unknown, [])


class Words(unittest.TestCase):
    """chimere run MODEL "prompt"."""

    def run_words(self, *args, stdin=""):
        return subprocess.run([CHIMERE, "run", *map(str, args)], input=stdin.encode(), capture_output=True, check=False, env=environment(),
                              cwd=HOME, timeout=HANG)

    def test_model_and_prompt(self):
        flags = ("-n", 4, "--seed", 1, "-q")
        expected = self.run_words("-m", MODEL, "-p", "the moth", *flags).stdout
        self.assertGreater(len(expected), 0)
        for words in ((MODEL, "the moth"), (MODEL, "the", "moth"), ("-m", MODEL, "the moth"), ("tiny.gguf", "-p", "the moth")):
            done = self.run_words(*words, *flags)
            self.assertEqual((done.returncode, done.stdout), (0, expected), done.stderr)
        self.assertEqual(self.run_words(MODEL, *flags, stdin="the moth\n").stdout, expected)

    def test_a_missing_model_is_no_prompt(self):
        done = self.run_words("qwen-absent", "the moth flies")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"qwen-absent", done.stderr)
        self.assertIn(b"chimere pull", done.stderr)
        # No question where no answer can be typed.
        done = self.run_words("own/Absent:Q4_K_M", "the moth flies")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"`chimere pull own/Absent:Q4_K_M` downloads it", done.stderr)
        done = self.run_words("-m", MODEL, "-p", "x", "y")
        self.assertIn(b"given twice", done.stderr)


class Commands(unittest.TestCase):
    """Commands of the chat, from a pipe."""

    def chat(self, *lines, args=(), status=0):
        done = subprocess.run([CHIMERE, "chat", "-m", MODEL, "-n", "6", "--seed", "3", "--json", *map(str, args)],
                              input="".join(line + "\n" for line in lines).encode(), capture_output=True, check=False, env=environment(),
                              cwd=HOME, timeout=HANG)
        self.assertEqual(done.returncode, status, done.stderr)
        return json.loads(done.stdout)["turns"], done.stderr.decode()

    def test_retry_and_undo(self):
        turns, _ = self.chat("the moth", "/retry", "/undo", "the moth")
        self.assertEqual(len(turns), 3)
        self.assertEqual({turn["text"] for turn in turns}, {turns[0]["text"]})
        _, err = self.chat("/retry", "/undo", "/edit")
        self.assertIn("no question to retry", err)
        self.assertIn("nothing to undo", err)
        self.assertIn("needs a terminal", err)

    def test_system_set_and_clear(self):
        turns, err = self.chat("the moth", "/clear", "/system Be brief.", "the moth", "/set temp 0", "/set top-q 3", "/set temp warm", "/set temp")
        self.assertGreater(turns[1]["prompt_tokens"], turns[0]["prompt_tokens"])
        self.assertIn("There is no option 'top-q'", err)
        self.assertIn("/set temp", err)
        self.assertIn("Temperature: higher ones", err)

    def test_save_and_load(self):
        self.chat("/system Be brief.", "the moth", "/save talk.json", "/save talk.md", "/save talk.state")
        kept = json.loads((HOME / "talk.json").read_text())["messages"]
        self.assertEqual([m["role"] for m in kept], ["system", "user", "assistant"])
        self.assertIn("## user\n\nthe moth\n", (HOME / "talk.md").read_text())
        for name in ("talk.json", "talk.state"):
            turns, err = self.chat(f"/load {name}", "and then?")
            self.assertIn(f"Resumed {name}: 1 question, a system message", err)
            self.assertGreater(turns[0]["prompt_tokens"], 30)
        _, err = self.chat(args=("--state", HOME / "talk.state"))
        self.assertRegex(err, r"Resumed .*talk.state: 1 question, a system message, the model has read \d+ tokens of it already:\n> the moth\n  \S")
        (HOME / "bad.json").write_text('{"messages": [{"role": "tool", "content": 1}]}')
        _, err = self.chat("/load bad.json", "/load absent.state")
        self.assertIn("bad.json is no conversation", err)
        self.assertIn("There is no file absent.state", err)

    def test_files_and_json(self):
        (HOME / "notes.txt").write_text("the moth\n" * 5)
        (HOME / "binary.bin").write_bytes(b"\x00\xff")
        (HOME / "schema.json").write_text('{"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": false}')
        turns, err = self.chat("hi", "/clear", "/file notes.txt", "/file binary.bin", "hi", "/json schema.json", "hi", "/json off", "/json {", "/stats",
                               args=("-n", 40))
        self.assertGreater(turns[1]["prompt_tokens"], turns[0]["prompt_tokens"] + 10)
        self.assertIn("binary.bin is no text file", err)
        self.assertIn("a", json.loads(turns[2]["text"]))
        self.assertIn("tokens of the context", err)

    def test_models(self):
        other = HOME / "other.gguf"
        subprocess.run([WRITER, other, str(VOCABULARY), "36"], check=True)
        turns, err = self.chat("the moth", f"/model {other}", "the moth", "/model absent", "the moth", "/model")
        self.assertEqual(len(turns), 3)
        self.assertGreater(turns[1]["prompt_tokens"], turns[0]["prompt_tokens"])
        self.assertRegex(err, r"(?m)^chimere: .*absent.*\nThe conversation continues with other\.$")
        self.assertIn("This is other", err)

    def test_a_model_that_cannot_be_loaded_gives_the_old_one_back(self):
        # Valid to read, so that the old model is released first; a tensor that it needs has another name.
        whole = HOME / "whole.gguf"
        subprocess.run([WRITER, whole, str(VOCABULARY), "36"], check=True)
        content = whole.read_bytes()
        self.assertIn(b"output_norm.weight", content)
        broken = HOME / "broken.gguf"
        broken.write_bytes(content.replace(b"output_norm.weight", b"output_nerm.weight"))
        args = ("the moth", "the moth", "the moth")
        turns, err = self.chat(args[0], f"/model {broken}", *args[1:])
        # The error, and nothing that loading the old model again says.
        said = err.splitlines()
        refusal = next(i for i, line in enumerate(said) if "output_norm.weight" in line)
        self.assertEqual(said[refusal + 1], "The conversation continues with tiny.")
        self.assertNotIn("broken (", err)
        expected, _ = self.chat(*args)
        self.assertEqual([t["text"] for t in turns], [t["text"] for t in expected])
        # The conversation continued: it was read again from the start, once.
        self.assertGreater(turns[1]["prompt_tokens"], turns[0]["prompt_tokens"])

    def test_a_chat_that_has_no_model_left_ends(self):
        folder = HOME / "gone"
        folder.mkdir()
        model, broken = folder / "model.gguf", folder / "broken.gguf"
        subprocess.run([WRITER, model, str(VOCABULARY)], check=True)
        broken.write_bytes(model.read_bytes().replace(b"output_norm.weight", b"output_nerm.weight"))
        session = Session("chat", "-m", model, "-q")
        self.addCleanup(session.close)
        session.prompt()
        broken.replace(model)
        session.send(f"/model {model}\r")
        self.assertEqual(session.end(), 1)
        self.assertIn("output_norm.weight", session.screen.text())


class Documents(unittest.TestCase):
    def test_help_and_documents_have_the_same_commands(self):
        done = subprocess.run([CHIMERE, "chat", "-m", MODEL], input=b"/help\n", capture_output=True, check=True, env=environment(), timeout=HANG)
        rows = done.stderr.decode()
        self.assertLessEqual(max(map(len, rows.partition("/help ")[2].splitlines())), 80)
        listed = re.findall(r"^(/\w+(?: [A-Z|a-z]+(?: VALUE)?)?) {2,}(\S.*)$", re.sub(r"\n {8,}", " ", rows), re.M)
        self.assertGreater(len(listed), 10)
        page = (DOCS / "terminal.md").read_text()
        documented = re.findall(r"^\| `(/[^`]*)` \| (.*) \|$", page, re.M)
        self.assertEqual([(name, text) for name, text in listed], [(name.replace("\\|", "|"), text) for name, text in documented])

    def test_a_tiny_model_is_said_to_be_tiny(self):
        session = Session("chat", "-m", MODEL, columns=200)
        self.addCleanup(session.close)
        session.prompt()
        self.assertIn("This is a tiny model", session.screen.text())
        self.assertIn(f"  {CHIMERE} pull ", session.screen.text())
        page = (DOCS / "models.md").read_text()
        for name in re.findall(r"chimere pull (\S+)", session.screen.text()):
            self.assertIn(f"| `{name}` |", page)
        quiet = Session("chat", "-m", MODEL, "--quiet")
        self.addCleanup(quiet.close)
        quiet.prompt()
        self.assertEqual(quiet.screen.text().strip(), ">")


if __name__ == "__main__":
    subprocess.run([WRITER, MODEL, str(VOCABULARY)], check=True)
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
