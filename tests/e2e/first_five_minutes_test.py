#!/usr/bin/env python3
"""What users of other programs type first: each line of first_five_minutes.tsv works, or its answer names what works.

  first_five_minutes_test.py CHIMERE MODEL [unittest arguments]
"""
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from limits import HANG  # noqa: E402

CHIMERE, MODEL = (pathlib.Path(arg).absolute() for arg in sys.argv[1:3])
ROWS = pathlib.Path(__file__).with_name("first_five_minutes.tsv")
FOLDER = tempfile.TemporaryDirectory()
HOME = pathlib.Path(FOLDER.name)


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("CHIMERE_", "XDG_", "HF_"))}
    return {**kept, "HOME": str(HOME), "PATH": f"{HOME / 'bin'}:{kept['PATH']}", **more}


def rows():
    for line in ROWS.read_text().splitlines():
        if not line.startswith("#"):
            status, typed, texts = line.split("\t")
            yield int(status), typed, texts.split(";;")


def run(typed, **more):
    words, stdin = typed, ""
    if typed.startswith("> "):
        words, stdin = "chimere chat -m model.gguf", typed[2:].replace("\\n", "\n") + "\n"
    return subprocess.run(words, shell=True, input=stdin, capture_output=True, text=True, check=False, cwd=HOME, timeout=HANG,
                          env=environment(**more))


class FirstFiveMinutes(unittest.TestCase):
    def test_each_line_works_or_is_answered(self):
        table = list(rows())
        self.assertGreaterEqual(len(table), 50)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            answers = pool.map(lambda row: run(row[1], CHIMERE_MAX_TOKENS="4", CHIMERE_THREADS="1", CHIMERE_VERBOSE="1"), table)
            for (status, typed, texts), done in zip(table, answers):
                shown = done.stdout + done.stderr
                with self.subTest(typed):
                    self.assertEqual(done.returncode, status, shown)
                    for text in texts:
                        if text.startswith("!"):
                            self.assertNotIn(text[1:], shown)
                        else:
                            self.assertIn(text, shown)
                    if status != 0:
                        complaints = [line for line in done.stderr.splitlines() if line.startswith("chimere: ")]
                        self.assertEqual(len(complaints), 1, shown)

    def test_statistics_follow_answers_if_they_are_asked_for(self):
        for typed, count in (('chimere run "What does ls do?"', 0), ('chimere run -v "What does ls do?"', 1),
                             ('chimere chimere-mini --verbose "What does ls do?"', 1), ('chimere run -v -q "What does ls do?"', 0),
                             ("> ls?\\n/set verbose\\nls?\\n/set quiet\\nls?", 1), ("> ls?\\n/stats on\\nls?\\nls?\\n/stats off\\nls?", 2)):
            with self.subTest(typed):
                done = run(typed, CHIMERE_MAX_TOKENS="4")
                self.assertEqual((done.returncode, done.stderr.count("; seed ")), (0, count), done.stderr)

    def test_standard_input_follows_the_prompt(self):
        # A text of n tokens in a pipe makes the prompt at least n / 2 tokens longer.
        def tokens(typed):
            done = run(typed, CHIMERE_MAX_TOKENS="1")
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout)["prompt_tokens"]

        alone = tokens('chimere run --json "Summarise this:"')
        self.assertEqual(tokens('chimere run --json "Summarise this:" < /dev/null'), alone)
        self.assertGreater(tokens('chimere run --json "Summarise this:" < notes.txt'), alone + 20)
        self.assertGreater(tokens('chimere run --json --system "Be brief, please." "Summarise this:"'), alone)

    def test_an_answer_that_repeats_itself_is_ended(self):
        done = run("chimere run -m model.gguf x --temp 0 --json --regex '(ab ){1000}'")
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = json.loads(done.stdout)
        self.assertEqual(answer["finish"], "repetition")
        self.assertLess(answer["tokens"], 900)
        self.assertIn("The answer repeated itself and was ended", done.stderr)
        whole = json.loads(run("chimere run -m model.gguf x --temp 0 --json --regex '(ab ){1000}' -n 1100").stdout)
        self.assertGreater(whole["tokens"], answer["tokens"])


if __name__ == "__main__":
    (HOME / "bin").mkdir()
    (HOME / "bin" / "chimere").symlink_to(CHIMERE)
    (HOME / "model.gguf").symlink_to(MODEL)
    (HOME / "question.txt").write_text("What does ls do?\n")
    (HOME / "notes.txt").write_text("The command ls lists files. The command cp copies them.\n" * 4)
    (HOME / "schema.json").write_text('{"type": "boolean"}\n')
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
