#!/usr/bin/env python3
"""Files that the program keeps: conversations (--state), hashes of models, the prefix cache.

  state_test.py CHIMERE WRITE_TINY_MODEL SHIPPED_MODEL [unittest arguments]
"""
import os
import shutil
import subprocess
import sys
import time
import unittest

from e2e_test import HOME, MODEL, OTHER, VOCABULARY, WRITER, Case


class State(Case):
    """Conversations that continue in another process."""
    FLAGS = ("-m", MODEL, "-n", 6, "--temp", 1, "--seed", 5)

    def setUp(self):
        self.file = HOME / "conversation.state"
        self.file.unlink(missing_ok=True)

    def test_a_chat_goes_on_as_if_it_had_never_ended(self):
        for types in ((), ("--cache-k", "f32", "--cache-v", "bf16")):
            self.file.unlink(missing_ok=True)
            flags = (*self.FLAGS, *types)
            whole = self.answer("chat", *flags, stdin="the path of a moth\nthe moth\nthe end\n")["turns"]
            parts = []
            for line in ("the path of a moth", "the moth", "the end"):
                parts += self.answer("chat", *flags, "--state", self.file, stdin=line + "\n")["turns"]
            self.assertEqual(parts, whole)
            self.assertGreater(parts[2]["reused_tokens"], parts[1]["reused_tokens"])

    def test_run_and_chat_share_the_file(self):
        turns = self.answer("chat", *self.FLAGS, stdin="the path of a moth\nthe moth\n")["turns"]
        first = self.answer("run", *self.FLAGS, "--state", self.file, "-p", "the path of a moth")
        second = self.answer("run", *self.FLAGS, "--state", self.file, "-p", "the moth")
        self.assertEqual([first["text"], second["text"]], [t["text"] for t in turns])
        self.assertEqual(second["reused_tokens"], turns[1]["reused_tokens"])
        self.assertGreater(second["reused_tokens"], 0)

    def test_reset_empties_the_file(self):
        self.answer("chat", *self.FLAGS, "--state", self.file, stdin="the path\n/clear\n")
        again = self.answer("chat", *self.FLAGS, "--state", self.file, stdin="the path\n")["turns"]
        self.assertEqual(again, self.answer("chat", *self.FLAGS, stdin="the path\n")["turns"])

    def test_files_that_cannot_be_continued_stay_as_they_are(self):
        self.answer("run", *self.FLAGS, "--state", self.file, "-p", "the path")
        kept = self.file.read_bytes()
        prompt = ("--state", self.file, "-p", "x")
        self.refused(1, "run", *self.FLAGS, "--cache-k", "f32", *prompt, says="keys of type f16")
        self.refused(1, "run", "-m", OTHER, *prompt, says="other weights")
        self.refused(1, "run", *self.FLAGS, "--expert-top-p", "0.5", *prompt, says="another --expert-top-p")
        self.assertEqual(self.file.read_bytes(), kept)
        damaged = bytearray(kept)
        damaged[len(kept) // 2] ^= 1
        self.file.write_bytes(damaged)
        self.refused(1, "run", *self.FLAGS, *prompt, says="damaged")
        self.assertEqual(self.file.read_bytes(), damaged)
        self.refused(2, "run", *self.FLAGS, "--raw", *prompt, says="--raw")

    def test_a_place_that_cannot_be_written_is_refused_before_anything_is_computed(self):
        folder = HOME / "no such folder"
        nowhere = "/no/such/model.gguf"  # missing, because the model must not be opened
        for command, stdin in ((("run", "-p", "x"), ""), (("run",), "x"), (("chat",), "x\n")):
            flags = (*command, "-m", nowhere, "--state")
            self.refused(1, *flags, folder / "file", says=f"The folder {folder} of --state", stdin=stdin)
            self.refused(1, *flags, HOME, says="is a folder; name a file in it", stdin=stdin)
            self.refused(1, *flags, MODEL / "file", says="make it, or name a file in another folder", stdin=stdin)
        self.assertFalse(folder.exists())

    def change(self, model, at):
        """Changes a byte but neither size nor modification time."""
        before = model.stat()
        while True:  # until the ctime changes with the file system's clock
            with open(model, "r+b") as f:
                f.seek(at)
                byte = f.read(1)[0]
                f.seek(at)
                f.write(bytes([byte ^ 1]))
            os.utime(model, ns=(before.st_atime_ns, before.st_mtime_ns))
            changed = model.stat()
            if changed.st_ctime_ns != before.st_ctime_ns and byte == self.original[at]:
                break
        self.assertEqual((changed.st_size, changed.st_mtime_ns), (before.st_size, before.st_mtime_ns))

    def test_a_byte_within_a_tensor_makes_another_model(self):
        model = HOME / "changing.gguf"
        shutil.copy(MODEL, model)
        self.original = MODEL.read_bytes()
        flags = ("-m", model, *self.FLAGS[2:], "--state", self.file, "-p", "the moth")
        tensors = self.answer("inspect", model, "--tensors")["tensors"]  # in the file's order
        at = len(self.original) - sum(t["bytes"] for t in tensors) + 20000
        self.assertGreater(tensors[0]["bytes"], 30000, "so that this is a byte within the first tensor")
        self.answer("run", *flags)
        kept = self.file.read_bytes()
        self.change(model, at)
        self.refused(1, "run", *flags, says="other weights")
        self.refused(1, "chat", *flags[:-2], says="other weights", stdin="the moth\n")
        self.assertEqual(self.file.read_bytes(), kept)
        model.write_bytes(self.original)
        self.answer("run", *flags)

    def test_hashes_of_models_are_kept_in_the_state_folder(self):
        folder = HOME / "kept"
        old = HOME / "old.gguf"
        shutil.copy(MODEL, old)
        time.sleep(max(0, old.stat().st_ctime + 2.1 - time.time()))  # hashes of newer files are not kept
        flags = ("-m", old, *self.FLAGS[2:], "--state", self.file, "-p", "the moth", "--state-folder", folder)
        self.answer("run", *flags)
        entry, = (folder / "weights").iterdir()
        self.assertEqual(entry.stat().st_mode & 0o777, 0o600)
        whole = entry.read_bytes()
        self.assertEqual((len(whole), whole[:8]), (80, b"CHIMHASH"))
        # A damaged entry is replaced, and a folder that cannot be created is ignored.
        entry.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        self.answer("run", *flags)
        self.assertEqual(entry.read_bytes(), whole)
        self.answer("run", *flags[:-1], MODEL)


class Purge(Case):
    """Removal of the files of the prefix cache (docs/prefix-cache.md)."""

    def test_it_removes_the_caches_files_alone(self):
        folder = HOME / "state" / "prefix" / "0123456789abcdef"
        folder.mkdir(parents=True)
        old, new, others = folder / f"{1:016x}.prefix", folder / f"{2:016x}.prefix", folder / "notes.prefix.txt"
        for path in (old, new, others):
            path.write_text("12345")
        os.utime(old, (time.time() - 7200,) * 2)
        flags = ("state", "purge", "--state-folder", HOME / "state")
        self.assertEqual(self.answer(*flags, "--unused", 1)["files"], 1)
        self.assertFalse(old.exists())
        purged = self.answer(*flags)
        self.assertEqual((purged["files"], purged["bytes"]), (1, 5))
        self.assertTrue(others.exists())
        self.assertEqual(self.answer(*flags)["files"], 0)
        self.refused(2, "state", says="subcommand")
        self.refused(2, *flags, "--unused", "soon", says="--unused")


if __name__ == "__main__":
    for words in ([MODEL, VOCABULARY], [OTHER, VOCABULARY, 36]):
        subprocess.run([WRITER, *map(str, words)], check=True)
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
