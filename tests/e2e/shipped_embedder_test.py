#!/usr/bin/env python3
"""A question is nearer to the passage that answers it than to others.

  shipped_embedder_test.py CHIMERE EMBEDDER
"""
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from limits import HANG  # noqa: E402

CHIMERE, EMBEDDER = sys.argv[1:3]
# In words of this file: no page has these passages.
ANSWERS = {
    "Which command would I use to view processes?":
        "ps(1): Shows a snapshot of the processes that run now, with their ids, owners, memory and time.",
    "copy files to another machine over the network":
        "scp(1): Sends files between hosts through ssh, with its passwords and keys. Either side may be remote.",
    "What does fsck do?": "fsck(8): Checks a Linux file system for errors and repairs them. It should not be mounted meanwhile.",
    "sort lines of text": "sort(1): Puts the lines of all its input files in order and writes them to standard output.",
    "What is passwd used for?": "passwd(1): Changes the secret word with which a user logs in. The superuser may change that of any account.",
    "allocate memory": "malloc(3): Gives the caller so many bytes of the heap, not initialised, and a pointer to them."}


def vectors(texts):
    done = subprocess.run([CHIMERE, "embed", "-m", EMBEDDER, "--json", "--", *texts], capture_output=True, check=True, timeout=HANG)
    return json.loads(done.stdout)["embeddings"]


class ShippedEmbedder(unittest.TestCase):
    def test_a_question_is_nearest_to_its_passage(self):
        self.assertLess(os.path.getsize(EMBEDDER), 2_000_000)
        questions, passages = vectors(ANSWERS), vectors(ANSWERS.values())
        for asked, question in zip(ANSWERS, questions):
            near = [sum(x * y for x, y in zip(question, passage)) for passage in passages]
            self.assertEqual(list(ANSWERS)[near.index(max(near))], asked, near)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
