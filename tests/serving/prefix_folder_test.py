#!/usr/bin/env python3
"""The prefix cache of a server with a folder that is missing, not writable or shared.

  prefix_folder_test.py CHIMERE MODEL [unittest arguments]
"""
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

from server import Server

CHIMERE, MODEL = sys.argv[1:3]
CHAT = "/v1/chat/completions"
QUESTION = {"messages": [{"role": "user", "content": "What does the command ls do? " * 60}], "temperature": 0,
            "max_tokens": 8}


class PrefixFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.state = self.folder / "state"

    def serve(self, *flags, model=MODEL, folder=None):
        server = Server(CHIMERE, model, "--state-folder", folder or self.state, *flags)
        self.addCleanup(server.close)
        return server

    def ask(self, server):
        response = server.post(CHAT, QUESTION)
        return response["choices"][0]["message"]["content"], response["usage"]["prompt_tokens_details"]["cached_tokens"]

    def files(self):
        return sorted((self.state / "prefix").rglob("*.prefix"))

    def test_the_first_start_says_where_prompts_are_kept(self):
        first = self.serve("--prefix-disk", 123, "--prefix-hours", 45)
        self.assertEqual(first.close(), 0)
        notice = [line for line in first.log().splitlines() if "Computed prompts are kept" in line]
        self.assertEqual(len(notice), 1, first.log())
        for words in (f"{self.state}/prefix", "123 MiB", "45 hours", "--prefix-disk 0"):
            self.assertIn(words, notice[0])
        second = self.serve()
        self.assertEqual(second.close(), 0)
        self.assertNotIn("prompts are kept", second.log())

    def test_nothing_is_said_where_nothing_is_kept(self):
        for flags in (("--prefix-disk", 0), ("--prefix-states", 0)):
            server = self.serve(*flags)
            self.assertEqual(server.close(), 0)
            self.assertNotIn("prompts", server.log())
            self.assertFalse((self.state / "prefix").exists())

    def test_a_folder_that_cannot_be_written_means_memory_alone(self):
        for kind in ("file", "loop"):
            with self.subTest(kind):
                self.state = self.folder / kind
                if kind == "file":
                    self.state.write_text("a file where the folder should be")
                else:
                    self.state.symlink_to(self.state)
                self.serves_from_memory()

    def serves_from_memory(self):
        server = self.serve()
        text, cached = self.ask(server)
        self.assertEqual(cached, 0)
        again, cached = self.ask(server)
        self.assertEqual(again, text)
        self.assertGreater(cached, 0)
        self.assertEqual(server.close(), 0)
        warning = [line for line in server.log().splitlines() if "memory only" in line]
        self.assertEqual(len(warning), 1, server.log())
        for words in (f"{self.state}/prefix", "--state-folder", "--prefix-disk 0"):
            self.assertIn(words, warning[0])
        self.assertNotIn("Computed prompts are kept in", server.log())

    def test_two_servers_share_a_folder(self):
        reader = self.serve()
        writer = self.serve()
        text, _ = self.ask(writer)
        self.assertEqual(writer.close(), 0)
        self.assertTrue(self.files())
        found, cached = self.ask(reader)  # this server has not computed the prompt
        self.assertEqual(found, text)
        self.assertGreater(cached, 0)

    def test_a_changed_model_finds_nothing(self):
        model = self.folder / "model.gguf"
        shutil.copy(MODEL, model)
        server = self.serve(model=str(model))
        self.ask(server)
        self.assertEqual(server.close(), 0)
        before = model.stat()
        kept = self.files()
        self.assertTrue(kept)
        with open(model, "r+b") as f:  # a byte within the last tensor
            f.seek(-200, os.SEEK_END)
            byte = f.read(1)[0]
            f.seek(-200, os.SEEK_END)
            f.write(bytes([byte ^ 1]))
        os.utime(model, ns=(before.st_atime_ns, before.st_mtime_ns))
        changed = self.serve(model=str(model))
        self.assertEqual(self.ask(changed)[1], 0)
        self.assertEqual(changed.close(), 0)
        self.assertEqual(len({path.parent for path in self.files()}), 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
