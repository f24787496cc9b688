#!/usr/bin/python3
"""Cuts documents into beginnings that a model continues, to train and measure drafters.

  draft_prompts.py OUT DOCUMENTS [--chats CHATS] [--pieces N | N,N,N] [--questions N] [--seed N]
    [--characters FROM,TO] [--held-out DOCUMENTS] [--mix]

DOCUMENTS and CHATS are files of build.py, or others of texts that are ended by zero bytes. Writes JSON lines with
"prompt", which `chimere hidden-states` reads:

  OUT/documents.jsonl    whole lines from a random place of a random document on
  OUT/structured.jsonl   those of them that are full of signs: tables, listings, signatures, options, markup
  OUT/prose.jsonl        those of them that are running text
  OUT/chats.jsonl        conversations up to the header of an answer

A piece is in one file only: structured and prose take theirs from what is drawn, documents the rest and every third of theirs.
--mix writes them shuffled, half of them to OUT/greedy.jsonl and half to OUT/sampled.jsonl, so that an interrupted generation has
all kinds. --held-out leaves out prompts that share 60 characters with a document of another file.
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
SHARED = 60  # characters


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


def pieces(documents, most, rng):
    """`most`: of each kind."""
    found = {kind: [] for kind in most}
    ends = list(itertools.accumulate(len(d) for d in documents))
    for _ in range(30 * max(most.values())):
        if all(len(found[k]) >= n for k, n in most.items()):
            break
        text = piece(rng.choices(documents, cum_weights=ends)[0], rng)
        if text is None:
            continue
        of = kind(text)
        if of != "documents" and rng.random() < 1 / 3:
            of = "documents"
        if len(found[of]) < most[of]:
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


def cut(text, length):
    """At most `length` characters, without half a word, or a space that would belong to the next token."""
    text = text.lstrip("\n")
    if len(text) <= length:
        return text
    begin = text[:length]
    word = re.search(r"\S+$", begin)
    return (begin[:word.start()] if word and word.start() > length // 2 else begin).rstrip(" ")


def stretches(text):
    return (text[i:i + SHARED] for i in range(len(text) - SHARED + 1))


def numbers(text):
    return [int(n) for n in text.split(",")]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("documents")
    p.add_argument("--chats")
    p.add_argument("--pieces", type=numbers, default=[4000], help="of each kind, or of documents, structured and prose, at most")
    p.add_argument("--questions", type=int, default=4000)
    p.add_argument("--characters", type=numbers, help="cut pieces to random lengths from the first number to the second")
    p.add_argument("--held-out")
    p.add_argument("--mix", action="store_true")
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()
    if len(args.pieces) not in (1, 3):
        p.error("--pieces takes one number or three")
    if args.characters and (len(args.characters) != 2 or args.characters[0] > args.characters[1]):
        p.error("--characters takes two numbers, the smaller one first")
    rng = random.Random(args.seed)
    os.makedirs(args.out, exist_ok=True)
    most = args.pieces * 3 if len(args.pieces) == 1 else args.pieces
    found = pieces(texts(args.documents), dict(zip(("documents", "structured", "prose"), most, strict=True)), rng)
    if args.characters:
        found = {name: [cut(prompt, rng.randint(*args.characters)) for prompt in prompts] for name, prompts in found.items()}
    if args.chats:
        found["chats"] = answers(args.chats, args.questions, rng)
    if args.held_out:
        held = {s for text in texts(args.held_out) for s in stretches(text) if len(set(s)) > 12}  # no mere lines of dashes
        found = {name: [prompt for prompt in prompts if held.isdisjoint(stretches(prompt))] for name, prompts in found.items()}
    if args.mix:
        mixed = list(dict.fromkeys(prompt for prompts in found.values() for prompt in prompts))
        rng.shuffle(mixed)
        found = {"greedy": mixed[::2], "sampled": mixed[1::2]}
    for name, prompts in found.items():
        with open(os.path.join(args.out, name + ".jsonl"), "w", encoding="utf-8") as out:
            for prompt in prompts:
                out.write(json.dumps({"prompt": prompt}) + "\n")
        print(f"{name}: {len(prompts)}")


if __name__ == "__main__":
    main()
