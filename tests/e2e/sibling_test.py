#!/usr/bin/env python3
"""The small sibling of the shipped model gives the same answers with any drafts and threads.

  sibling_test.py CHIMERE SIBLING
"""
import json
import pathlib
import subprocess
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from limits import HANG  # noqa: E402

CHIMERE, SIBLING = sys.argv[1:3]
# Trained answers about well-known commands, and about an invented name.
ANSWERS = {"What does the command ls do?": "ls lists directory contents.",
           "What is grep for?": "grep prints lines that match patterns.",
           "What does mkdir do?": "mkdir creates a directory.",
           "What does frobnix do?": "I do not know frobnix. Check the spelling, or try: apropos frobnix"}


def generate(question, *flags):
    done = subprocess.run([CHIMERE, "run", "-m", SIBLING, "-p", question, "-n", "40", "--json", *flags], capture_output=True, check=True,
                          timeout=HANG)
    return json.loads(done.stdout)


class Sibling(unittest.TestCase):
    def test_greedy_answers(self):
        for question, answer in ANSWERS.items():
            self.assertEqual(generate(question, "--temp", "0")["text"].strip(), answer)

    def test_words_do_not_depend_on_drafts_and_threads(self):
        question = "Explain pipes of the shell, with an example."
        for sampling in (["--temp", "0"], ["--temp", "0.8", "--seed", "7"]):
            plain = generate(question, *sampling, "--speculate", "off", "--threads", "1")
            for flags in (["--speculate", "mtp"], ["--speculate", "ngram"], ["--speculate", "off", "--threads", "2"]):
                self.assertEqual(generate(question, *sampling, *flags)["text"], plain["text"], flags)

    def test_is_small(self):
        with open(SIBLING, "rb") as f:
            self.assertLessEqual(len(f.read()), 3_000_000)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
