#!/usr/bin/env python3
"""chimere collection: documents of every type are found, changes are noticed, and a process that is killed at any moment leaves
a collection that can be searched and completed.

  collection_test.py CHIMERE [KILLS]
"""
import gzip
import io
import json
import os
import pathlib
import random
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from limits import HANG  # noqa: E402

CHIMERE = sys.argv[1]
KILLS = int(sys.argv[2]) if len(sys.argv) > 2 else 6

PAGE = """.TH SPLICER 1
.SH NAME
splicer \\- join ropes end to end
.SH OPTIONS
.TP
.B \\-\\-strands \\fIN\\fR
Weave with N strands instead of three.
"""


class Collection(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.docs = os.path.join(self.scratch.name, "docs")
        os.mkdir(self.docs)
        self.flags = ["--collections", os.path.join(self.scratch.name, "collections"), "--quiet"]

    def write(self, name, content):
        path = os.path.join(self.docs, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(content if isinstance(content, bytes) else content.encode())
        return path

    def run_chimere(self, command, *words, code=0, stdin=None):
        done = subprocess.run([CHIMERE, "collection", command, *words, *(self.flags if command != "list" else self.flags[:2])],
                              capture_output=True, text=True, timeout=HANG, input=stdin)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def json(self, command, *words):
        return json.loads(self.run_chimere(command, *words, "--json").stdout)

    def test_documents_are_found_and_kept_up_to_date(self):
        self.write("guide.md", "# Kettle\n\n## Descaling\n\nFill it with vinegar once a month and boil.\n")
        self.write("page.html", "<nav><a href=/>Home</a></nav><main><h1>Lantern</h1><p>The wick is trimmed before it smokes.</main>")
        self.write("man/splicer.1.gz", gzip.compress(PAGE.encode()))
        self.write("tool.py", "import os\n\n\ndef unfurl(sail):\n    \"\"\"Opens a sail slowly.\"\"\"\n    return sail.open()\n")
        self.write("picture.bin", bytes(range(256)) * 40)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            entry = tarfile.TarInfo("notes/tides.txt")
            text = b"High tide comes fifty minutes later every day.\n"
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text))
        self.write("old.tar.gz", packed.getvalue())

        report = self.json("add", "boat", self.docs)
        self.assertEqual((report["added"], report["skipped"], report["embedded"]), (5, 1, report["chunks"]))
        for query, document, heading in [
                ("how do I descale the kettle", "guide.md", "Kettle > Descaling"), ("when is the wick trimmed?", "page.html", "Lantern"),
                ("option for the number of strands", "man/splicer.1.gz", "NAME"), ("unfurl", "tool.py", ""),
                ("when is high tide", "old.tar.gz!/notes/tides.txt", "")]:
            found = self.json("search", "boat", query)
            self.assertTrue(found["by_vectors"])
            best = found["passages"][0]
            self.assertEqual(best["document"], os.path.join(self.docs, document), query)
            self.assertIn(heading, best["heading"])
        self.assertNotIn("Home", json.dumps(self.json("search", "boat", "lantern home")))
        self.assertEqual(self.json("search", "boat", "strands", "--by", "words")["passages"][0]["title"],
                         "splicer(1) - join ropes end to end")

        self.write("guide.md", "# Kettle\n\nIt whistles when the water boils.\n")
        os.remove(os.path.join(self.docs, "tool.py"))
        report = self.json("update", "boat")
        self.assertEqual((report["changed"], report["removed"], report["unchanged"]), (1, 1, 3))
        answers = self.run_chimere("search", "boat", "--json", stdin="whistles\nvinegar descaling\n").stdout.splitlines()
        self.assertEqual(len(answers), 2)
        self.assertIn("whistles", json.loads(answers[0])["passages"][0]["text"])
        self.assertNotIn("vinegar", answers[1])
        shown = self.run_chimere("search", "boat", "whistles", "-n", "1").stdout
        self.assertIn("guide.md: Kettle, line 1", shown)

        listed = self.json("list")
        self.assertEqual([(c["name"], c["documents"], c["chunks_without_vector"]) for c in listed], [("boat", 4, 0)])
        self.assertEqual(listed[0]["sources"], [{"kind": "path", "place": os.path.realpath(self.docs)}])
        self.assertIn("boat", self.run_chimere("list").stdout)
        self.json("rm", "boat")
        self.assertEqual(self.json("list"), [])

    def test_errors_say_what_to_do(self):
        self.assertIn("There is no collection 'none'", self.run_chimere("search", "none", "x", code=1).stderr)
        self.assertIn("There is no file or folder", self.run_chimere("add", "a", "/no/such/place", code=1).stderr)
        self.assertIn("no name of a collection", self.run_chimere("add", "../a", self.docs, code=1).stderr)
        self.assertIn("Say what to add", self.run_chimere("add", "a", code=1).stderr)

    def check(self):
        """Opens the database as the next process will, and looks for damage."""
        path = os.path.join(self.flags[1], "k.sqlite")
        if not os.path.exists(path):
            return 0
        with sqlite3.connect(path) as db:
            self.assertEqual(db.execute("PRAGMA integrity_check").fetchone(), ("ok",))
            if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                return 0
            db.execute("INSERT INTO words (words) VALUES ('integrity-check')")
            self.assertEqual(db.execute("SELECT count(*) FROM chunks WHERE id NOT IN (SELECT rowid FROM words) OR document NOT IN "
                                        "(SELECT id FROM documents)").fetchone(), (0,))
            self.assertEqual(db.execute("SELECT count(*) FROM words WHERE rowid NOT IN (SELECT id FROM chunks)").fetchone(), (0,))
            self.assertEqual(db.execute("SELECT count(*) FROM documents WHERE id NOT IN (SELECT document FROM chunks)").fetchone(),
                             (0,))
            return db.execute("SELECT count(*) FROM documents").fetchone()[0]

    def test_killed_updates_leave_a_whole_collection(self):
        rng = random.Random(3)
        for i in range(150):
            self.write(f"{i}.txt", f"Sheet {i} lists the parts of engine {i}.\n\n" + f"Bolt {i} fits nut {i + 1}. " * 30)
        began = time.monotonic()
        self.run_chimere("add", "whole", self.docs)
        whole = time.monotonic() - began
        seen = set()
        for kill in range(KILLS):
            for i in rng.sample(range(150), 75):
                self.write(f"{i}.txt", f"Sheet {i} was written again in round {kill}.\n\n" + f"Washer {i} is new. " * rng.randint(1, 90))
            process = subprocess.Popen([CHIMERE, "collection", "add", "k", self.docs, *self.flags], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            time.sleep(rng.random() ** 2 * whole)
            process.kill()
            process.wait(timeout=HANG)
            seen.add(self.check())
        self.run_chimere("add", "k", self.docs)
        self.assertEqual(self.check(), 150)
        state = next(c for c in self.json("list") if c["name"] == "k")
        self.assertEqual((state["documents"], state["chunks_without_vector"]), (150, 0))
        report = self.json("update", "k")
        self.assertEqual((report["unchanged"], report["embedded"]), (150, 0))
        print("documents after the kills:", sorted(seen))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
