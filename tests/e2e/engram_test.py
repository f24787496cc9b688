#!/usr/bin/env python3
"""`chimere engram` and `--engram` as a user runs them.

  engram_test.py CHIMERE WRITE_TINY_MODEL [unittest arguments]
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from limits import HANG  # noqa: E402

CHIMERE, WRITER = (pathlib.Path(arg).absolute() for arg in sys.argv[1:3])
FOLDER = tempfile.TemporaryDirectory()
HOME = pathlib.Path(FOLDER.name)
MODEL = HOME / "tiny.gguf"
TEXT = "the quick brown fox jumps over the lazy dog; "


def run(*args):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("CHIMERE_")}
    return subprocess.run([CHIMERE, *map(str, args)], capture_output=True, check=False, text=True, timeout=HANG,
                          env={**kept, "HOME": str(HOME), "CHIMERE_MODEL": str(MODEL)}, stdin=subprocess.DEVNULL)


class Engram(unittest.TestCase):
    def answer(self, *args):
        done = run(*args, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def refused(self, code, says, *args):
        done = run(*args)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(says, done.stderr)
        self.assertEqual(done.stdout, "")

    def build(self, name, text, *args):
        (HOME / f"{name}.txt").write_text(text)
        self.answer("engram", "build", "-o", HOME / f"{name}.engr", HOME / f"{name}.txt", *args)
        return HOME / f"{name}.engr"

    def test_a_table_lowers_the_perplexity_of_its_text(self):
        table = self.build("fox", TEXT * 20)
        (HOME / "more.txt").write_text(TEXT * 3)
        off = self.answer("eval", "perplexity", "-f", HOME / "more.txt")["perplexity"]
        for gate in ("learned", "always"):
            on = self.answer("eval", "perplexity", "-f", HOME / "more.txt", "--engram", table, "--engram-gate", gate)
            self.assertLess(on["perplexity"], off / 4, gate)
        result = self.answer("engram", "eval", "-f", HOME / "more.txt", table)
        self.assertAlmostEqual(result["off"]["perplexity"], off, places=3)
        self.assertAlmostEqual(result["always"]["perplexity"], on["perplexity"], places=3)

    def test_generations_follow_the_table(self):
        table = self.build("fox", TEXT * 20)
        args = ("run", "--raw", "-p", "the quick br", "-n", "20", "--temp", "0")
        text = self.answer(*args, "--engram", table, "--engram-gate", "always")["text"]
        self.assertTrue(text.startswith("own fox jumps over t"), text)
        self.assertNotIn("own fox", self.answer(*args)["text"])

    def test_control_tokens_of_a_text_end_generations(self):
        args = ("run", "--raw", "-p", "the quick br", "-n", "20", "--temp", "0", "--engram-gate", "always", "--engram")
        text = "the quick brown fox<|im_end|>"
        special = self.build("special", text, "--special", "--weight", "100")
        self.assertEqual(self.answer(*args, special)["text"], "own fox")
        self.assertTrue(self.answer(*args, self.build("plain", text, "--weight", "100"))["text"].startswith("own fox<|im_end"))

    def test_merging_is_commutative_addition(self):
        a, b = self.build("a", "abcabd"), self.build("b", "abcabe")
        for first, second, out in ((a, b, "ab"), (b, a, "ba")):
            self.answer("engram", "merge", first, second, "-o", HOME / f"{out}.engr")
        self.assertEqual((HOME / "ab.engr").read_bytes(), (HOME / "ba.engr").read_bytes())
        seen = self.answer("engram", "query", "-p", "xab", HOME / "ab.engr")[0]["contexts"]
        self.assertEqual(seen[-1]["order"], 2)
        self.assertEqual({n["text"] for n in seen[-1]["next"]}, {"c", "d", "e"})
        self.assertEqual(self.answer("engram", "inspect", HOME / "ab.engr")["sources"], ["a.txt", "b.txt"])

    def test_decay_twice_is_decay_once(self):
        table = self.build("old", "abcabcabc", "--date", "2026-01-01")
        self.answer("engram", "decay", table, "--date", "2026-02-15")
        once = table.read_bytes()
        self.answer("engram", "decay", table, "--date", "2026-02-15")
        self.assertEqual(table.read_bytes(), once)
        self.assertEqual(self.answer("engram", "inspect", table)["as_of"], "2026-02-15")
        self.assertEqual(self.answer("engram", "decay", table, "--date", "2026-04-01")["ngrams"], 0)

    def test_prune_drops_rare_ngrams(self):
        table = self.build("rare", "ababababxy")
        before = self.answer("engram", "inspect", table)["ngrams"]
        after = self.answer("engram", "prune", table, "--min", "2", "--from-order", "1", "-o", HOME / "pruned.engr")
        self.assertLess(after["ngrams"], before)

    def test_chat_logs_and_folders_are_texts(self):
        folder = HOME / "texts"
        folder.mkdir()
        (folder / "log.jsonl").write_text(
            json.dumps({"messages": [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "world"}]})
            + "\n" + json.dumps({"prompt": "one", "response": "two"}) + "\n")
        (folder / "page.txt").write_text("page")
        (folder / "picture.png").write_bytes(b"\x89PNG\x01\x02\x03")
        done = run("engram", "build", folder, "-o", HOME / "texts.engr")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("picture.png", done.stderr)
        for text, follows in (("hell", "o"), ("worl", "d"), ("tw", "o"), ("pag", "e")):
            contexts = self.answer("engram", "query", "-p", text, HOME / "texts.engr")[0]["contexts"]
            self.assertEqual(contexts[-1]["next"][0]["text"], follows)

    def test_the_older_version_must_be_vouched_for(self):
        (HOME / "v1.txt").write_text(TEXT)
        done = run("engram", "build", "--table-version", "1", "--order", "3", HOME / "v1.txt", "-o", HOME / "v1.engr")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.refused(1, "--assume-tokenizer", "engram", "query", "-p", "qui", HOME / "v1.engr")
        found = self.answer("engram", "query", "-p", "qui", HOME / "v1.engr", "--assume-tokenizer")
        self.assertEqual(found[0]["contexts"][0]["next"][0]["text"], "c")
        self.refused(1, "version 2", "engram", "merge", HOME / "v1.engr", "-o", HOME / "x.engr")

    def test_complaints_are_sentences(self):
        table = self.build("cut", TEXT)
        cut = HOME / "half.engr"
        cut.write_bytes(table.read_bytes()[:500])
        self.refused(1, "damaged", "run", "--raw", "-p", "x", "--engram", cut)
        self.refused(1, "cannot be opened", "engram", "build", HOME / "absent.txt", "-o", HOME / "x.engr")
        self.refused(1, "no date", "engram", "decay", table, "--date", "2026-13-01")
        (HOME / "bad.jsonl").write_text("{}\n")
        self.refused(1, "Line 1", "engram", "build", HOME / "bad.jsonl", "-o", HOME / "x.engr")
        self.refused(1, "nothing to learn", "engram", "fit", "-f", HOME / "cut.txt", self.build("other", "\x7f\x7f"))


if __name__ == "__main__":
    subprocess.run([WRITER, MODEL, "300"], check=True)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
