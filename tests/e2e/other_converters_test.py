#!/usr/bin/env python3
"""Files of other converters, with tensors of other parts and defaults of sampling.

  other_converters_test.py CHIMERE WRITE_TINY_MODEL [unittest arguments]
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "serving"))
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from limits import HANG  # noqa: E402
from server import Server  # noqa: E402

CHIMERE, WRITER = (pathlib.Path(arg).absolute() for arg in sys.argv[1:3])
FOLDER = tempfile.TemporaryDirectory()
HOME = pathlib.Path(FOLDER.name)
MODEL = HOME / "tiny.gguf"
LINE = "Only the text model of the file is run: 3 tensors are left out, mm.* (1), mtp.* (1), v.* (1)."


def run(*flags):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("CHIMERE_")}
    done = subprocess.run([CHIMERE, "run", "-m", MODEL, "-p", "th", "-n", "12", "--json", *flags], capture_output=True, check=True,
                          timeout=HANG, env={**kept, "HOME": str(HOME)})
    return json.loads(done.stdout)["text"], done.stderr.decode()


class OtherConverters(unittest.TestCase):
    def test_run_says_what_is_left_out(self):
        self.assertEqual(run()[1].count(LINE), 1)
        self.assertNotIn(LINE, run("--quiet")[1])

    def test_run_samples_as_the_file_says_unless_a_flag_does(self):
        greedy = {run("--seed", str(seed))[0] for seed in range(2)}
        self.assertEqual(len(greedy), 1)
        self.assertEqual(greedy, {run("--temp", "0")[0]})
        self.assertGreater(len({run("--seed", str(seed), "--temp", "2")[0] for seed in range(3)}), 1)

    def test_serve_has_the_defaults_of_the_file_and_of_flags(self):
        server = Server(CHIMERE, MODEL, temp="0.25")
        try:
            params = server.get("/props")["default_generation_settings"]["params"]
            self.assertEqual((params["temperature"], params["top_k"]), (0.25, 33))
            self.assertIn(LINE, server.log())
        finally:
            server.close()


if __name__ == "__main__":
    subprocess.run([WRITER, MODEL, "other-converter"], check=True)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
