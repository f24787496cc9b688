#!/usr/bin/env python3
"""Control-C ends the generation, but not the program.

  interrupt_test.py CHIMERE WRITE_TINY_MODEL [unittest arguments]

The signal may arrive before the generation starts or after it ends: each case repeats until it arrives in between.
"""
import itertools
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from limits import HANG  # noqa: E402

CHIMERE, WRITER = (pathlib.Path(arg).absolute() for arg in sys.argv[1:3])
SEED = int(os.environ.get("TEST_SEED", random.randrange(1 << 32)))


class Interrupt(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        model = cls.folder.name + "/tiny.gguf"
        subprocess.run([WRITER, model, "300"], check=True)
        kept = {k: v for k, v in os.environ.items() if not k.startswith("CHIMERE_")}
        cls.environment = {**kept, "HOME": cls.folder.name}
        cls.words = [CHIMERE, "run", "-m", model, "--raw", "-p", "x", "--temp", "1"]
        cls.words += ["--seed", str(cls.long_seed())]

    @classmethod
    def long_seed(cls):
        """A seed with a long generation: the random model's generations end after about 300 tokens on average."""
        for seed in itertools.count():
            result = subprocess.run([*cls.words, "--seed", str(seed), "--json"], capture_output=True, check=True,
                                  env=cls.environment, timeout=HANG)
            if json.loads(result.stdout)["tokens"] > 500:
                return seed

    def interrupted(self, words, before):
        """Runs the program, sends SIGINT after before(process); returns exit status, standard output and standard error."""
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment) as process:
            before(process)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=HANG)
        return process.returncode, out, err

    def test_the_figures_are_printed(self):
        while True:
            code, _, err = self.interrupted([*self.words, "--verbose"], lambda process: process.stdout.read(1))
            if code == -signal.SIGINT:
                continue  # after the generation, SIGINT ends the process
            self.assertEqual(code, 0, err)
            if b"; cancelled;" in err:
                return

    def test_the_document_is_whole(self):
        draw = random.Random(SEED)
        # There is no output before the end of the generation: try increasing waits.
        for attempt in itertools.count(1):
            wait = draw.uniform(0, 0.01 * attempt)
            code, out, err = self.interrupted([*self.words, "--json"], lambda _, wait=wait: time.sleep(wait))
            if code == -signal.SIGINT:
                continue
            self.assertEqual(code, 0, err)
            if json.loads(out)["finish"] == "cancelled":
                return


if __name__ == "__main__":
    print(f"seed {SEED}")
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
