#!/usr/bin/env python3
"""Block drafters (--draft-model) change no text, and say what does not fit; `chimere hidden-states` writes what they are trained on.

  drafter_test.py CHIMERE WRITE_TINY_MODEL MODELS [unittest arguments]
"""
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

CHIMERE, WRITER, MODELS = (pathlib.Path(arg).absolute() for arg in sys.argv[1:4])
FOLDER = tempfile.TemporaryDirectory()
HOME = pathlib.Path(FOLDER.name)
MODEL, WIDE, DRAFTER = HOME / "tiny.gguf", HOME / "wide.gguf", HOME / "drafter.gguf"
N_EMBD = 32


def chimere(*args, **variables):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("CHIMERE_")} | {"HOME": str(HOME)} | variables
    return subprocess.run([CHIMERE, *map(str, args)], capture_output=True, text=True, check=False, env=kept, timeout=150, cwd=HOME)


class Drafters(unittest.TestCase):
    def run_model(self, *flags):
        done = chimere("run", "-m", MODEL, "-p", "abcabc", "-n", 40, "--seed", 3, "--json", "-q", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout), done.stderr

    def test_the_text_is_that_without_drafts(self):
        for temperature in (0, 1):
            plain, _ = self.run_model("--temp", temperature, "--speculate", "off")
            for mode in ("dflash", "auto"):
                drafted, warnings = self.run_model("--temp", temperature, "--speculate", mode, "--draft-model", DRAFTER)
                self.assertEqual(drafted["ids"], plain["ids"])
                self.assertEqual(warnings, "")
                counts = {name: drafted[name] for name in ("drafted", "accepted")}
                if mode == "dflash":
                    self.assertGreater(drafted["drafted"], 0)
                    self.assertEqual(drafted["drafts"], {"dflash": counts})
                for name, total in counts.items():
                    self.assertEqual(sum(source[name] for source in drafted["drafts"].values()), total)
            self.assertEqual((plain["drafted"], plain["drafts"]), (0, {}))

    def test_the_shipped_drafter_is_mostly_right(self):
        text = (MODELS / "evaluation" / "heldout.docs").read_text(errors="replace")[:900]
        texts = []
        for mode in ("off", "dflash"):
            done = chimere("run", "-m", MODELS / "chimere-mini.gguf", "--draft-model", MODELS / "chimere-mini-dflash.gguf", "--raw", "--temp", 0,
                           "-p", text, "-n", 96, "-q", "--json", "--speculate", mode)
            self.assertEqual(done.returncode, 0, done.stderr)
            texts.append(json.loads(done.stdout))
        self.assertEqual(texts[0]["ids"], texts[1]["ids"])
        # Measured times decide how many drafts a step has. Of whole blocks about a quarter are right, of a random drafter's none.
        self.assertGreater(texts[1]["drafted"], 10)
        self.assertGreater(texts[1]["accepted"], texts[1]["drafted"] / 10)

    def test_the_start_names_the_drafter(self):
        run = ("run", "-m", MODEL, "-p", "abc", "-n", 4, "--backend", "cpu")
        facts = r"drafter: .*B, blocks of \d+ tokens, on the CPU"
        done = chimere(*run, "--draft-model", DRAFTER, "--speculate", "dflash")
        self.assertRegex(done.stderr, f"(?m)^Drafting with {facts}$")
        # On its own the program may never use it.
        done = chimere(*run, "--draft-model", DRAFTER)
        self.assertRegex(done.stderr, f"(?m)^Drafter {facts}; --speculate auto uses it where that is faster$")
        plain = chimere(*run)
        self.assertNotIn("Draft", plain.stderr)

    def test_the_statistics_say_where_drafts_came_from(self):
        run = ("run", "-m", MODEL, "-p", "abcabc", "-n", 40, "--seed", 3, "--verbose")
        done = chimere(*run, "--speculate", "dflash", "--draft-model", DRAFTER)
        self.assertRegex(done.stderr, r" tok/s, dflash \d+ of \d+ drafts accepted\); ")
        self.assertNotIn("drafts", chimere(*run, "--speculate", "off").stderr)

    def test_other_names_of_the_flag(self):
        drafted, _ = self.run_model("--speculate", "dflash", "-md", DRAFTER)
        self.assertGreater(drafted["drafted"], 0)
        helped = " ".join(chimere("run", "--help").stdout.split())
        for words in ("a name in the model folder", "-md and --model-draft are the same flag"):
            self.assertIn(words, helped)

    def test_none_is_no_drafter_and_an_empty_name_is_refused(self):
        plain, _ = self.run_model("--draft-model", "none")
        self.assertEqual(plain["ids"], self.run_model("--speculate", "off")[0]["ids"])
        run = ("run", "-m", MODEL, "-p", "a", "-n", 4)
        undone = chimere(*run, "--draft-model", "none", CHIMERE_DRAFT_MODEL="nowhere.gguf")
        self.assertEqual(undone.returncode, 0, undone.stderr)
        self.assertNotIn("Drafting", undone.stderr)
        for flags in (("--draft-model", ""), ("--draft-model=",), ("-md", "")):
            refused = chimere(*run, *flags)
            self.assertEqual(refused.returncode, 2, refused.stderr)
            self.assertIn("none for no drafter", refused.stderr)

    def test_a_name_that_is_also_shipped_is_named_once(self):
        folder = HOME / "copies"
        folder.mkdir()
        shutil.copy(MODELS / "chimere-mini-dflash.gguf", folder)
        refused = chimere("run", "--models", folder, "-m", MODELS / "chimere-mini.gguf", "-p", "a", "-n", 4, "--speculate", "dflash")
        self.assertRegex(refused.stderr, r"these have its shape: chimere-mini-dflash\.$")

    def test_drafters_of_the_model_folder_are_named(self):
        folder = HOME / "models"
        folder.mkdir()
        for path in (MODEL, DRAFTER, HOME / "for-wide.gguf"):
            shutil.copy(path, folder)
        run = ("run", "--models", folder, "-m", "tiny", "-p", "a", "-n", 4)
        refused = chimere(*run, "--speculate", "dflash")
        self.assertEqual(refused.returncode, 1)
        self.assertRegex(refused.stderr, r"these have its shape: drafter\.$")
        misspelled = chimere(*run, "--draft-model", "draftr")
        self.assertEqual(misspelled.returncode, 1)
        self.assertIn("did you mean drafter?", misspelled.stderr)
        self.assertEqual(chimere(*run, "--draft-model", "drafter").returncode, 0)
        rows = json.loads(chimere("list", "--models", folder, "--json").stdout)
        self.assertEqual({row["name"]: row["kind"] for row in rows}, {"drafter": "drafter", "for-wide": "drafter", "tiny": "text"})

    def test_inspect_says_how_a_drafter_is_used(self):
        text = chimere("inspect", DRAFTER).stdout
        self.assertIn(f"chimere run -m MODEL --draft-model {DRAFTER} uses it", text)
        self.assertIn(f"embedding length {N_EMBD}", text)
        document = json.loads(chimere("inspect", DRAFTER, "--json").stdout)
        self.assertEqual((document["kind"], document["drafter"]), ("drafter", {"embedding_length": N_EMBD}))

    def test_commands_that_do_not_draft_have_no_drafter(self):
        helped = {name: chimere(name, "--help").stdout for name in ("run", "chat", "bench", "eval", "inspect", "embed", "hidden-states")}
        self.assertEqual([name for name, text in helped.items() if "--draft-model" in text], ["run", "chat"])
        bench = ("bench", "-m", MODEL, "-p", 8, "-n", 8)
        refused = chimere(*bench, "--draft-model", DRAFTER)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("`chimere bench` has no flag --draft-model", refused.stderr)
        configured = chimere(*bench, CHIMERE_DRAFT_MODEL="nowhere.gguf")
        self.assertEqual(configured.returncode, 0, configured.stderr)

    def test_what_does_not_fit_is_said(self):
        refused = chimere("run", "-m", MODEL, "-p", "a", "--speculate", "dflash")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("--draft-model FILE", refused.stderr)
        alone = chimere("run", "-m", DRAFTER, "-p", "a")
        self.assertEqual(alone.returncode, 1)
        self.assertIn(f"use it with -m MODEL --draft-model {DRAFTER}", alone.stderr)
        for other, why in ((WIDE, "a model of its own"), (HOME / "for-wide.gguf", "embedding length 64; this model has 32")):
            _, warning = self.run_model("--draft-model", other)
            self.assertIn("The drafter is left out", warning)
            self.assertIn(why, warning)
            refused = chimere("run", "-m", MODEL, "-p", "a", "--draft-model", other, "--speculate", "dflash")
            self.assertEqual(refused.returncode, 1)
            self.assertIn(why, refused.stderr)
        missing = chimere("run", "-m", MODEL, "-p", "a", "--draft-model", "nowhere.gguf")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("--draft-model: 'nowhere.gguf'", missing.stderr)
        _, warning = self.run_model("--draft-model", DRAFTER, "--speculate", "mtp")
        self.assertIn("--draft-model changes nothing with --speculate mtp", warning)


def read_shard(path):
    """Tensors of a GGUF file: name -> (dims, bytes)."""
    data = path.read_bytes()
    at = 8
    n_tensors, n_keys = struct.unpack_from("<QQ", data, at)
    at += 16

    def text():
        nonlocal at
        (n,) = struct.unpack_from("<Q", data, at)
        at += 8 + n
        return data[at - n:at].decode()

    def value(kind):
        nonlocal at
        if kind == 8:
            return text()
        if kind == 9:
            of, n = struct.unpack_from("<IQ", data, at)
            at += 12
            return [value(of) for _ in range(n)]
        form = {4: "<I", 5: "<i"}[kind]
        at += 4
        return struct.unpack_from(form, data, at - 4)[0]

    keys = {}
    for _ in range(n_keys):
        name = text()
        at += 4
        keys[name] = value(struct.unpack_from("<I", data, at - 4)[0])
    infos = []
    for _ in range(n_tensors):
        name = text()
        (n,) = struct.unpack_from("<I", data, at)
        dims = struct.unpack_from(f"<{n}Q", data, at + 4)
        kind, offset = struct.unpack_from("<IQ", data, at + 4 + 8 * n)
        at += 16 + 8 * n
        infos.append((name, dims, {26: 4, 1: 2}[kind], offset))
    begin = (at + 31) // 32 * 32
    tensors = {}
    for name, dims, size, offset in infos:
        count = 1
        for d in dims:
            count *= d
        tensors[name] = (dims, data[begin + offset:begin + offset + count * size])
    return keys, tensors


class HiddenStates(unittest.TestCase):
    def setUp(self):
        self.out = HOME / self.id().rsplit(".", 1)[1]
        self.texts = HOME / "texts.jsonl"
        prompts = [{"prompt": "a few words of text to go on with"}, {"prompt": "x" * 40}, {"prompt": "lists, and then"},
                   {"prompt": "to be or not to be, that"}, {"prompt": "the last of the prompts"}]
        self.texts.write_text("\n".join(map(json.dumps, prompts)) + "\n")

    def write(self, *flags, layers=("--layers", "0,2")):
        return chimere("hidden-states", MODEL, "-f", self.texts, "-o", self.out, *layers, "-n", 12, "--prompt-tokens", 16,
                       "--shard", 2, "--set", "words", *flags)

    def sums(self):
        return [hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(self.out.glob("*.gguf"))]

    def test_shards_have_prompts_generations_and_rows(self):
        done = self.write("--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        manifest = json.loads((self.out / "hidden-states.json").read_text())
        self.assertEqual([s["texts"] for s in manifest["shards"]], [2, 2, 1])
        self.assertEqual([s["sha256"] for s in manifest["shards"]], self.sums())
        self.assertEqual(json.loads(done.stdout)["tokens"], sum(s["tokens"] for s in manifest["shards"]))
        keys, tensors = read_shard(self.out / "00000.gguf")
        self.assertEqual(keys["hidden_states.layers"], [0, 2])
        self.assertEqual(keys["hidden_states.set"], "words")
        n = tensors["tokens"][0][0]
        starts = struct.unpack("<2i", tensors["starts"][1])
        self.assertEqual(struct.unpack("<2i", tensors["prompts"][1]), (16, 16))
        self.assertEqual(tensors["rows"][0], (2 * N_EMBD, n))
        rows = tensors["rows"][1]
        width = 4 * N_EMBD  # bytes
        last = (starts[1] - 1, n - 1)
        for r in range(n):
            row = rows[r * width:(r + 1) * width]
            self.assertEqual(not any(row), r in last, r)

    def test_without_layers_the_tokens_alone_are_written(self):
        self.assertEqual(self.write().returncode, 0)
        _, with_rows = read_shard(self.out / "00000.gguf")
        self.out = HOME / "tokens"
        self.assertEqual(self.write(layers=()).returncode, 0)
        keys, tensors = read_shard(self.out / "00000.gguf")
        self.assertNotIn("hidden_states.layers", keys)
        self.assertEqual(sorted(tensors), ["prompts", "starts", "tokens"])
        self.assertEqual(tensors["tokens"], with_rows["tokens"])

    def test_an_interrupted_run_continues(self):
        self.assertEqual(self.write().returncode, 0)
        whole = self.sums()
        path = self.out / "hidden-states.json"
        manifest = json.loads(path.read_text())
        manifest["shards"].pop()
        path.write_text(json.dumps(manifest))
        (self.out / "00002.gguf").write_bytes(b"half of a shard")
        done = self.write()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Continuing after 4 texts", done.stderr)
        self.assertEqual(self.sums(), whole)
        self.out = HOME / "one-at-a-time"
        self.assertEqual(self.write("--parallel", 1).returncode, 0)
        self.assertEqual(self.sums(), whole)

    def test_other_settings_and_changed_shards_are_refused(self):
        self.assertEqual(self.write().returncode, 0)
        for flags, says in ((("--temp", "0.3"), "--temp is 0.7 there and 0.3 here"),
                            (("--repeat-penalty", "1.3"), "--repeat-penalty is 1 there and 1.3 here"),
                            (("--cache-k", "f32"), "--cache-k is f16 there and f32 here"),
                            (("--rope-freq-base", "500"), "--rope-freq-base is 0 there and 500.0 here")):
            other = self.write(*flags)
            self.assertEqual(other.returncode, 1, flags)
            self.assertIn(f"made otherwise: {says}. Ask for the same, or name another folder.", other.stderr)
        other = self.write("--seed", 5, layers=("--layers", "1"))
        self.assertIn("--layers is [0,2] there and [1] here", other.stderr)
        self.assertIn("the first seed is 1 there and 5 here", other.stderr)
        texts = self.texts.read_text()
        self.texts.write_text(texts + json.dumps({"prompt": "one more of them"}) + "\n")
        self.assertIn("made otherwise: the texts of --file differ.", self.write().stderr)
        self.texts.write_text(texts)
        shard = self.out / "00001.gguf"
        shard.write_bytes(shard.read_bytes()[:-1] + b"\1")
        changed = self.write()
        self.assertEqual(changed.returncode, 1)
        self.assertIn("00001.gguf has changed", changed.stderr)

    def test_two_runs_do_not_share_a_folder(self):
        done = self.write()
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"5 of 5 texts, \d+ tokens a second")
        with (self.out / "hidden-states.json.lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            second = self.write()
            self.assertEqual(second.returncode, 1)
            self.assertIn(f"Another run of `chimere hidden-states` writes to {self.out}", second.stderr)
        self.assertEqual(self.write().returncode, 0)

    def test_what_cannot_be_done_is_said(self):
        for flags, says in ((("--layers", "1,4"), "--layers 4: this model has the layers 0 to 3"),):
            done = self.write(layers=flags)
            self.assertEqual(done.returncode, 1)
            self.assertIn(says, done.stderr)
        self.texts.write_text('{"prompt": ""}\n')
        done = self.write()
        self.assertEqual(done.returncode, 1)
        self.assertIn("1 texts were left out", done.stderr)
        self.assertFalse(self.out.exists())

    def test_bad_texts_are_named(self):
        self.texts.write_text('{"prompt": "good enough"}\n{"words": 1}\n')
        done = self.write()
        self.assertEqual(done.returncode, 1)
        self.assertIn("texts.jsonl:2: ", done.stderr)
        self.assertEqual(self.write(layers=("--layers", "2,0")).returncode, 1)


if __name__ == "__main__":
    subprocess.run([WRITER, MODEL, "300"], check=True)
    subprocess.run([WRITER, WIDE, "qwen2", "1"], check=True)
    subprocess.run([WRITER, DRAFTER, "drafter", "9"], check=True)
    data = DRAFTER.read_bytes()
    key = b"dflash.embedding_length" + struct.pack("<I", 4)
    at = data.index(key) + len(key)
    (HOME / "for-wide.gguf").write_bytes(data[:at] + struct.pack("<I", 64) + data[at + 4:])
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
