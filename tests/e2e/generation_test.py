#!/usr/bin/env python3
"""Output streams of answers, reasoning, statistics and progress.

  generation_test.py CHIMERE WRITE_TINY_MODEL MODELS [unittest arguments]

MODELS is the folder of the shipped models: the small sibling reasons, one makes embeddings.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

CHIMERE, WRITER, MODELS = (pathlib.Path(arg).absolute() for arg in sys.argv[1:4])
REASONER, EMBEDDER = MODELS / "chimere-nano.gguf", MODELS / "chimere-embed.gguf"
FOLDER = tempfile.TemporaryDirectory()
HOME = pathlib.Path(FOLDER.name)
MODEL = HOME / "tiny.gguf"


def chimere(*args, stdin=""):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("CHIMERE_")}
    done = subprocess.run([CHIMERE, *map(str, args)], input=stdin.encode(), capture_output=True, check=False, timeout=100,
                          env={**kept, "HOME": str(HOME)})
    done.out, done.err = done.stdout.decode(), done.stderr.decode()
    return done


class Case(unittest.TestCase):
    def ran(self, *args, **kwargs):
        done = chimere(*args, **kwargs)
        self.assertEqual(done.returncode, 0, done.err)
        return done

    def answer(self, *args, **kwargs):
        return json.loads(self.ran(*args, "--json", **kwargs).out)


class Reasoning(Case):
    FLAGS = ("-m", REASONER, "--temp", 0, "--reasoning", "low")
    QUESTION = "What does the command ls do?"

    def generated(self):
        result = self.answer("run", *self.FLAGS, "-p", self.QUESTION)
        self.assertGreater(result["thinking_tokens"], 0)
        return result

    def test_reasoning_has_its_own_field(self):
        result = self.generated()
        for field in ("text", "reasoning"):
            self.assertNotEqual(result[field], "")
            self.assertNotIn("think>", result[field])
            self.assertEqual(result[field], result[field].strip())

    def test_only_the_answer_goes_to_standard_output(self):
        result = self.generated()
        done = self.ran("run", *self.FLAGS, "-p", self.QUESTION)
        self.assertEqual(done.out, result["text"] + "\n")
        self.assertTrue(done.err.startswith(result["reasoning"] + "\n\n"), done.err)
        self.assertNotIn("think>", done.err)
        self.assertNotIn("\x1b", done.err)  # no terminal

    def test_chats_do_the_same(self):
        result = self.generated()
        turns = self.answer("chat", *self.FLAGS, stdin=self.QUESTION + "\n" + self.QUESTION + "\n")["turns"]
        self.assertEqual((turns[0]["text"], turns[0]["reasoning"]), (result["text"], result["reasoning"]))
        self.assertNotIn("think>", turns[1]["text"] + turns[1]["reasoning"])
        self.assertEqual(self.ran("chat", *self.FLAGS, stdin=self.QUESTION + "\n").out, result["text"] + "\n")

    def test_without_reasoning_the_field_is_empty(self):
        result = self.answer("run", "-m", REASONER, "--temp", 0, "-p", self.QUESTION)
        self.assertEqual((result["text"].strip(), result["reasoning"]), ("ls lists directory contents.", ""))

    def test_unfinished_reasoning_is_no_answer(self):
        result = self.answer("run", *self.FLAGS, "--raw", "-p", "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n<think>\n", "-n", 3)
        self.assertEqual(result["reasoning"], "")  # --raw does not separate reasoning
        done = self.ran("run", "-m", REASONER, "--temp", 0, "--reasoning", "high", "--logit-bias", self.never_closing(), "-n", 5,
                        "-p", self.QUESTION)
        self.assertNotIn("think>", done.out)

    def never_closing(self):
        close = self.answer("tokenize", "-m", REASONER, "--special", "</think>")["tokens"]
        self.assertEqual(len(close), 1)
        return f"{close[0]}-inf"


class Quiet(Case):
    def test_results_only(self):
        text = HOME / "quiet.txt"
        text.write_text("the path of the third moth\n" * 4)
        table = HOME / "quiet.engr"
        self.ran("engram", "build", "-m", MODEL, "-o", table, text)
        same = HOME / "same.engr"
        for args in (("run", "-m", MODEL, "-p", "x", "-n", 2), ("chat", "-m", MODEL, "-n", 2), ("eval", "perplexity", "-m", MODEL, "-f", text),
                     ("eval", "divergence", "-m", MODEL, "--base", MODEL, "-f", text), ("engram", "eval", "-m", MODEL, "-f", text, table),
                     ("engram", "fit", "-m", MODEL, "-f", text, "-o", same, table),
                     ("run", "-m", REASONER, "-p", "What is ls?", "--reasoning", "low", "--temp", 0)):
            with self.subTest(args=args[:2]):
                flags = ("--backend", "cpu", "--seed", 1)[:4 if args[0] in ("run", "chat") else 2]
                loud = self.ran(*args, *flags, stdin="the moth\n")
                self.assertNotEqual(loud.err, "")
                for quiet in ("--quiet", "-q"):
                    done = self.ran(*args, *flags, quiet, stdin="the moth\n")
                    self.assertEqual((done.out, done.err), (loud.out, ""))

    @unittest.skipUnless((MODELS / "chimere-mini.gguf").exists(), "the shipped model is not there")
    def test_the_shipped_model_is_information(self):
        done = self.ran("tokenize", "ls")
        self.assertEqual(len(done.err.splitlines()), 1)
        self.assertTrue(done.err.startswith("Using the shipped model "), done.err)
        self.assertIn("-m", done.err)
        self.assertEqual(self.ran("tokenize", "ls", "--quiet").err, "")


class Limits(Case):
    def test_warns_of_more_tokens_than_the_context_has(self):
        flags = ("-m", MODEL, "--raw", "-p", "xy", "--ctx", 10, "--seed", 1)
        done = self.ran("run", *flags, "-n", 100, "--quiet")
        self.assertIn("--max-tokens 100", done.err)
        self.assertIn("context of 10 has 8 tokens left", done.err)
        self.assertIn("8 tokens left", self.ran("run", *flags, "-n", 9, "--json").err)
        for n in (8, -1):
            self.assertEqual(self.ran("run", *flags, "-n", n, "--quiet").err, "")
        self.assertIn("--max-tokens 100", self.ran("chat", "-m", MODEL, "-n", 100, "--ctx", 64, stdin="x\n").err)

    def test_biases_of_tokens_that_do_not_exist_are_refused(self):
        """The rule of docs/sampling.md."""
        done = chimere("run", "-m", MODEL, "-p", "x", "--logit-bias", "300+1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("Token 300 of the logit biases does not exist; ids go from 0 to 299.", done.err)
        self.ran("run", "-m", MODEL, "-p", "x", "-n", 1, "--logit-bias", "299+1")


class StandardInput(Case):
    def test_a_dash_means_standard_input(self):
        text = "the path of the third moth\n" * 4
        path = HOME / "moth.txt"
        path.write_text(text)
        table = HOME / "moth.engr"
        self.assertEqual(self.answer("engram", "build", "-m", MODEL, "-o", table, path)["ngrams"],
                         self.answer("engram", "build", "-m", MODEL, "-o", HOME / "piped.engr", "-", stdin=text)["ngrams"])
        for args in (("eval", "perplexity", "-m", MODEL, "-f"), ("eval", "divergence", "-m", MODEL, "--base", MODEL, "-f"),
                     ("engram", "eval", table, "-m", MODEL, "-f"), ("engram", "fit", table, "-m", MODEL, "-f")):
            self.assertEqual(self.answer(*args, "-", stdin=text), self.answer(*args, path))


@unittest.skipUnless(EMBEDDER.exists(), "the shipped embedding model is not there")
class Embed(Case):
    def test_the_shipped_embedder_is_the_default(self):
        done = self.ran("embed", "a text")
        self.assertIn("shipped model", done.err)
        self.assertIn("chimere-embed", done.err)
        named = self.ran("embed", "-m", "chimere-embed", "a text")
        self.assertEqual((named.out, named.err), (self.ran("embed", "-m", EMBEDDER, "a text").out, ""))
        self.assertEqual(done.out, named.out)

    def test_another_kind_of_model_is_refused_with_its_name(self):
        done = chimere("embed", "-m", MODEL, "a text")
        self.assertEqual(done.returncode, 1)
        self.assertIn("chimere-embed", done.err)


if __name__ == "__main__":
    subprocess.run([WRITER, MODEL, "300"], check=True)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
