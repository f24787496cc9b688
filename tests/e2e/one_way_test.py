#!/usr/bin/env python3
"""The same conversation, seed and form of the answer give the same bytes wherever it is asked: `chimere run`, `chimere chat`,
the server and libchimere.

  one_way_test.py PROGRAM MODEL LIBRARY SOURCE [unittest arguments]
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM, MODEL, LIBRARY, SOURCE = sys.argv[1:5]
os.environ["CHIMERE_SHARED_LIBRARY"] = LIBRARY
sys.path += [str(pathlib.Path(SOURCE) / "tests/serving"), str(pathlib.Path(SOURCE) / "examples/python")]
import chimere  # noqa: E402
from server import Server, environment  # noqa: E402

SYSTEM = "Answer in one sentence."
QUESTIONS = ["What does the command ls do?", "And what does chmod do?"]
SCHEMA = json.dumps({"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "section": {"enum": [1, 5, 8]}},
                     "required": ["name", "section"], "additionalProperties": False})
#        name: (flags of run and chat, fields of the server, options of the library)
FORMS = {
    "text": ([], {}, {}),
    "schema": (["--json-schema", SCHEMA],
               {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": json.loads(SCHEMA)}}},
               {"json_schema": SCHEMA}),
    "regex": (["--regex", "(yes|no), [a-z ]{3,30}"], {"structured_outputs": {"regex": "(yes|no), [a-z ]{3,30}"}},
              {"regex": "(yes|no), [a-z ]{3,30}"}),
    "choice": (["--choice", "a file,a folder,both"], {"structured_outputs": {"choice": ["a file", "a folder", "both"]}},
               {"choice": ["a file", "a folder", "both"]}),
}
SEEDS = (1, 2, 3)
TOKENS, TEMPERATURE = 60, 0.9


class OneWay(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = Server(PROGRAM, MODEL)
        cls.runtime = chimere.Runtime()
        cls.model = chimere.Model(cls.runtime, MODEL, backend="cpu")

    @classmethod
    def tearDownClass(cls):
        cls.model.close()
        cls.runtime.close()
        cls.server.close()
        cls.folder.cleanup()

    def command(self, *arguments, text=""):
        done = subprocess.run([PROGRAM, *arguments], input=text, capture_output=True, text=True, check=False,
                              env=environment(self.folder.name))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def run_flags(self, flags, seed):
        return ["-m", MODEL, "--system", SYSTEM, "--seed", str(seed), "--temp", str(TEMPERATURE), "-n", str(TOKENS),
                "--reasoning", "none", "--quiet", *flags]

    def served(self, messages, fields, seed):
        connection = self.server.connect()
        connection.request("POST", "/v1/chat/completions", json.dumps({
            "messages": [{"role": r, "content": c} for r, c in messages], "seed": seed, "temperature": TEMPERATURE,
            "max_tokens": TOKENS, "reasoning_effort": "none", **fields}), {"Content-Type": "application/json"})
        answer = json.load(connection.getresponse())
        connection.close()
        self.assertIn("choices", answer, answer)
        return answer["choices"][0]["message"]["content"]

    def library(self, messages, options, seed):
        tokens = self.model.chat(messages, reasoning="none")
        with chimere.Sequence(self.model, tokens) as sequence:
            text, _ = sequence.generate(seed=seed, temp=TEMPERATURE, max_tokens=TOKENS, reasoning="none", split=1,
                                        **options)
        return text

    def test_the_same_bytes(self):
        for name, (flags, fields, options) in FORMS.items():
            for seed in SEEDS:
                with self.subTest(form=name, seed=seed):
                    messages = [("system", SYSTEM), ("user", QUESTIONS[0])]
                    wanted = self.served(messages, fields, seed)
                    self.assertTrue(wanted)
                    self.assertEqual(self.library(messages, options, seed), wanted)
                    ran = self.command("run", *self.run_flags(flags, seed), "-p", QUESTIONS[0])
                    self.assertEqual(ran, wanted + "\n")
                    messages += [("assistant", wanted), ("user", QUESTIONS[1])]
                    second = self.served(messages, fields, seed)
                    self.assertEqual(self.library(messages, options, seed), second)
                    chatted = self.command("chat", *self.run_flags(flags, seed), text="\n".join(QUESTIONS) + "\n")
                    self.assertEqual(chatted, wanted + "\n" + second + "\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
