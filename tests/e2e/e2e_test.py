#!/usr/bin/env python3
"""Runs the built program as a user does.

  e2e_test.py CHIMERE WRITE_TINY_MODEL SHIPPED_MODEL [unittest arguments]

Most cases use a small random model that knows all bytes; those of the shipped model are skipped where it does not exist.
"""
import json
import math
import os
import pathlib
import pty
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import unicodedata
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from limits import HANG  # noqa: E402

CHIMERE, WRITER, SHIPPED = (pathlib.Path(arg).absolute() for arg in sys.argv[1:4])
VOCABULARY = 300
SEED = int(os.environ.get("TEST_SEED", random.randrange(1 << 32)))
FOLDER = tempfile.TemporaryDirectory()
HOME = pathlib.Path(FOLDER.name)
MODEL = HOME / "tiny.gguf"
OTHER = HOME / "other.gguf"  # the same vocabulary, other weights
SMALLER = HOME / "smaller.gguf"  # another vocabulary


def environment(**extra):
    """No user settings: an empty home folder and no CHIMERE_ variables."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("CHIMERE_")}
    return {**kept, "HOME": str(HOME), **extra}


def chimere(*args, stdin="", env=None):
    done = subprocess.run([CHIMERE, *map(str, args)], input=stdin.encode(), capture_output=True, check=False,
                          env=env or environment(), timeout=HANG)
    done.out = done.stdout.decode()
    done.err = done.stderr.decode()
    return done


class Case(unittest.TestCase):
    def answer(self, *args, **kwargs):
        """The JSON document of a command that succeeds."""
        at = args.index("--") if "--" in args else len(args)
        done = chimere(*args[:at], "--json", *args[at:], **kwargs)
        self.assertEqual(done.returncode, 0, done.err)
        return json.loads(done.out)

    def refused(self, code, *args, says="", **kwargs):
        """The complaint of a command that fails: one sentence, nothing on standard output."""
        done = chimere(*args, **kwargs)
        self.assertEqual(done.returncode, code, f"{args}: {done.out}{done.err}")
        self.assertEqual(done.out, "")
        complaint = [line for line in done.err.splitlines() if line.startswith("chimere: ")]
        self.assertEqual(len(complaint), 1, done.err)
        self.assertRegex(complaint[0], r"[.:]")
        self.assertIn(says, complaint[0])


class Tokens(Case):
    def test_text_round_trips(self):
        draw = random.Random(SEED)
        texts = ["the path", "", "häß 日本 🙂\n\ttab", "<|im_start|>", "".join(chr(draw.randrange(32, 0x500)) for _ in range(50))]
        for text in texts[0:1] + texts[2:]:
            ids = self.answer("tokenize", "-m", MODEL, "--", text)["tokens"]
            self.assertEqual(self.answer("tokenize", "-m", MODEL, stdin=text)["tokens"], ids)
            self.assertEqual(self.answer("detokenize", "-m", MODEL, ",".join(map(str, ids)))["text"],
                             unicodedata.normalize("NFC", text))
        self.assertEqual(self.answer("tokenize", "-m", MODEL, "--", "")["tokens"], [])

    def test_control_tokens_are_text_by_default(self):
        plain = self.answer("tokenize", "-m", MODEL, "<|im_end|>")["tokens"]
        self.assertGreater(len(plain), 1)
        self.assertEqual(self.answer("tokenize", "-m", MODEL, "--special", "<|im_end|>")["tokens"], [VOCABULARY - 1])

    def test_text_output_shows_ids_and_pieces(self):
        self.assertRegex(chimere("tokenize", "-m", MODEL, "th").out, r'^ +256  "th"\n$')


class Inspect(Case):
    def test_shows_the_file_and_the_cost_of_running_it(self):
        result = self.answer("inspect", MODEL, "--tensors")
        self.assertEqual(result["metadata"]["general.architecture"], "qwen35moe")
        self.assertEqual(result["file_bytes"], MODEL.stat().st_size)
        self.assertEqual(sum(t["count"] for t in result["types"]), result["tensor_count"])
        self.assertEqual(len(result["tensors"]), result["tensor_count"])
        self.assertLess(result["costs"]["active_weight_bytes"], result["file_bytes"])
        self.assertGreater(result["costs"]["state_bytes"], 0)
        wide = self.answer("inspect", MODEL, "--cache-k", "f32", "--cache-v", "f32")
        self.assertEqual(wide["costs"]["kv_bytes_per_token"], 2 * result["costs"]["kv_bytes_per_token"])
        self.assertIn("Tensors by type", chimere("inspect", MODEL).out)

    def test_a_plan_for_a_gpu_names_the_profile(self):
        budget = ["--vram-budget", "4GiB"]
        for flags, profile in (([], "native"), (["--cuda-profile", "sm_120"], "sm_120")):
            self.assertEqual(self.answer("inspect", MODEL, *budget, *flags)["gpu"]["profile"], profile)
            self.assertEqual("(as sm_120)" in chimere("inspect", MODEL, *budget, *flags).out, profile == "sm_120")
        for command in ("run", "serve", "bench", "inspect"):
            self.refused(2, command, "--cuda-profile", "sm_75", says="one of native, sm_120")

    def test_a_small_gpu_runs_without_the_mtp_head(self):
        def gpu(speculate, budget):
            types = ["--ctx", 1024, "--speculate", speculate, "--vram-budget", f"{budget}B"]
            return self.answer("inspect", MODEL, *types)["gpu"]

        drafts = gpu("mtp", 4 << 30)
        if drafts["name"] != "a GPU":
            self.skipTest("there is a GPU, whose memory other processes may use")
        self.assertGreater(drafts["draft_weights"], 0)
        self.assertIn("for drafts", chimere("inspect", MODEL, "--speculate", "mtp", "--vram-budget", "4GiB").out)
        plain = gpu("off", 4 << 30)
        self.assertEqual(plain["draft_weights"], 0)
        self.assertEqual(gpu("auto", 4 << 30), drafts)
        self.assertGreater(drafts["weights"], plain["weights"])
        self.assertGreater(drafts["kv"], plain["kv"])
        # The plan for a GPU that is too small has the least work memory.
        driver = (4 << 30) - drafts["allowed"]
        least, most = (gpu(mode, driver + 1)["total"] for mode in ("off", "mtp"))
        between = driver + (least + most) // 2
        tight = gpu("auto", between)
        self.assertEqual((tight["draft_weights"], tight["cpu_expert_layers"], tight["fits"]), (0, 0, True))
        forced = gpu("mtp", between)
        self.assertEqual(forced["draft_weights"], drafts["draft_weights"])
        self.assertTrue(forced["cpu_expert_layers"] > 0 or not forced["fits"])

    def test_a_split_model_is_one_model(self):
        subprocess.run([WRITER, HOME / "split", str(VOCABULARY), "35", "20000"], check=True)
        parts = sorted(HOME.glob("split-*.gguf"))
        self.assertGreater(len(parts), 2)
        whole, split = self.answer("inspect", MODEL, "--tensors"), self.answer("inspect", parts[1], "--tensors")
        self.assertEqual((whole["files"], split["files"]), (1, len(parts)))
        self.assertEqual(split["file_bytes"], sum(p.stat().st_size for p in parts))
        self.assertEqual(split["tensors"], whole["tensors"])
        self.assertIn(f"in {len(parts)} files", chimere("inspect", parts[0]).out)
        flags = ("-p", "the path", "-n", 8, "--seed", SEED)
        self.assertEqual(self.answer("run", "-m", parts[0], *flags)["ids"], self.answer("run", "-m", MODEL, *flags)["ids"])
        parts[1].unlink()
        self.refused(1, "run", "-m", parts[0], "-p", "x", says=f"{parts[1]} is missing")


class Run(Case):
    FLAGS = ("-m", MODEL, "-n", 24, "--temp", 1.2, "--top-k", 0)

    def test_every_instruction_set_gives_the_same_answer(self):
        flags = ["-m", MODEL, "--backend", "cpu", "--raw", "-p", "the path", "-n", 6, "--temp", 0]
        answers = []
        for isa in ("generic", "avx2", "avx-vnni", "avx512"):
            done = chimere("run", *flags, "--json", "--cpu-isa", isa)
            if done.returncode == 0:
                answers.append(json.loads(done.out)["ids"])
            else:
                self.assertIn("this processor, or this build, has only: generic", done.err)
        self.assertGreater(len(answers), 0)
        self.assertEqual(answers, [answers[0]] * len(answers))
        rows = self.answer("bench", "-m", MODEL, "--backend", "cpu", "--cpu-isa", "generic", "-p", 0, "-n", 2, "-r", 1)
        self.assertEqual([row["cpu_isa"] for row in rows], ["generic"])
        self.refused(2, "run", "--cpu-isa", "sse9", says="one of auto, generic")

    def test_unpacked_experts_give_the_same_answer(self):
        flags = ["-m", MODEL, "--raw", "-p", "the path", "-n", 6, "--temp", 0, "--backend", "cpu"]
        answers = [self.answer("run", *flags, "--unpack-experts", how)["ids"] for how in ("off", "auto", "on")]
        self.assertEqual(answers, [answers[0]] * 3)

    def test_a_seed_replays_and_threads_change_nothing(self):
        flags = (*self.FLAGS, "-p", "the path of a token", "--seed", SEED)
        first = self.answer("run", *flags, "--threads", 1)
        for again in (self.answer("run", *flags, "--threads", 2), self.answer("run", *flags, "--threads", 1)):
            self.assertEqual((again["text"], again["ids"]), (first["text"], first["ids"]))
        self.assertEqual(first["seed"], SEED)
        others = [self.answer("run", *flags[:-1], SEED + i)["ids"] for i in (1, 2)]
        self.assertFalse(all(ids == first["ids"] for ids in others))

    def test_the_document_equals_the_stream(self):
        flags = (*self.FLAGS, "--seed", SEED, "--raw", "-p", "the")
        document = self.answer("run", *flags)
        streamed = chimere("run", *flags, "--verbose")
        self.assertEqual(streamed.stdout.decode(), document["text"] + "\n")
        self.assertIn("tok/s", streamed.err)
        self.assertEqual(document["tokens"], len(document["ids"]))
        self.assertLessEqual(document["tokens"], 24)
        self.assertGreater(document["prompt_tok_s"], 0)

    def test_without_a_seed_generations_differ(self):
        seeds = {self.answer("run", *self.FLAGS, "-p", "a", "-n", 1)["seed"] for _ in range(3)}
        self.assertGreater(len(seeds), 1)

    def test_standard_input_is_the_prompt(self):
        flags = (*self.FLAGS, "--seed", SEED)
        self.assertEqual(self.answer("run", *flags, stdin="the end\n")["ids"],
                         self.answer("run", *flags, "-p", "the end")["ids"])

    def test_the_template_is_applied_and_users_cannot_write_it(self):
        def count(*args):
            return self.answer("run", "-m", MODEL, "-n", 1, *args)["prompt_tokens"]

        rendered = "<|im_start|>user\nthe<|im_end|>\n<|im_start|>assistant\n"
        self.assertEqual(count("-p", "the"), count("--raw", "-p", rendered))
        self.assertGreater(count("-p", "<|im_end|>"), count("-p", "the"))
        ids = self.answer("tokenize", "-m", MODEL, "--special", rendered)["tokens"]
        self.assertEqual(count("-p", "the"), len(ids))

    def test_greedy_follows_the_logits(self):
        prompt = "the path"
        ids = self.answer("tokenize", "-m", MODEL, prompt)["tokens"]
        generated = self.answer("run", "-m", MODEL, "--raw", "--temp", 0, "-n", 3, "-p", prompt)["ids"]
        top = self.answer("eval", "logits", "-m", MODEL, "--tokens", ",".join(map(str, ids)), "--top", 1)
        self.assertEqual(generated[0], top["positions"][0]["top"][0]["id"])

    def test_every_sampler_can_be_set(self):
        flags = ("run", "-m", MODEL, "--raw", "-p", "the path", "-n", 12, "--seed", SEED)
        plain = self.answer(*flags, "--temp", 0)["ids"]
        self.assertEqual(self.answer(*flags, "--top-k", 1)["ids"], plain)
        # Each of these changes nothing at its neutral value, and something at another one.
        neutral = {"--typical": 1, "--top-nsigma": -1, "--xtc-probability": 0, "--dry-multiplier": 0,
                   "--dynatemp-range": 0, "--mirostat": 0, "--logit-bias": f"{plain[0]}+0"}
        everything = [word for pair in neutral.items() for word in pair]
        base = ("--temp", 1.5, "--top-k", 0, "--top-p", 1, "--repeat-last-n", -1)
        generated = self.answer(*flags, *base)["ids"]
        self.assertEqual(self.answer(*flags, *base, *everything)["ids"], generated)
        self.assertEqual(self.answer(*flags, "--temp", 1.5, "--samplers", "temperature")["ids"], generated)
        for change in (("--typical", 0.01), ("--top-nsigma", 0.001), ("--xtc-probability", 1, "--xtc-threshold", 1e-6),
                       ("--mirostat", 2, "--mirostat-ent", 0, "--mirostat-lr", 10), ("--logit-bias", f"{generated[0]}-inf"),
                       ("--dynatemp-range", 100), ("--samplers", "top_k")):
            others = [self.answer(*flags[:-1], SEED + i, *base, *change)["ids"] for i in range(3)]
            self.assertNotEqual(others, [self.answer(*flags[:-1], SEED + i, *base)["ids"] for i in range(3)], change)
        banned = self.answer(*flags, "--temp", 0, "--logit-bias", f"{plain[0]}-inf")["ids"]
        self.assertNotEqual(banned[0], plain[0])
        forced = self.answer(*flags, "--temp", 0, "--logit-bias", "70+1000")["ids"]
        self.assertEqual(forced, [70] * 12)

    def test_dry_breaks_a_loop(self):
        flags = ("run", "-m", MODEL, "--raw", "-p", "abcabcabcabcab", "-n", 1, "--temp", 0)
        ids = self.answer("tokenize", "-m", MODEL, "abc")["tokens"]
        forced = (*flags, "--logit-bias", f"{ids[2]}+20")
        self.assertEqual(self.answer(*forced)["ids"], [ids[2]])
        self.assertNotEqual(self.answer(*forced, "--dry-multiplier", 5)["ids"], [ids[2]])
        self.assertEqual(self.answer(*forced, "--dry-multiplier", 5, "--dry-sequence-breakers", '["b"]')["ids"], [ids[2]])

    def test_stop_strings_never_show(self):
        for seed in range(SEED, SEED + 50):
            flags = ("run", *self.FLAGS, "--seed", seed, "--raw", "-p", "x")
            whole = self.answer(*flags)["text"]
            stops = [c for c in whole[1:] if c.isascii() and c.isprintable()]
            if stops:
                break
        cut = self.answer(*flags, "--stop", stops[-1])
        self.assertEqual(cut["text"], whole[:whole.index(stops[-1])])
        self.assertEqual(cut["finish"], "stop")

    def test_the_context_ends_a_generation(self):
        for seed in range(20):
            result = self.answer("run", "-m", MODEL, "--raw", "-p", "xy", "--ctx", 10, "--seed", seed)
            if result["finish"] != "stop":
                break
        self.assertEqual((result["finish"], result["tokens"]), ("context", 8))


class Eval(Case):
    def logits(self, ids, *args):
        return self.answer("eval", "logits", "-m", MODEL, "--tokens", ",".join(map(str, ids)), *args)["positions"]

    def test_logits_are_distributions_and_the_last_is_the_default(self):
        draw = random.Random(SEED)
        ids = [draw.randrange(VOCABULARY) for _ in range(100)]
        everywhere = self.logits(ids, "--all", "--top", VOCABULARY)
        self.assertEqual([p["pos"] for p in everywhere], list(range(100)))
        for position in everywhere:
            top = position["top"]
            self.assertEqual(len({t["id"] for t in top}), VOCABULARY)
            self.assertAlmostEqual(sum(math.exp(t["logprob"]) for t in top), 1, places=4)
            values = [t["logprob"] for t in top]
            self.assertEqual(values, sorted(values, reverse=True))
        self.assertEqual(self.logits(ids, "--top", 5), [{"pos": 99, "top": everywhere[-1]["top"][:5]}])
        # The row class only changes rounding.
        for mine, other in zip(everywhere, self.logits(ids, "--all", "--top", VOCABULARY, "--class", "decode",
                                                       "--cache-k", "f32", "--cache-v", "f32")):
            theirs = {t["id"]: t["logprob"] for t in other["top"]}
            for t in mine["top"]:
                self.assertAlmostEqual(t["logprob"], theirs[t["id"]], delta=0.02)

    def test_perplexity_is_that_of_the_logits(self):
        text = "the path of the third moth\n" * 3
        path = HOME / "text.txt"
        path.write_text(text)
        result = self.answer("eval", "perplexity", "-m", MODEL, "-f", path)
        ids = self.answer("tokenize", "-m", MODEL, stdin=text)["tokens"]
        nats = 0
        for position, target in zip(self.logits(ids, "--all", "--top", VOCABULARY), ids[1:]):
            nats -= {t["id"]: t["logprob"] for t in position["top"]}[target]
        self.assertEqual(result["tokens"], len(ids) - 1)
        self.assertAlmostEqual(result["perplexity"], math.exp(nats / (len(ids) - 1)), delta=1e-3 * result["perplexity"])
        self.assertAlmostEqual(result["bits_per_byte"], nats / math.log(2) / (len(text) - 1), delta=0.2)
        windows = self.answer("eval", "perplexity", "-m", MODEL, "-f", path, "--ctx", 16)
        self.assertEqual(windows["tokens"], len(ids) - 1)

    def test_divergence_is_that_of_the_logits(self):
        path = HOME / "divergence.txt"
        path.write_text("the path of the third moth\n" * 4)
        ids = self.answer("tokenize", "-m", MODEL, stdin=path.read_text())["tokens"]
        result = self.answer("eval", "divergence", "-m", MODEL, "--base", OTHER, "-f", path)
        mine = self.logits(ids, "--all", "--top", VOCABULARY)
        bases = self.answer("eval", "logits", "-m", OTHER, "--tokens", ",".join(map(str, ids)), "--all", "--top",
                            VOCABULARY)["positions"]
        kls, same, nats = [], 0, 0
        for position, base, target in zip(mine[:-1], bases[:-1], ids[1:]):
            q = {t["id"]: t["logprob"] for t in position["top"]}
            kls.append(sum(math.exp(t["logprob"]) * (t["logprob"] - q[t["id"]]) for t in base["top"]))
            same += position["top"][0]["id"] == base["top"][0]["id"]
            nats -= q[target]
        n = len(ids) - 1
        self.assertEqual(result["tokens"], n)
        self.assertAlmostEqual(result["kld"], sum(kls) / n, delta=1e-3 * result["kld"])
        self.assertAlmostEqual(result["max"], max(kls), delta=1e-3 * result["max"])
        for name, part in (("median", 0.5), ("p99", 0.99), ("p999", 0.999)):
            self.assertAlmostEqual(result[name], sorted(kls)[math.ceil(part * n) - 1], delta=1e-3 * result["max"])
        self.assertAlmostEqual(result["top1"], same / n)
        self.assertAlmostEqual(result["perplexity"], math.exp(nats / n), delta=1e-3 * result["perplexity"])
        self.assertGreater(result["kld"], 0)
        windows = self.answer("eval", "divergence", "-m", MODEL, "--base", OTHER, "-f", path, "--ctx", 16)
        self.assertEqual(windows["tokens"], n)

    def test_generations_may_use_fewer_experts(self):
        path = HOME / "experts.txt"
        path.write_text("the path of the fourth moth\n" * 4)
        measured = ("eval", "perplexity", "-m", MODEL, "-f", path)
        whole, most = self.answer(*measured), self.answer(*measured, "--expert-top-p", "0.999999")
        few = self.answer(*measured, "--expert-top-p", "0.5")  # of two experts the first has a half
        self.assertNotIn("experts_per_token", whole)
        self.assertEqual((most["experts_per_token"], few["experts_per_token"]), (2, 1))
        self.assertAlmostEqual(whole["perplexity"], most["perplexity"], delta=1e-3 * whole["perplexity"])
        self.assertGreater(abs(few["perplexity"] - whole["perplexity"]), 1e-9)
        prompt, generated = self.answer("bench", "-m", MODEL, "-p", 16, "-n", 4, "-r", 1, "--expert-top-p", "0.5")
        self.assertNotIn("experts_per_token", prompt)
        self.assertEqual(generated["experts_per_token"], 1)
        self.assertIn("1.000 experts a token", chimere("bench", "-m", MODEL, "-p", 0, "-n", 4, "-r", 1, "--expert-top-p", "0.5").out)

    def test_the_base_may_be_the_same_file_run_differently(self):
        path = HOME / "same.txt"
        path.write_text("the path of the third moth\n" * 4)
        alike = self.answer("eval", "divergence", "-m", MODEL, "--base", MODEL, "-f", path)
        self.assertLess(alike["kld"], 1e-12)
        self.assertEqual((alike["top1"], alike["perplexity"]), (1, alike["base_perplexity"]))
        wide = self.answer("eval", "divergence", "-m", MODEL, "--base-cache-k", "f32", "--base-cache-v", "f32", "-f", path)
        self.assertGreater(wide["kld"], 1e-12)
        self.assertLess(wide["kld"], 1e-2)
        fewer = self.answer("eval", "divergence", "-m", MODEL, "--base-expert-top-p", "0.5", "-f", path)
        self.assertGreater(fewer["kld"], 1e-9)
        self.refused(1, "eval", "divergence", "-m", MODEL, "-f", path, says="nothing to compare")
        self.refused(1, "eval", "divergence", "-m", MODEL, "--base", "/no/such.gguf", "-f", path, says="/no/such.gguf")
        self.refused(2, "eval", "divergence", "-m", MODEL, "--base-cache-k", "q1", "-f", path, says="one of")
        self.refused(1, "eval", "divergence", "-m", MODEL, "--base", SMALLER, "-f", path, says="vocabular")


class Bench(Case):
    def test_every_test_has_its_row(self):
        rows = self.answer("bench", "-m", MODEL, "-p", "16,70", "-n", 4, "-b", "1,3", "-r", 1)
        self.assertEqual([(r["test"], r["batch"]) for r in rows], [("pp16", 1), ("pp70", 1), ("tg4", 1), ("tg4", 3)])
        for row in rows:
            self.assertGreater(row["tok_s"], 0)
            self.assertGreater(row["gb_s"], 0)
            self.assertAlmostEqual(row["gb_s"], row["bytes"] / row["seconds"] * 1e-9)
            self.assertAlmostEqual(row["of_copy"], row["gb_s"] / row["copy_gb_s"])
            self.assertAlmostEqual(row["of_read"], row["gb_s"] / row["read_gb_s"])

    def test_the_context_holds_the_tests_and_no_more(self):
        def capacity(*flags):
            row = self.answer("bench", "-m", MODEL, "-r", 1, *flags)[0]
            return row["context"], row["kv_tokens"]

        self.assertEqual(capacity("-p", 130, "-n", 0), (130, 192))
        self.assertEqual(capacity("-p", 130, "-n", 30, "-b", "1,3"), (130, 192))  # three generations take a page each
        self.assertEqual(capacity("-p", 0, "-n", 4, "-b", "2,3", "--rows", "1,8", "--depth", 40), (72, 3 * 128))
        self.assertEqual(capacity("-p", 3, "-n", 64, "-b", 5), (64, 5 * 64))
        self.assertEqual(capacity("-p", 3, "-n", 2, "-b", 5, "--ctx", 100), (100, 5 * 128))
        self.assertIn("130 tokens for each sequence, 192 for all", chimere("bench", "-m", MODEL, "-r", 1, "-p", 130, "-n", 0).out)

    def test_bench_simulates_drafts(self):
        rows = self.answer("bench", "-m", MODEL, "-p", 0, "-n", 6, "-b", 2, "-r", 1, "--accept", "0,1")
        self.assertEqual([r["test"] for r in rows], ["tg6", "tg6d0", "tg6d1"])
        never, always = rows[1:]
        self.assertEqual((never["acceptance"], never["tokens_per_step"]), (0, 1))
        self.assertEqual(always["tokens_per_step"], 1 + always["drafts_per_step"])
        self.assertGreater(always["speedup"], 0)

    def test_generations_that_sample_their_tokens(self):
        rows = self.answer("bench", "-m", MODEL, "-p", 0, "-n", 4, "-b", "1,3", "--rows", "1,2", "-r", 1, "--sample")
        self.assertEqual([(r["test"], r["batch"]) for r in rows], [("tgd4", 1), ("tgd4x2", 1), ("tgd4", 3), ("tgd4x2", 3)])


class Chat(Case):
    FLAGS = ("-m", MODEL, "-n", 6, "--temp", 1, "--seed", 5)

    def test_turns_continue_the_conversation(self):
        turns = self.answer("chat", *self.FLAGS, stdin="the path\n/help\n\nthe moth\n/nonsense\n")["turns"]
        self.assertEqual(len(turns), 2)
        self.assertEqual(turns[0]["reused_tokens"], 0)
        self.assertGreater(turns[1]["reused_tokens"], 0)
        self.assertGreater(turns[1]["prompt_tokens"], turns[0]["prompt_tokens"])
        # The first turn is what `run` says; a reused state changes nothing.
        alone = self.answer("run", *self.FLAGS, "-p", "the path")
        self.assertEqual(turns[0]["text"], alone["text"])
        if "\ufffd" not in turns[0]["text"]:
            conversation = (f"<|im_start|>user\nthe path<|im_end|>\n<|im_start|>assistant\n{turns[0]['text']}<|im_end|>\n"
                            "<|im_start|>user\nthe moth<|im_end|>\n<|im_start|>assistant\n")
            whole = self.answer("run", *self.FLAGS, "--raw", "-p", conversation)
            self.assertEqual((whole["text"], whole["prompt_tokens"]), (turns[1]["text"], turns[1]["prompt_tokens"]))

    def test_clear_forgets(self):
        turns = self.answer("chat", *self.FLAGS, stdin="the path\n/clear\nthe path\n/exit\nnot read\n")["turns"]
        self.assertEqual(len(turns), 2)
        self.assertEqual(turns[0], turns[1])

    def test_a_message_that_does_not_fit_does_not_end_the_chat(self):
        done = chimere("chat", *self.FLAGS, "--ctx", 64, "--json", stdin="x" * 100 + "\nthe\n")
        self.assertEqual(done.returncode, 0)
        self.assertIn("context holds 64", done.err)
        self.assertEqual(len(json.loads(done.out)["turns"]), 1)

    def test_it_opens_on_a_terminal(self):
        for words in ([], ["run"]):
            pid, terminal = pty.fork()
            if pid == 0:
                os.execve(CHIMERE, [str(CHIMERE), *words], environment(CHIMERE_MODEL=str(MODEL), CHIMERE_MAX_TOKENS="2"))
            seen = b""
            while b"/help lists commands" not in seen:
                seen += os.read(terminal, 4096)
            os.write(terminal, b"/exit\n")
            try:
                while os.read(terminal, 4096):
                    pass
            except OSError:  # the other side is closed
                pass
            self.assertEqual(os.waitpid(pid, 0)[1], 0, seen)
            os.close(terminal)


class Refusals(Case):
    def test_wrong_usage_ends_with_2_and_a_sentence(self):
        wrong = [("frobnicate",), ("run", "--frobnicate"), ("run", "--speculate", "guesses"), ("run", "--temp", "hot"),
                 ("run", "--top-p", 2), ("run", "--expert-top-p", 0), ("run", "--backend", "vulkan"), ("run", "--cache-k", "q4_K"),
                 ("eval",), ("eval", "logits"), ("eval", "logits", "--tokens", "1,x"), ("eval", "logits", "--tokens", "-1"),
                 ("eval", "logits", "--tokens", "1", "--class", "other"), ("bench", "-b", "0"), ("bench", "--accept", "0.5,2"), ("bench", "-p", "1,,2"),
                 ("detokenize", "a"), ("detokenize",), ("tokenize", "--threads", 2, "x"), ("eval", "perplexity")]
        for args in wrong:
            self.refused(2, *args)
        self.refused(2, "run", "--backend", "vulkan", says="one of auto, cpu, cuda")
        self.refused(2, "run", "--samplers", "top_k;heat", says="top_n_sigma")
        self.refused(2, "run", "--mirostat", 1, says="one of 0, 2")
        done = chimere()
        self.assertEqual(done.returncode, 2)
        self.assertIn("Questions and answers:", done.err)

    def test_errors_end_with_1_and_a_sentence(self):
        broken = HOME / "broken.gguf"
        broken.write_bytes(MODEL.read_bytes()[:1000])
        foreign = HOME / "foreign.gguf"
        foreign.write_bytes(MODEL.read_bytes().replace(b"qwen35moe", b"qwen35xyz"))
        self.refused(1, "run", "-m", "/no/such/model.gguf", "-p", "x", says="/no/such/model.gguf")
        self.refused(1, "run", "-m", "nobody", "-p", "x", says="nobody")
        self.refused(1, "inspect", broken)
        self.refused(1, "run", "-m", foreign, "-p", "x",
                     says="'qwen35xyz' cannot be run; supported: qwen35, qwen35moe, qwen3next")
        self.refused(1, "run", "-m", HOME, "-p", "x")
        self.refused(1, "run", "-m", MODEL, "--raw", "-p", "", says="empty")
        self.refused(1, "run", "-m", MODEL, "-p", "x", "--ctx", 5000, says="4096")
        self.refused(1, "run", "-m", MODEL, "-p", "x" * 5000, says="context")
        self.refused(1, "eval", "perplexity", "-m", MODEL, "-f", "/no/such/text", says="/no/such/text")
        self.refused(1, "eval", "logits", "-m", MODEL, "--tokens", VOCABULARY)
        self.refused(1, "run", "-m", MODEL, "-p", "x", "--logit-bias", "7", says="1504+1.5")
        self.refused(1, "run", "-m", MODEL, "-p", "x", "--logit-bias", "7+inf", says="-inf")
        self.refused(1, "run", "-m", MODEL, "-p", "x", "--logit-bias", f"{VOCABULARY}+1", says="does not exist")
        self.refused(1, "run", "-m", MODEL, "-p", "x", "--dry-sequence-breakers", "x", says="JSON list")
        self.refused(1, "detokenize", "-m", MODEL, VOCABULARY, says="does not exist")
        self.assertIn("qwen35xyz", self.answer("inspect", foreign)["cannot_run"])

    def test_a_context_that_memory_cannot_hold(self):
        key = b"qwen35moe.context_length" + (4).to_bytes(4, "little")  # an unsigned number of 32 bits
        trained = MODEL.read_bytes()
        self.assertIn(key, trained)
        at = trained.index(key) + len(key)
        longest, batch = 1 << 24, 100
        huge = HOME / "huge.gguf"
        huge.write_bytes(trained[:at] + longest.to_bytes(4, "little") + trained[at + 4:])
        types = ("--cache-k", "f32", "--cache-v", "f32")
        costs = self.answer("inspect", huge, *types)["costs"]
        if batch * longest * costs["kv_bytes_per_token"] < 1.1 * costs["memory_available"]:
            self.skipTest("this machine holds any context")
        self.refused(1, "bench", "-m", huge, "-p", 4, "-n", 1, "-b", batch, "--ctx", longest, *types, says="ask for at most ")

    def test_help_is_no_error(self):
        for words in ([], ["run"], ["chat"], ["bench"], ["eval"], ["eval", "logits"], ["tokenize"], ["inspect"]):
            done = chimere(*words, "--help")
            self.assertEqual((done.returncode, done.err), (0, ""))
            self.assertIn("chimere", done.out)
        self.assertIn("CHIMERE_TOP_K", chimere("run", "--help").out)


class Papers(Case):
    """Completions and the manual page."""

    def commands(self):
        return set(re.findall(r"^  ([a-z]+)  ", chimere("--help").out, re.M))

    def completions(self, *words):
        script = chimere("completion", "bash").out
        quoted = " ".join(map(shlex.quote, words))
        script += f"\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _chimere; printf '%s\\n' \"${{COMPREPLY[@]}}\"\n"
        path = f"{CHIMERE.parent}:{os.environ['PATH']}"
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, env=environment(PATH=path))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_bash_completes(self):
        self.assertEqual(set(self.completions("chimere", "")) & self.commands(), self.commands())
        self.assertEqual(self.completions("chimere", "tok"), ["tokenize"])
        self.assertEqual(self.completions("chimere", "run", "--xtc-p"), ["--xtc-probability"])
        self.assertEqual(self.completions("chimere", "run", "-n", "5", "--mirostat", ""), ["0", "2"])
        self.assertEqual(self.completions("chimere", "eval", "div"), ["divergence"])
        self.assertIn("--base-cache-k", self.completions("chimere", "eval", "divergence", "--base"))
        self.assertIn("f16", self.completions("chimere", "eval", "divergence", "--base-cache-k", ""))
        folder = HOME / ".local" / "share" / "chimere" / "models"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "completed.gguf").symlink_to(MODEL)
        self.assertEqual(self.completions("chimere", "rm", "compl"), ["completed"])
        self.assertEqual(self.completions("chimere", "run", "-m", "compl"), ["completed"])
        (folder / "completed.gguf").unlink()

    def test_shells_read_their_scripts(self):
        for shell in ("bash", "zsh", "fish"):
            script = HOME / f"completion.{shell}"
            script.write_text(chimere("completion", shell).out)
            for command in self.commands():
                self.assertIn(command, script.read_text())
            if shutil.which(shell):
                done = subprocess.run([shell, "-n", script], capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_the_manual_has_every_command_and_setting(self):
        page = chimere("man").out
        shown = page.replace("\\-", "-")
        for word in [*self.commands(), "CHIMERE_TOP_K", "HF_TOKEN", "--base-cache-v"]:
            self.assertIn(word, shown)
        flags = set(re.findall(r"--[a-z-]+", chimere("run", "--help").out)) - {"--help"}
        for flag in flags:
            self.assertIn(flag, shown)
        path = HOME / "chimere.1"
        path.write_text(page)
        if shutil.which("mandoc"):
            lint = subprocess.run(["mandoc", "-Tlint", "-W", "warning", path], capture_output=True, text=True, check=False)
            self.assertEqual([line for line in lint.stdout.splitlines() if "missing date" not in line], [])


class Sources(Case):
    """Flags, variables and the config file."""

    def seed(self, *args, env=None):
        return self.answer("run", "-m", MODEL, "-p", "x", "-n", 1, *args, env=env)["seed"]

    def test_flags_win_over_variables_over_the_file(self):
        config = HOME / ".config" / "chimere" / "config"
        config.parent.mkdir(parents=True)
        try:
            config.write_text("# mine\nseed = 11\n")
            self.assertEqual(self.seed(), 11)
            self.assertEqual(self.seed(env=environment(CHIMERE_SEED="12")), 12)
            self.assertEqual(self.seed("--seed", 13, env=environment(CHIMERE_SEED="12")), 13)
            config.write_text("seed = 11\nsede = 12\n")
            self.refused(2, "run", "-m", MODEL, "-p", "x", says=":2: there is no setting 'sede'")
        finally:
            config.unlink()
            config.parent.rmdir()
        self.refused(2, "run", "-m", MODEL, "-p", "x", env=environment(CHIMERE_SEDE="1"), says="CHIMERE_SEDE")
        self.refused(2, "run", "-m", MODEL, "-p", "x", env=environment(CHIMERE_TOP_P="7"), says="CHIMERE_TOP_P")

    def test_models_are_found_by_name(self):
        folder = HOME / ".local" / "share" / "chimere" / "models"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "mine.gguf").symlink_to(MODEL)
        for name in ("mine", "mine.gguf"):
            self.assertEqual(self.answer("inspect", name)["file_bytes"], MODEL.stat().st_size)


@unittest.skipUnless(SHIPPED.exists(), "the shipped model is not there")
class Shipped(Case):
    def test_the_shipped_model_answers_by_default(self):
        done = chimere("run", "-p", "What does the command ls do?", "-n", 40, "--temp", 0)
        self.assertEqual(done.returncode, 0, done.err)
        self.assertIn("shipped model", done.err)
        self.assertGreaterEqual(len(done.out.split()), 3, done.out)
        # Words, not random characters.
        letters = sum(c.isascii() and (c.isalpha() or c.isspace()) for c in done.out)
        self.assertGreater(letters, 0.7 * len(done.out), done.out)

    def test_threads_and_seeds(self):
        flags = ("run", "-p", "Tell me about grep.", "-n", 20, "--seed", SEED)
        self.assertEqual(self.answer(*flags, "--threads", 1)["ids"], self.answer(*flags, "--threads", 2)["ids"])


if __name__ == "__main__":
    for words in ([MODEL, VOCABULARY], [OTHER, VOCABULARY, 36], [SMALLER, VOCABULARY - 20]):
        subprocess.run([WRITER, *map(str, words)], check=True)
    print(f"seed {SEED}")
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
