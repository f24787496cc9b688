#!/usr/bin/env python3
"""How well a collection of manual pages answers: BM25, vectors, and both together.

  quality.py CHIMERE [--pages N] [--queries N] [--held-out] [--misses N] [--keep FOLDER] [--check]

Makes a collection of the manual pages of this machine (all, or N files drawn evenly from their sorted list), and asks it
questions that its own pages answer: the purpose of a page (relevant: the page), a page's name with a heading (relevant: the
passages of the section), an option with its page's name (relevant: passages of the page that describe the option), and
the held-out questions of models/evaluation whose pages are there (relevant: the page). Half of the pages' folders, by a hash of
the page's first name, are for choosing weights, the other half for the figures. nDCG@10 and recall@20 count passages; for pages a
ranking of pages by their best passage. --check fails where both together are worse than BM25 by more than 0.01.

--held-out asks about pages of packages that no shipped model was trained on (train/corpus/build.py: a package that its lists do not
name, or one of the tenth or so of sources that it holds out), at most PER_PACKAGE of each package, and about nothing else.
--misses prints the first N questions of each kind whose relevant passages are not all among the first 20 of both.
"""
import argparse
import collections
import glob
import hashlib
import json
import math
import os
import random
import re
import sqlite3
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
COUNT = 60
PER_PACKAGE = 30


def family(document):
    """Pages whose names begin with the same word are of one package, or nearly: git-log, git-add."""
    return re.split(r"[-_.:]", os.path.basename(document))[0].lower()


def is_test(document):
    return hashlib.sha256(family(document).encode()).digest()[0] % 2 == 1


def packages_of_pages():
    """{file of a manual page: package}, as dpkg installed them."""
    found = {}
    for path in glob.glob("/var/lib/dpkg/info/*.list"):
        package = os.path.basename(path)[:-len(".list")].split(":")[0]
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("/usr/share/man/man"):
                    found[os.path.realpath(line.rstrip("\n"))] = package
    return found


def held_out_pages():
    """{file: package} of the pages that training never used."""
    sys.path.insert(0, os.path.join(ROOT, "train", "corpus"))
    import build
    known = set()
    for name in ("packages.txt", "more_packages.txt"):
        known |= set(build.read_list(os.path.join(ROOT, "train", "corpus", name)))
    rows = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${source:Package}\n"], capture_output=True, text=True, check=True).stdout
    source_of = dict(row.split(" ") for row in rows.splitlines())
    core = {source_of.get(package, package) for package in build.CORE}
    return {path: package for path, package in packages_of_pages().items()
            if package not in known or build.split_of(source_of.get(package, package), core, 1) != "train"}


def drawn_from_packages(pages, packages, rng):
    """At most PER_PACKAGE pages of each package."""
    taken, out = collections.Counter(), []
    for page in rng.sample(sorted(pages), len(pages)):
        taken[packages[page]] += 1
        if taken[packages[page]] <= PER_PACKAGE:
            out.append(page)
    return out


def questions_of(database, n, held_out=None, seed=5):
    """{kind: [(query, relevant, unit)]}: relevant is a function of a passage. `held_out`: {file: package} of the pages to ask about."""
    rows = database.execute("SELECT d.name, w.title, w.heading, w.text FROM chunks c JOIN documents d ON d.id = c.document "
                            "JOIN words w ON w.rowid = c.id").fetchall()
    pages = {}
    for document, title, heading, text in rows:
        pages.setdefault(document, (title, []))[1].append((heading, text))
    names = collections.Counter(t.split("(")[0].lower() for t, _ in pages.values())
    rng = random.Random(seed)
    chosen = sorted(d for d in pages if is_test(d))
    rng.shuffle(chosen)
    if held_out is not None:
        chosen = drawn_from_packages([d for d in pages if d in held_out], held_out, rng)
    found = collections.defaultdict(list)
    for document in chosen:
        title, chunks = pages[document]
        name, _, purpose = title.partition(" - ")
        name = re.sub(r"\(.*", "", name).strip()
        purpose = re.sub(r" \([^()]*\)$", "", purpose).strip()
        if not purpose or names[name.lower()] > 1:
            continue
        same = (lambda d: lambda p: p["document"] == d)(document)
        if len(purpose.split()) >= 4:
            found["purpose"].append((purpose, same, "page"))
        headings = [h.split(" > ")[-1] for h, _ in chunks if h and h.split(" > ")[-1] not in
                    ("NAME", "SYNOPSIS", "DESCRIPTION", "AUTHOR", "SEE ALSO", "COPYRIGHT", "BUGS", "AUTHORS")]
        if headings:
            heading = rng.choice(headings)
            found["heading"].append((f"{name} {heading.lower()}", (lambda d, h: lambda p: p["document"] == d and (
                h in p["heading"] or h in p["text"]))(document, heading), "passage"))
        options = [m for _, t in chunks for m in re.findall(r"^(--[a-z][a-z-]{3,})", t, re.M)]
        if options:
            option = rng.choice(options)
            found["option"].append((f"what does {option} do in {name}", (lambda d, o: lambda p: p["document"] == d and re.search(
                r"(^|[ ,])" + re.escape(o) + r"($|[^a-z-])", p["text"], re.M))(document, option), "passage"))
    if held_out is not None:
        return {kind: rows[:n] for kind, rows in found.items()}
    by_name = {re.sub(r"\(.*", "", t.split(" - ")[0]).strip().lower(): d for d, (t, _) in pages.items()}
    for file in ("questions", "rephrased", "reworded"):
        with open(os.path.join(ROOT, "models", "evaluation", file + ".jsonl"), encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                document = by_name.get(row["name"].lower())
                if document and names[row["name"].lower()] == 1:
                    found["held-out"].append((row["question"], (lambda d: lambda p: p["document"] == d)(document), "page"))
    rng.shuffle(found["held-out"])
    return {kind: rows[:n] for kind, rows in found.items()}


def judged(passages, relevant, unit):
    """Whether each result is relevant; for pages each page once."""
    out, seen = [], set()
    for p in passages:
        if unit == "page":
            if p["document"] in seen:
                continue
            seen.add(p["document"])
        out.append(bool(relevant(p)))
    return out


def ndcg(hits, n, k=10):
    gain = sum(1 / math.log2(i + 2) for i, hit in enumerate(hits[:k]) if hit)
    best = sum(1 / math.log2(i + 2) for i in range(min(n, k)))
    return gain / best if best else 0


def search(chimere, flags, queries, by):
    done = subprocess.run([chimere, "collection", "search", "man", "--json", "--by", by, "-n", str(COUNT), *flags],
                          input="\n".join(queries), capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chimere")
    parser.add_argument("--pages", type=int, default=0)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--misses", type=int, default=0)
    parser.add_argument("--keep", default="")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    chimere = os.path.abspath(args.chimere)
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or scratch
        flags = ["--collections", folder, "--quiet"]
        if not os.path.exists(os.path.join(folder, "man.sqlite")):
            sources = ["--man"]
            if args.pages:
                every = sorted(os.path.join(root, f) for section in "12345678" for root, _, files in
                               os.walk("/usr/share/man/man" + section) for f in files)
                if not every:
                    print("This machine has no manual pages; nothing was measured.")
                    return 0
                sources = [every[i * len(every) // args.pages] for i in range(args.pages)]
            done = subprocess.run([chimere, "collection", "add", "man", *sources, *flags], capture_output=True, text=True, check=True)
            print(done.stdout.strip())
        held_out = held_out_pages() if args.held_out else None
        sets = questions_of(sqlite3.connect(os.path.join(folder, "man.sqlite")), args.queries, held_out)
        times, bad = collections.defaultdict(list), []
        print("| questions | n | BM25: nDCG@10 / recall@20 | vectors | both |\n|---|---|---|---|---|")
        for kind, rows in sorted(sets.items()):
            if not rows:
                continue
            cells, scores, missed = [], {}, []
            results = {by: search(chimere, flags, [q for q, _, _ in rows], by) for by in ("words", "vectors", "both")}
            for by, answers in results.items():
                total = recall = 0
                for i, ((_, relevant, unit), answer) in enumerate(zip(rows, answers)):
                    times[by].append(answer["seconds"])
                    hits = judged(answer["passages"], relevant, unit)
                    known = len({p["id"] for other in results.values() for p in other[i]["passages"] if relevant(p)})
                    known = 1 if unit == "page" else max(known, 1)
                    total += ndcg(hits, known)
                    share = min(1, sum(hits[:20]) / min(known, 20))
                    recall += share
                    if by == "both" and share < 1:
                        missed.append((share, known, rows[i][0], answer["passages"][:3]))
                scores[by] = total / len(rows)
                cells.append(f"{total / len(rows):.3f} / {recall / len(rows):.3f}")
            print(f"| {kind} | {len(rows)} | {' | '.join(cells)} |")
            for share, known, query, first in missed[:args.misses]:
                print(f"  {share:.2f} of {known}: {query!r}; first: " + "; ".join(
                    f"{os.path.basename(p['document'])}: {p['heading']}" for p in first))
            if scores["both"] < scores["words"] - 0.01:
                bad.append(kind)
        for by, seconds in times.items():
            seconds.sort()
            print(f"{by}: {len(seconds)} queries, median {seconds[len(seconds) // 2] * 1e3:.1f} ms, "
                  f"p95 {seconds[len(seconds) * 95 // 100] * 1e3:.1f} ms")
        if bad and args.check:
            print("worse than BM25:", ", ".join(bad))
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
