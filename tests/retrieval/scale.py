#!/usr/bin/env python3
"""How long searches of a large collection take, and what one changed document costs.

  scale.py CHIMERE [--chunks N] [--queries N] [--seed N] [--embed] [--keep FOLDER] [--check]

Makes N chunks of invented documents (invented_documents.py), indexes them with `chimere collection add`, and sends questions
through one process: names with headings, sentences, and frequent words alone, which is the worst case of a search for words. Prints
the median and the 95th percentile of each kind of question and search, without a reranker, and how often a question's document is
among the first eight passages. Then one document changes and the collection is updated.

Vectors are random and put into the database here, unless --embed lets the model compute them (minutes for 100,000): an exact search
reads every vector, so its time does not depend on their values. --check fails if the search by vectors differs from one computed
here, if an update does more than its document's share, or if fewer than 95% of the questions with a name find its document; no
verdict depends on time.
"""
import argparse
import array
import collections
import heapq
import json
import os
import random
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time

from invented_documents import SECTIONS, Library

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
WARM_UP = 20


class Program:
    def __init__(self, path, folder):
        self.path, self.flags = os.path.abspath(path), ["--collections", folder, "--quiet"]

    def run(self, command, *words, stdin=None):
        done = subprocess.run([self.path, "collection", command, "scale", *words, "--json", *self.flags], input=stdin, capture_output=True,
                              text=True, check=False)
        if done.returncode:
            sys.exit(f"chimere collection {command}: {done.stderr}")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def search(self, questions, by, count=8):
        return self.run("search", "--by", by, "-n", str(count), stdin="\n".join(questions) + "\n")

    def embed(self, text):
        done = subprocess.run([self.path, "embed", "--json", "--quiet", text], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)["embeddings"][0]


def fill_vectors(path, seed):
    """Gives every chunk without a vector a random one of the size of the others."""
    rng = random.Random(seed)
    with sqlite3.connect(path) as db:
        (size,) = db.execute("SELECT length(vector) FROM chunks WHERE vector IS NOT NULL LIMIT 1").fetchone()
        missing = db.execute("SELECT id FROM chunks WHERE vector IS NULL").fetchall()
        scale = struct.pack("<f", 1 / 127 / ((size - 4) / 3) ** 0.5)
        db.executemany("UPDATE chunks SET vector = ? WHERE id = ?", ((scale + rng.randbytes(size - 4), chunk) for (chunk,) in missing))
        db.execute("UPDATE facts SET value = value + 1 WHERE key = 'generation'")


def add_documents(program, docs, args):
    """Writes the documents; adds the first one, whose vectors tell the embedder's name and their size."""
    library = Library(os.path.join(ROOT, "models", "evaluation"), args.seed)
    began = time.monotonic()
    for i in range(max(2, round(args.chunks / SECTIONS))):
        name, text = library.document()
        path = os.path.join(docs if i else os.path.dirname(docs), name + ".md")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        if i == 0:
            program.run("add", path)
    print(f"wrote {len(library.documents)} documents in {time.monotonic() - began:.0f} s")
    return library


def percentile(times, share):
    return sorted(times)[min(len(times) - 1, int(len(times) * share))] * 1e3


def measure(program, library, args):
    """Prints the table; returns the share of questions with a name that found their document by words."""
    questions = library.questions(args.queries + WARM_UP, random.Random(args.seed + 1))
    print("| questions | search | median ms | p95 ms | document among the first 8 |\n|---|---|---|---|---|")
    every, found_by_name = collections.defaultdict(list), 0.0
    for kind, rows in questions.items():
        for by in ("words", "vectors", "both"):
            answers = program.search([q for q, _ in rows], by)[WARM_UP:]
            times = [a["seconds"] for a in answers]
            every[by] += times
            hits = [any(os.path.basename(p["document"]).startswith(name) for p in a["passages"])
                    for (_, name), a in zip(rows[WARM_UP:], answers) if name]
            share = sum(hits) / len(hits) if hits else None
            if kind == "a name and a heading" and by == "words":
                found_by_name = share
            print(f"| {kind} | {by} | {percentile(times, 0.5):.1f} | {percentile(times, 0.95):.1f} | "
                  f"{'' if share is None else f'{share:.3f}'} |", flush=True)
    for by, times in every.items():
        print(f"| all | {by} | {percentile(times, 0.5):.1f} | {percentile(times, 0.95):.1f} | |")
    return found_by_name


def exact_search(path, query, count):
    """(chunk, similarity) of the nearest chunks, by the definition of docs/retrieval.md."""
    top = max(map(abs, query))
    rounded = [int(x / (top / 2047) + (0.5 if x > 0 else -0.5)) for x in query]
    with sqlite3.connect(path) as db:
        rows = db.execute("SELECT id, vector FROM chunks WHERE vector IS NOT NULL")
        scored = ((sum(map(int.__mul__, rounded, array.array("b", v[4:]))) * struct.unpack("<f", v[:4])[0] * top / 2047, -chunk)
                  for chunk, v in rows)
        return [(-chunk, score) for score, chunk in heapq.nlargest(count, scored)]


def differences(program, path, questions):
    """Questions whose nearest chunks differ from exact_search()'s by more than the rounding of a query's elements."""
    bad = []
    for question in questions:
        (answer,) = program.search([question], "vectors", count=20)
        got = {p["id"]: p["similarity"] for p in answer["passages"]}
        exact = exact_search(path, program.embed(question), 60)
        near = dict(exact)
        least = min(got.values())
        # Near-duplicates leave the answer; nothing else that is nearer than its last passage may be missing.
        missing = [c for c, s in exact if s > least + 1e-4 and c not in got]
        if len(got) < 20 or len(missing) > 0 or any(abs(near.get(c, -2) - s) > 1e-4 for c, s in got.items()):
            bad.append(question)
    return bad


def change_one(program, docs, library):
    """(report of the update, seconds of the process): a sentence is added to one document."""
    name = library.documents[len(library.documents) // 2][0]
    with open(os.path.join(docs, name + ".md"), "a", encoding="utf-8") as f:
        f.write("The kettle whistles when the lantern is lit.\n")
    began = time.monotonic()
    (report,) = program.run("update")
    return name, report, time.monotonic() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chimere")
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=200, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--embed", action="store_true", help="compute the vectors")
    parser.add_argument("--keep", default="", help="leave documents and collection in this folder")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or scratch
        docs, path = os.path.join(folder, "docs"), os.path.join(folder, "scale.sqlite")
        os.makedirs(docs)
        program = Program(args.chimere, folder)
        library = add_documents(program, docs, args)
        (report,) = program.run("add", docs, *([] if args.embed else ["--embedding-model", "none"]))
        if not args.embed:
            fill_vectors(path, args.seed)
        print(f"{report['documents']} documents, {report['chunks']} chunks, {os.path.getsize(path) / 1e6:.0f} MB; "
              f"read and indexed in {report['seconds']:.1f} s")
        found_by_name = measure(program, library, args)
        name, report, seconds = change_one(program, docs, library)
        with sqlite3.connect(path) as db:
            (of_document,) = db.execute("SELECT count(*) FROM chunks c JOIN documents d ON d.id = c.document WHERE d.name LIKE ?",
                                        (f"%/{name}.md",)).fetchone()
        print(f"one changed document: {report['changed']} read, {report['embedded']} of its {of_document} chunks embedded, "
              f"{report['seconds']:.2f} s, {seconds:.2f} s with the program's start")
        bad = []
        if (report["changed"], report["embedded"], report["added"]) != (1, of_document, 0):
            bad.append("the update did not read and embed one document alone")
        if found_by_name < 0.95:
            bad.append(f"only {found_by_name:.3f} of the questions with a name found its document")
        bad += [f"other nearest chunks: {q}" for q in differences(program, path, ["kettle and lantern", "how to list files", "a new option"])]
        print("\n".join(bad) or "vectors as computed here, one document updated alone")
        return 1 if bad and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
