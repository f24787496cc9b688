#!/usr/bin/env python3
"""`chimere quantize` and `chimere imatrix`: models keep their answers, budgets are kept, interrupted runs continue, failures are sentences.

  quantize_test.py CHIMERE NANO [unittest arguments]
"""
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

CHIMERE, NANO = (pathlib.Path(arg).absolute() for arg in sys.argv[1:3])
FOLDER = tempfile.TemporaryDirectory()
HOME = pathlib.Path(FOLDER.name)
TEXT = HOME / "text.txt"
TEXT.write_text("The command ls lists the files of a folder. The command cp copies files, and mv moves them. " * 30)


def environment():
    return {k: v for k, v in os.environ.items() if not k.startswith("CHIMERE_")} | {"HOME": str(HOME)}


def chimere(*args, **kwargs):
    return subprocess.run([CHIMERE, *map(str, args)], capture_output=True, text=True, check=False, env=environment(), timeout=150, cwd=HOME,
                          **kwargs)


def limit_files():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))


class Quantize(unittest.TestCase):
    def setUp(self):
        self.out = HOME / (self.id().rsplit(".", 1)[1] + ".gguf")

    def done(self, *args):
        run = chimere(*args, "--json")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return json.loads(run.stdout)

    def refused(self, *args, says, code=1, **kwargs):
        run = chimere(*args, **kwargs)
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        self.assertIn(says, run.stderr)
        self.assertFalse(self.out.exists())

    def divergence(self, model):
        return self.done("eval", "divergence", "-m", model, "--base", NANO, "-f", TEXT, "--ctx", 256, "-q")["kld"]

    def test_more_bits_diverge_less(self):
        kl = []
        for kind in ("q8_0", "q4_K", "q3_K"):
            report = self.done("quantize", NANO, "-o", self.out, "--type", kind)
            self.assertEqual(report["file_bytes"], self.out.stat().st_size)
            kl.append(self.divergence(self.out))
        self.assertLess(kl[0], 0.002)
        self.assertEqual(kl, sorted(kl))
        said = self.done("inspect", self.out)["metadata"]
        self.assertEqual(said["chimere.quantize.settings"], "--type q3_K")

    def test_ternary_formats(self):
        for kind in ("TQ1_0", "TQ2_0"):
            report = self.done("quantize", NANO, "-o", self.out, "--type", kind)
            kinds = {t["name"]: t["type"] for t in report["tensors"]}
            self.assertEqual(kinds["token_embd.weight"], kind.lower())
            answer = chimere("run", "-m", self.out, "-p", "ls", "-n", 4, "--temp", 0, "--json")
            self.assertEqual(answer.returncode, 0, answer.stderr)

    def test_a_budget_is_kept_and_measured_importance_helps(self):
        matrix = HOME / "imatrix.gguf"
        report = self.done("imatrix", NANO, "-f", TEXT, "-o", matrix, "--window", 256)
        self.assertGreater(report["tensors"], 20)
        size = 2_000_000
        report = self.done("quantize", NANO, "-o", self.out, "--size", f"{size}B", "--imatrix", matrix)
        self.assertLessEqual(report["file_bytes"], size)
        self.assertGreater(report["file_bytes"], 0.985 * size)
        self.assertGreater(len({t["type"] for t in report["tensors"]}), 3)
        size = 2_344_320
        report = self.done("quantize", NANO, "-o", HOME / "data_free.gguf", "--size", f"{size}B", "--data-free")
        self.assertLessEqual(report["file_bytes"], size)
        answer = chimere("run", "-m", self.out, "-p", "ls", "-n", 4, "--temp", 0, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        other = HOME / "fits.gguf"
        report = self.done("quantize", NANO, "-o", other, "--fits", "64MB, 1k context", "--data-free")
        self.assertLess(report["file_bytes"], 64_000_000)

    def test_impossible_budgets(self):
        self.refused("quantize", NANO, "-o", self.out, "--size", "0.1MB", "--data-free", says="allow more bytes")
        self.refused("quantize", NANO, "-o", self.out, "--bpw", "2", "--floor", "embedding=q8_0", "--data-free",
                     says="smallest formats")
        self.refused("quantize", NANO, "-o", self.out, "--fits", "1MB, 16k context", "--data-free", says="allow more memory")
        self.refused("quantize", NANO, "-o", self.out, "--bpw", "3", says="--data-free")
        self.refused("quantize", NANO, "-o", self.out, says="--bpw")
        self.refused("quantize", NANO, "-o", self.out, "--type", "q4_K", "--keep", "blk.99.*", says="matches no tensor")

    def test_types_of_single_tensors(self):
        self.refused("quantize", NANO, "-o", self.out, "--type", "q4_K", "--tensor-type", "nose.*=q8_0", says="matches no weight matrix")
        self.refused("quantize", NANO, "-o", self.out, "--type", "q4_K", "--tensor-type", "q8_0", says="PATTERN=TYPE", code=2)
        report = self.done("quantize", NANO, "-o", self.out, "--bpw", "4", "--data-free", "--tensor-type", "token_embd.weight=q3_K",
                           "--tensor-type", "blk.*.attn_q.weight=q8_0")
        kinds = {t["name"]: t["type"] for t in report["tensors"]}
        self.assertEqual(kinds["token_embd.weight"], "q3_K")
        self.assertEqual({kind for name, kind in kinds.items() if name.endswith("attn_q.weight")}, {"q8_0"})
        log = self.done("inspect", self.out)["metadata"]["chimere.quantize.log"]
        self.assertEqual([line for line in log if line.startswith("token_embd.weight ")],
                         ["token_embd.weight embedding q4_0 q3_K type on request"])

    def test_unpacked_experts_answer_the_same(self):
        self.done("quantize", NANO, "-o", self.out, "--type", "iq3_s")
        flags = ("run", "-m", self.out, "--raw", "-p", "the path", "-n", 6, "--temp", 0, "--backend", "cpu", "--json")
        for isa in ("avx-vnni", "avx2"):
            packed = chimere(*flags, "--cpu-isa", isa, "--unpack-experts", "off")
            if "this processor, or this build, has only" in packed.stderr:
                continue
            unpacked = chimere(*flags, "--cpu-isa", isa, "--unpack-experts", "on")
            self.assertIn("Unpacked experts into", unpacked.stderr)
            self.assertNotIn("Unpacked experts", packed.stderr)
            self.assertEqual(json.loads(unpacked.stdout)["ids"], json.loads(packed.stdout)["ids"])

    def test_mistakes_in_flags(self):
        self.refused("quantize", NANO, "-o", self.out, "--type", "q9", says="not a format", code=2)
        self.refused("quantize", NANO, "-o", self.out, "--type", "q4_K", "--floor", "nose=q8_0", says="ROLE=TYPE", code=2)
        self.refused("quantize", NANO, "-o", self.out, "--fits", "much", "--data-free", says="16GB, 64k context", code=2)
        self.refused("quantize", NANO, "-o", self.out, "--type", "q4_K", "--imatrix", NANO, says="no importance matrix")

    def test_killed_runs_continue(self):
        mini = self.out.with_suffix(".whole.gguf")
        self.done("quantize", NANO, "-o", mini, "--type", "iq2_s")
        partial = pathlib.Path(str(self.out) + ".partial")
        for number in range(3):
            run = subprocess.Popen([CHIMERE, "quantize", NANO, "-o", self.out, "--type", "iq2_s", "-t", str(number % 2 + 1)],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(), cwd=HOME)
            while run.poll() is None and not (partial.exists() and partial.stat().st_size > 300_000):
                time.sleep(0.001)
            run.send_signal(signal.SIGINT if number == 0 else signal.SIGKILL)
            run.wait()
        self.done("quantize", NANO, "-o", self.out, "--type", "iq2_s")
        self.assertEqual(self.out.read_bytes(), mini.read_bytes())
        self.assertEqual([p.name for p in HOME.glob(self.out.name + ".*")], [])

    def test_imatrix_is_the_same_with_any_threads_and_after_kills(self):
        text = TEXT.read_text()[:900]

        def measure(output, threads):
            return subprocess.Popen([CHIMERE, "imatrix", NANO, "-f", "-", "-o", output, "--window", "64", "-t", str(threads)], stdin=subprocess.PIPE,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment(), cwd=HOME)

        whole = self.out.with_suffix(".whole.gguf")
        _, said = measure(whole, 1).communicate(text)
        self.assertTrue(whole.exists(), said)
        for kill, threads in ((signal.SIGINT, 2), (signal.SIGKILL, 5)):
            run = measure(self.out, threads)
            run.stdin.write(text)
            run.stdin.close()  # it measures from here on
            run.send_signal(kill)
            run.wait()
            run.stderr.close()
            self.assertTrue(not self.out.exists() or self.out.read_bytes() == whole.read_bytes())
            measure(self.out, threads).communicate(text)
            self.assertEqual(self.out.read_bytes(), whole.read_bytes())
            self.out.unlink()

    def test_a_full_disk_leaves_no_file(self):
        run = chimere("quantize", NANO, "-o", self.out, "--type", "q8_0", preexec_fn=limit_files)
        self.assertEqual(run.returncode, 1, run.stdout)
        self.assertIn("cannot be written", run.stderr)
        self.assertFalse(self.out.exists())

    def test_damaged_models_are_refused(self):
        damaged = HOME / "damaged.gguf"
        damaged.write_bytes(NANO.read_bytes()[:-1000])
        self.refused("quantize", damaged, "-o", self.out, "--type", "q4_K", says="incomplete")
        self.refused("quantize", NANO, "-o", NANO, "--type", "q4_K", says="would replace")
        self.refused("imatrix", NANO, "-f", TEXT, "-o", self.out, "--window", 8192, says="longer text")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
