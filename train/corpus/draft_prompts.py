#!/usr/bin/python3
"""Cuts documents into beginnings that a model continues, to train and measure drafters.

  draft_prompts.py OUT DOCUMENTS [--chats CHATS] [--pieces N] [--questions N] [--seed N]

DOCUMENTS and CHATS are files of build.py, or others of texts that are ended by zero bytes. Writes JSON lines with
"prompt", which `chimere hidden-states` reads:

  OUT/documents.jsonl    whole lines from a random place of a random document on
  OUT/structured.jsonl   those of them that are full of signs: tables, listings, signatures, options, markup
  OUT/prose.jsonl        those of them that are running text
  OUT/chats.jsonl        conversations up to the header of an answer

A piece is in one file only: structured and prose take theirs from what is drawn, documents the rest and every third of theirs.
"""
import argparse
import itertools
import json
import os
import random
import re

PIECE = 900  # characters
# Signs that are rare in sentences.
SIGN = re.compile(r"""[^\w\s.,'"?!-]""")
STRUCTURED, PROSE = 0.08, 0.02
HEADER = "<|im_start|>assistant\n"


def texts(path):
    with open(path, "rb") as file:
        return [t for t in file.read().decode("utf-8", "replace").split("\0") if len(t) > 2 * PIECE]


def piece(text, rng):
    """Whole lines, or None at the end of a text."""
    at = text.find("\n", rng.randrange(len(text) - PIECE)) + 1
    end = text.rfind("\n", at, at + PIECE)
    return text[at:end + 1] if at and end > at + PIECE // 2 else None


def kind(text):
    signs = len(SIGN.findall(text)) / len(text)
    lines = [line for line in text.split("\n") if line.strip()]
    if signs >= STRUCTURED:
        return "structured"
    running = sum(len(line) > 60 and not line.startswith(" ") for line in lines)
    return "prose" if signs <= PROSE and running >= len(lines) / 2 else "documents"


def pieces(documents, n, rng):
    found = {"documents": [], "structured": [], "prose": []}
    ends = list(itertools.accumulate(len(d) for d in documents))
    for _ in range(30 * n):
        if all(len(v) >= n for v in found.values()):
            break
        text = piece(rng.choices(documents, cum_weights=ends)[0], rng)
        if text is None:
            continue
        of = kind(text)
        if of != "documents" and rng.random() < 1 / 3:
            of = "documents"
        if len(found[of]) < n:
            found[of].append(text)
    return found


def answers(path, n, rng):
    with open(path, "rb") as file:
        chats = [c for c in file.read().decode("utf-8", "replace").split("\0") if HEADER in c]
    out = []
    rng.shuffle(chats)
    for chat in chats:
        ends = [m.end() for m in re.finditer(re.escape(HEADER), chat)]
        prompt = chat[:rng.choice(ends)].lstrip()
        if len(prompt) <= PIECE:  # prompts are cut, and their ends are what matters here
            out.append(prompt)
        if len(out) == n:
            break
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("documents")
    p.add_argument("--chats")
    p.add_argument("--pieces", type=int, default=4000, help="of each kind, at most")
    p.add_argument("--questions", type=int, default=4000)
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()
    rng = random.Random(args.seed)
    os.makedirs(args.out, exist_ok=True)
    found = pieces(texts(args.documents), args.pieces, rng)
    if args.chats:
        found["chats"] = answers(args.chats, args.questions, rng)
    for name, prompts in found.items():
        with open(os.path.join(args.out, name + ".jsonl"), "w", encoding="utf-8") as out:
            for prompt in prompts:
                out.write(json.dumps({"prompt": prompt}) + "\n")
        print(f"{name}: {len(prompts)}")


if __name__ == "__main__":
    main()
