#!/usr/bin/python3
"""How well passages are found: full-text search (SQLite's FTS5 with Porter's stems, BM25), an embedder, both, and the reranker.

  retrieval.py CHIMERE EMBEDDER PAIRS [--questions N] [--rankings FILE] [--scores FILE]

PAIRS is the folder that train/corpus/pairs.py wrote. --rankings writes, for chimere-vocabulary encode --special yes, each
question with the passages that both find first; --scores reads what chimere-companion score printed of them.
"""
import argparse
import collections
import json
import operator
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "corpus"))
from pairs import Index  # noqa: E402

TOP = 20  # passages that are put in a new order
SHARED = 60  # reciprocal-rank fusion (Cormack et al. 2009): 1 / (60 + rank), summed


def rows(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def vectors(chimere, model, texts):
    done = subprocess.run([chimere, "embed", "-m", model, "--json"], input="\n".join(texts), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["embeddings"]


def by_vectors(questions, passages):
    """For each question the 100 nearest passages."""
    for q in questions:
        scores = [sum(map(operator.mul, q, p)) for p in passages]
        yield sorted(range(len(scores)), key=lambda i: -scores[i])[:100]


def fused(*rankings):
    scores = collections.Counter()
    for ranking in rankings:
        for rank, i in enumerate(ranking, 1):
            scores[i] += 1 / (SHARED + rank)
    return [i for i, _ in scores.most_common()]


def reordered(ranking, scores):
    """The first passages in the order of their scores."""
    first = sorted(range(len(scores)), key=lambda n: -scores[n])
    return [ranking[n] for n in first] + ranking[len(scores):]


def report(name, questions, rankings):
    by_kind = collections.defaultdict(list)
    for question, ranking in zip(questions, rankings):
        rank = ranking.index(question["id"]) + 1 if question["id"] in ranking else 0
        by_kind[question["kind"]].append(rank)
        by_kind["all"].append(rank)
    for kind, ranks in by_kind.items():
        n = len(ranks)
        print(f"{name:28} {kind:26} recall@1 {sum(r == 1 for r in ranks) / n:.3f}  @10 {sum(0 < r <= 10 for r in ranks) / n:.3f}  "
              f"MRR {sum(1 / r for r in ranks if r) / n:.3f}  ({n})")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("chimere")
    p.add_argument("embedder")
    p.add_argument("pairs")
    p.add_argument("--questions", type=int, help="the first so many alone")
    p.add_argument("--rankings")
    p.add_argument("--scores")
    a = p.parse_args()
    pool, questions = (rows(os.path.join(a.pairs, name)) for name in ("pool.jsonl", "questions.jsonl"))
    questions = questions[:a.questions]
    texts, asked = [row["text"] for row in pool], [row["question"] for row in questions]
    index = Index(texts)
    words = [index.search(q, 100) for q in asked]
    near = list(by_vectors(vectors(a.chimere, a.embedder, asked), vectors(a.chimere, a.embedder, texts)))
    both = [fused(w, n) for w, n in zip(words, near)]
    results = {"BM25": words, "embedder": near, "BM25 + embedder": both}
    if a.rankings:
        with open(a.rankings, "w", encoding="utf-8") as f:
            for question, ranking in zip(asked, both):
                f.write("<|im_end|>".join(x.replace("<|", "< |") for x in [question, *(texts[i] for i in ranking[:TOP])]) + "\0")
    if a.scores:
        with open(a.scores, encoding="utf-8") as f:
            scores = [[float(x) for x in line.split()] for line in f]
        again = [reordered(r, s) for r, s in zip(both, scores)]
        results |= {"reranker": again, "BM25 + embedder + reranker": [fused(r, s) for r, s in zip(both, again)]}
    for name, rankings in results.items():
        report(name, questions, rankings)


if __name__ == "__main__":
    main()
