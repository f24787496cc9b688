#!/usr/bin/python3
"""Draws the fixed evaluation sets of models/evaluation from a built corpus.

  make_sets.py CORPUS OUT

heldout.docs, DOMAIN.docs   documents of the held-out packages and of each whole held-out domain, each ended by a zero byte
questions.jsonl             questions about known commands with their purpose and three near distractors of the same section,
                            and about invented names; in phrasings that no training conversation uses
rephrased.jsonl             200 of these commands and 100 of the invented names, in still other phrasings
reworded.jsonl              100 other known commands and 100 other invented names, in a third set of phrasings
edits.jsonl                 texts to repeat with a small change, for speculation that copies
"""
import json
import os
import random
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "corpus"))
import build  # noqa: E402
import dialogues  # noqa: E402
import names  # noqa: E402

PHRASINGS = ["Please say what {n} is for.", "I came across {n}; what is its job?", "Sum up the role of {n}.",
             "A colleague told me to run {n}. What will it do for me?", "My script calls {n}: to what end?"]
# Written when the shipped model was trained already.
LATER_PHRASINGS = ["Somebody wants to know about {n}. Write one line for him.", "{n} showed up in strace output, what is it supposed to be doing",
                   "pls explain {n} thx", "If I removed {n}, which ability would I lose?", "Name the thing that {n} takes care of.",
                   "hey can u tell me {n}'s purpose", "What job was {n} written to do?",
                   "We have to document {n} for new staff; how should its entry read?", "{n} ran for ten minutes on my laptop. Doing what?",
                   "Fill in the blank: {n} is a program that ..."]
# Written before the conversations that the second training of the shipped model saw, and set aside.
LAST_PHRASINGS = ["Our intern wants a summary of {n}; give me something I can read out.", "man page lookup: {n}", "Which chore can I hand over to {n}?",
                  "I keep seeing {n} on screenshots. Enlighten me.", "{n} - friend or foe? I mean, what is it there for",
                  "Complete this: people install {n} because ...", "Would I miss {n} if it were gone, and why?", "ELI5 {n}",
                  "Suppose a beginner points at {n} and asks. Your reply?", "Before I uninstall {n}: which things does it handle?",
                  "Crossword clue for {n}?", "The audit lists {n} under 'software'. Justify it.", "quick sanity check on {n}, what's it all about again",
                  "Translate {n} into plain words.", "How might {n} earn its keep on a server?", "Got {n} from a coworker's dotfiles, no idea about it",
                  "Pretend to be a manual: {n}.", "So many tools... where does {n} fit in?", "One sentence on {n}, and no more than that.",
                  "If {n} had a motto, what would it promise?"]
BYTES = {"heldout": 700_000, **{domain: 200_000 for domain in build.DOMAINS}}


def documents(path):
    with open(path, encoding="utf-8") as f:
        return [d for d in f.read().split("\0") if d]


def up_to(texts, size):
    out = []
    for text in texts:
        text = text[:20_000]
        if size < len(text):
            break
        size -= len(text.encode())
        out.append(text)
    return out


def words(text):
    return set(re.findall(r"[a-z]{3,}", text.lower()))


def distractors(purpose, others):
    """The three purposes that share the most words with this one, and are not the same."""
    mine = words(purpose)
    near = sorted((o for o in others if words(o) != mine), key=lambda o: -len(mine & words(o)) / (3 + len(words(o))))
    return near[:3]


def first_invented_names(rng, known, count):
    """Command-like names that no page has: syllables, or a real name with one letter changed."""
    out, real = set(), sorted(n for n in known if re.match(r"^[a-z][a-z0-9-]{4,12}$", n))
    while len(out) < count:
        if real and rng.random() < 0.25:
            letters = list(rng.choice(real))
            letters[rng.randrange(1, len(letters))] = rng.choice("bcdfghjklmnpqrstvwxz")
            word = "".join(letters)
        else:
            word = "".join(rng.choice("bcdfghjklmnprstvwxz") + rng.choice("aeiou") + rng.choice(["", "", "n", "r", "x", "l", "s"])
                           for _ in range(rng.choice([1, 2, 2, 3])))
            word = rng.choice(["", "", "", "x", "g", "lib"]) + word + rng.choice(["", "", "", "ctl", "d", "-tool", "fs", "2"])
        if word not in known:
            out.add(word)
    return sorted(out)


def questions(pages, rng):
    known, by_section = [], {}
    for _, package, section, names, purpose in pages:
        if section in "18":
            by_section.setdefault(section, set()).add(purpose)
            if package in build.CORE:
                known.append((section, names.split(",")[0], purpose))
    rng.shuffle(known)
    real = {name for row in pages for name in row[3].split(",")}
    rows = []
    for section, name, purpose in known[:400]:
        answer = dialogues.sentence(name, purpose)
        wrong = [dialogues.sentence(name, d) for d in distractors(purpose, sorted(by_section[section] - {purpose}))]
        rows.append({"name": name, "question": rng.choice(PHRASINGS).format(n=name), "purpose": purpose, "answer": answer, "wrong": wrong})
    for name in first_invented_names(random.Random(777), real, 200):
        rows.append({"name": name, "question": rng.choice(PHRASINGS).format(n=name)})
    return rows


def rephrased(rows):
    known, invented = ([r for r in rows if ("answer" in r) == has] for has in (True, False))
    for i, row in enumerate(known[100:300] + invented[100:200]):
        kept = {key: row[key] for key in ("name", "purpose", "answer") if key in row}
        yield {**kept, "question": LATER_PHRASINGS[i % len(LATER_PHRASINGS)].format(n=row["name"])}


def reworded(pages, asked):
    """Commands of core packages that questions.jsonl does not ask about, and names invented in more ways than its own."""
    rng, taken = random.Random(20), {row["name"] for row in asked}
    rows, real = {}, {name for row in pages for name in row[3].split(",")}
    for _, package, section, all_names, purpose in pages:
        name = all_names.split(",")[0]
        if section in "18" and package in build.CORE and name not in taken:
            rows.setdefault(name, {"name": name, "purpose": purpose, "answer": dialogues.sentence(name, purpose)})
    known = rng.sample(list(rows.values()), 100)
    invent = names.Inventor(rng, real | taken, set(rows))
    for i, row in enumerate(known + [{"name": invent()} for _ in range(100)]):
        yield {**row, "question": LAST_PHRASINGS[i % len(LAST_PHRASINGS)].format(n=row["name"])}


def edits(texts, rng):
    """Paragraphs with one word to be replaced everywhere."""
    for text in texts:
        for paragraph in text.split("\n\n"):
            counted = [w for w in re.findall(r"[A-Za-z]{5,}", paragraph) if paragraph.count(w) == 2]
            if 300 < len(paragraph) < 900 and counted:
                word = rng.choice(counted)
                yield {"instruction": f"Repeat the text, but write {word.upper()} for {word}.", "text": paragraph,
                       "answer": paragraph.replace(word, word.upper())}
                break


def write_lines(path, rows):
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(json.dumps(r, ensure_ascii=False) + "\n" for r in rows)


def main():
    corpus, out = sys.argv[1:]
    rng = random.Random(5)
    os.makedirs(out, exist_ok=True)
    for name, size in BYTES.items():
        build.write(os.path.join(out, f"{name}.docs"), up_to(documents(os.path.join(corpus, f"{name}.docs")), size))
    with open(os.path.join(corpus, "pages.tsv"), encoding="utf-8") as f:
        pages = [line.rstrip("\n").split("\t") for line in f]
    asked = questions([p for p in pages if p[0] == "train"], rng)
    write_lines(os.path.join(out, "questions.jsonl"), asked)
    write_lines(os.path.join(out, "rephrased.jsonl"), rephrased(asked))
    write_lines(os.path.join(out, "reworded.jsonl"), reworded([p for p in pages if p[0] == "train"], asked))
    held_out = documents(os.path.join(corpus, "heldout.docs"))
    write_lines(os.path.join(out, "edits.jsonl"), [row for _, row in zip(range(100), edits(held_out, rng))])


if __name__ == "__main__":
    main()
