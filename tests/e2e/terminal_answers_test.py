#!/usr/bin/env python3
"""The chat on a pseudo-terminal: statistics, reasoning, constraints, models that are downloaded.

  terminal_answers_test.py CHIMERE WRITE_TINY_MODEL REASONER [unittest arguments]
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from hub_server import Hub

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from terminal_session import ENDLESS, VOCABULARY, Case, Session  # noqa: E402

CHIMERE, WRITER, REASONER = (pathlib.Path(arg).absolute() for arg in sys.argv[1:4])
FOLDER = tempfile.TemporaryDirectory()
HOME = pathlib.Path(FOLDER.name)
MODEL = HOME / "tiny.gguf"
Session.program, Session.home = CHIMERE, HOME


class Answers(Case):
    def test_statistics_are_shown_if_they_are_asked_for(self):
        chat = self.chat(*ENDLESS, verbose=False)
        chat.ask("moth", "cut off after 8 tokens, as --max-tokens says")
        self.assertNotIn("tok/s", chat.screen.text())
        chat.ask("/set verbose", "Statistics follow each answer")
        chat.ask("moth", "; seed 3")


    def test_a_question_that_does_not_fit_says_what_helps(self):
        chat = self.chat("-c", 64)
        chat.send("moth " * 60 + "\r")
        chat.shows("/undo")
        chat.prompt()
        chat.ask("moth", "; seed 3")
        chat.send("\x04")
        self.leaves(chat)

    def test_reasoning_is_folded_and_faint(self):
        session = Session("chat", "-m", REASONER, "--temp", 0, "--reasoning", "low")
        self.addCleanup(session.close)
        session.prompt()
        session.send("What does the command ls do?\r")
        session.shows("/show reasoning shows it.")
        session.prompt()
        self.assertRegex(session.screen.text(), r"do\?\nThought for \d+ s; /show reasoning shows it\.\n\nls ")
        self.assertIn("\x1b[2m\r\x1b[JThinking: ", session.output)
        session.send("/show reasoning\r")
        session.wait(lambda screen: screen.line() == ">" and "/show reasoning\n" in screen.text(), "reasoning")
        session.prompt()
        reasoning = session.screen.text().partition("> /show reasoning\n")[2].removesuffix("\n>")
        self.assertGreater(len(reasoning), 10)
        session.ask("/set verbose", "reasoning is shown whole")
        session.send("/retry\r")
        session.shows("/retry\n" + reasoning + "\n\nls ")
        session.shows("tok/s")
        session.prompt()
        session.send("\x04")
        self.leaves(session)

    def test_answers_follow_constraints(self):
        grammar = 'root ::= "yes" | "no"'
        schema = '{"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": false}'
        (HOME / "answer.gbnf").write_text(grammar)
        (HOME / "answer.json").write_text(schema)
        for flag, value, answer in (("--regex", "[0-9]{3}", r"\d{3}"), ("--choice", "red,green", "red|green"), ("--grammar", grammar, "yes|no"),
                                    ("--grammar", "answer.gbnf", "yes|no"), ("--json-schema", schema, r'\{\s*"a"\s*:\s*(?:true|false)\s*\}'),
                                    ("--json-schema", "answer.json", r'\{\s*"a"\s*:\s*(?:true|false)\s*\}')):
            with self.subTest(f"{flag} {value}"):
                chat = self.chat("-n", 40, flag, value)
                for _ in range(2):
                    chat.send("moth\r")
                    chat.wait(lambda screen: re.search(rf"> moth\n(?:{answer})\n[^>]*; seed 3\n>$", screen.text()), f"answer like {answer}")
                    chat.ask("/clear", "Started over")
                    chat.send("\x0c")
                    chat.line(">")
                chat.ask("/json off", "Answers are text again")
                chat.send("\x04")
                self.leaves(chat)
        for flag, value in (("--regex", "("), ("--grammar", "root ::= (")):
            chat = self.open(flag, value)
            self.assertEqual(chat.end(), 1)
            self.assertIn("chimere: ", chat.screen.text())


class Pulls(Case):
    """Models that are not here yet."""

    def setUp(self):
        self.hub = Hub()
        self.hub.files["own/Tiny", "Tiny-F32.gguf"] = MODEL.read_bytes()
        self.where = self.hub.endpoint.partition("://")[2]
        shutil.rmtree(HOME / ".local" / "share" / "chimere" / "models" / "own", ignore_errors=True)

    def run_pulling(self, *args):
        session = Session(*args, HF_ENDPOINT=self.hub.endpoint)
        self.addCleanup(session.close)
        return session

    def test_a_download_is_offered_and_the_command_continues(self):
        for words in (("run", "own/Tiny:F32", "the moth"), ("run", "-m", "own/Tiny", "-p", "the moth"), ("own/Tiny:F32", "the moth")):
            shutil.rmtree(HOME / ".local" / "share" / "chimere" / "models" / "own", ignore_errors=True)
            session = self.run_pulling(*words, "-n", 8, "--seed", 3, "-v")
            session.shows(f"{words[words.index('-m') + 1] if '-m' in words else words[-2]} is not here yet. Download ")
            session.shows(f"from {self.where}? [Y/n]")
            self.assertEqual(self.hub.count("store"), 0)
            session.send("\r")
            self.leaves(session)
            self.assertIn("[Y/n] yes\nPulling", session.screen.text())
            self.assertIn("; seed ", session.screen.text())
            self.assertEqual(self.hub.count("store"), 1)
            self.hub.requests.clear()

    def test_a_download_is_declined(self):
        for key in "n\x03\x04":
            session = self.run_pulling("run", "own/Tiny:F32", "the moth")
            session.shows("[Y/n]")
            session.send(key)
            self.leaves(session, 1)
            self.assertIn("Nothing was downloaded; `chimere pull own/Tiny:F32` does it later.", session.screen.text())
        self.assertEqual(self.hub.count("store"), 0)

    def test_the_chat_changes_to_a_model_of_the_hub(self):
        chat = self.chat(HF_ENDPOINT=self.hub.endpoint)
        chat.send("/model own/Tiny\r")
        chat.shows("[Y/n]")
        chat.send("n")
        chat.shows("Nothing was downloaded; `chimere pull own/Tiny` does it later.")
        chat.prompt()
        chat.send("/model own/Absent\r")
        chat.shows("own/Absent")
        chat.prompt()
        chat.send("/model own/Tiny\r")
        chat.wait(lambda screen: screen.text().count("[Y/n]") == 2, "a second question")
        chat.send("y")
        chat.shows("Tiny-F32 (")
        chat.prompt()
        chat.ask("moth", "; seed ")
        chat.send("\x04")
        self.leaves(chat)


if __name__ == "__main__":
    subprocess.run([WRITER, MODEL, str(VOCABULARY)], check=True)
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
