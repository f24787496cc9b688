#!/usr/bin/python3
"""Questions with the passages that answer them, for the embedder and the reranker, from a built corpus.

  pairs.py CORPUS OUT [--seed N]

OUT/train.pairs      records, each ended by a zero byte: a passage, then questions about it, with <|im_end|> between
                     them; four records at a time are near one another (one another's wrong answers)
OUT/pool.jsonl       passages of held-out pages and of some training pages: {"id", "part", "text"}
OUT/questions.jsonl  about the held-out ones: {"id" of the passage, "kind", "question"}

A passage is the beginning of a page's description after its name and section; the line that says what the page is for is
not in it, so that questions made of that line (kind `purpose`) have to be matched by meaning, and questions that give
the name (kind `name`) by it. Paragraphs of other documents are training passages too.
Standard library only (sqlite3 with FTS5).
"""
import argparse
import dataclasses
import json
import os
import random
import re
import sqlite3
import sys

import dialogues
import facts
from phrasings import WHICH, purpose_questions, reword

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "evaluation"))
from make_sets import PHRASINGS as UNSEEN_NAME, documents  # noqa: E402

LONGEST, SHORTEST = 360, 60  # characters of a passage
GROUP = 4
PARAGRAPHS = 40_000  # records made of other documents
POOL = 3500  # training passages among which held-out ones have to be found
DOMAINS = ["sql", "building", "clusters", "erlang"]
# {w}: what a page is for, as its first line says it.
LOOKING = ["{w}", "{w}", "I am looking for this: {w}.", "Which page is about this: {w}?", "Where is this documented: {w}?",
           "What is there for this: {w}?", "Look up: {w}", "documentation: {w}", "I need this: {w}."]
# Phrasings for evaluation only.
UNSEEN_WHICH = ["My task today is to {w}. What should I type?", "Find me something that will {w}.", "Suggest a way to {w}, please.",
                "Who knows a program with which one can {w}?"]
UNSEEN_LOOKING = ["Somebody asked me about {w}. Where should they read?", "Point me to the manual of the following: {w}.",
                  "Anything in the manual concerning {w}?"]


@dataclasses.dataclass
class Record:
    passage: str
    questions: list
    key: str  # what it is near others by


def shortened(text, limit):
    text = re.sub(r"\s+", " ", text).strip()
    return text if len(text) <= limit else text[:limit].rsplit(" ", 1)[0]


def lower_first(text):
    return text[0].lower() + text[1:] if text[1:2].islower() else text


def passage_of(page, text):
    lines = facts.split_sections(text).get("DESCRIPTION", [])
    return f"{page.names[0]}({page.section}): {shortened(' '.join(lines), LONGEST)}"


def kind_of(page):
    return "command" if page.section in "168" else "module" if "::" in page.names[0] else "function" if page.section in "23" else "other"


def purpose_phrases(page, which, looking):
    """Phrasings for what the page is for, and what they ask for."""
    can = page.section in "168" and dialogues.third_person(page.whatis)
    return (which if can else looking), lower_first(page.whatis)


def questions_about(page, rng):
    name, section = page.names[0], page.section
    out = [reword(rng, q.format(n=rng.choice(page.names[:3]), s=section)) for q in purpose_questions(rng, 2, kind_of(page))]
    phrases, purpose = purpose_phrases(page, WHICH, LOOKING)
    out += [reword(rng, q.format(w=purpose)) for q in rng.sample(phrases, 2)]
    out.append(purpose)
    out += [shortened(text, 120) for _, text in rng.sample(page.options, min(1, len(page.options))) if len(text) > 30]
    if page.examples:
        out.append(page.examples[0][1])
    if rng.random() < 0.5:
        out.append(f"{name} {shortened(purpose, 60)}")
    return out


def pages_of(corpus, part, table):
    """(page, text) of the manual pages of a part, each once."""
    seen = set()
    for text in documents(os.path.join(corpus, f"{part}.docs")):
        if not text.startswith("NAME\n"):
            continue
        page = facts.parse("", "/man1/x.1", text)
        row = page and table.get((",".join(page.names), page.whatis))
        if not row:
            continue
        page.package, page.section = row
        passage = passage_of(page, text)
        if len(passage) >= SHORTEST and passage not in seen:
            seen.add(passage)
            yield page, passage


def read_table(corpus):
    with open(os.path.join(corpus, "pages.tsv"), encoding="utf-8") as f:
        rows = [line.rstrip("\n").split("\t") for line in f]
    return {part: {(names, purpose): (package, section) for p, package, section, names, purpose in rows if p == part}
            for part in ("train", "heldout", *DOMAINS)}


def page_records(corpus, table, rng):
    for page, passage in pages_of(corpus, "train", table["train"]):
        yield Record(passage, questions_about(page, rng), page.whatis)


def paragraph_records(texts, rng, count):
    """Paragraphs without one of their sentences, which is the question; GROUP neighbours of a document at a time."""
    out = []
    for text in texts:
        if len(out) >= count:
            break
        found = []
        for paragraph in text.split("\n\n"):
            plain = re.sub(r"\s+", " ", paragraph).strip()
            sentences = facts.SENTENCE_END.split(plain)
            if 200 < len(plain) < 900 and len(sentences) >= 3:
                chosen = rng.randrange(len(sentences))
                rest = shortened(" ".join(s for i, s in enumerate(sentences) if i != chosen), LONGEST)
                if 25 < len(sentences[chosen]) < 160 and len(rest) > 100:
                    found.append(Record(rest, [sentences[chosen]], ""))
        start = rng.randrange(len(found) - GROUP + 1) if len(found) >= GROUP else 0
        if len(found) >= GROUP:
            out += found[start:start + GROUP]
    return out


def words_of(text):
    return re.findall(r"[a-z0-9_]+", text.lower())


class Index:
    """Full-text search as many programs have it: SQLite's FTS5, Porter's stems, BM25."""

    def __init__(self, texts):
        self.db = sqlite3.connect(":memory:")
        self.db.execute("CREATE VIRTUAL TABLE p USING fts5(t, tokenize='porter unicode61')")
        self.db.executemany("INSERT INTO p(rowid, t) VALUES (?, ?)", enumerate(texts, 1))

    def search(self, question, limit):
        """Numbers of texts from the best on, that have any of the words."""
        query = " OR ".join(f'"{w}"' for w in dict.fromkeys(words_of(question)))
        if not query:
            return []
        rows = self.db.execute("SELECT rowid FROM p WHERE p MATCH ? ORDER BY bm25(p) LIMIT ?", (query, limit))
        return [row[0] - 1 for row in rows]


def grouped(records, rng):
    """The records in groups of GROUP near ones."""
    index, left, out = Index([r.key + " " + r.passage for r in records]), set(range(len(records))), []
    rarely = {w for r in records for w in words_of(r.key)} - set("a an and the of to for in on with from or by is as it".split())
    order = rng.sample(range(len(records)), len(records))
    for first in order:
        if first not in left:
            continue
        group = [first]
        query = " ".join([w for w in words_of(records[first].key) if w in rarely][:6])
        for other in index.search(query, 12 * GROUP):
            if other in left and other != first and records[other].key != records[first].key and len(group) < GROUP:
                group.append(other)
        for other in left:
            if len(group) >= min(GROUP, len(left)):
                break
            if other not in group:
                group.append(other)
        left -= set(group)
        out.append([records[i] for i in group])
    return [g for g in out if len(g) == GROUP]


def write_records(path, groups):
    with open(path, "w", encoding="utf-8") as f:
        for record in (r for group in groups for r in group):
            parts = [record.passage, *record.questions]
            f.write("<|im_end|>".join(p.replace("<|", "< |").replace("\0", "") for p in parts) + "\0")


def evaluation_questions(page, rng):
    name, section = page.names[0], page.section
    known, purpose = purpose_phrases(page, WHICH, LOOKING[2:])
    unseen, _ = purpose_phrases(page, UNSEEN_WHICH, UNSEEN_LOOKING)
    return {"name, known phrasing": purpose_questions(rng, 1, kind_of(page))[0].format(n=name, s=section),
            "name, unseen phrasing": rng.choice(UNSEEN_NAME).format(n=name),
            "purpose, known phrasing": rng.choice(known).format(w=purpose),
            "purpose, unseen phrasing": rng.choice(unseen).format(w=purpose),
            "purpose alone": purpose}


def write_evaluation(out, corpus, table, train, rng):
    pool, questions = [], []
    for part in ("heldout", *DOMAINS):
        for page, passage in pages_of(corpus, part, table[part]):
            questions += [{"id": len(pool), "kind": kind, "question": q} for kind, q in evaluation_questions(page, rng).items()]
            pool.append({"id": len(pool), "part": part, "text": passage})
    for record in rng.sample(train, min(POOL, len(train))):
        pool.append({"id": len(pool), "part": "train", "text": record.passage})
    for name, rows in (("pool.jsonl", pool), ("questions.jsonl", questions)):
        with open(os.path.join(out, name), "w", encoding="utf-8") as f:
            f.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    print(f"{len(pool)} passages, {len(questions)} questions")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("corpus")
    p.add_argument("out")
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    os.makedirs(a.out, exist_ok=True)
    rng, table = random.Random(a.seed), read_table(a.corpus)
    pages = list(page_records(a.corpus, table, rng))
    write_evaluation(a.out, a.corpus, table, pages, random.Random(a.seed + 1))
    texts = [t for t in documents(os.path.join(a.corpus, "train.docs")) if not t.startswith("NAME\n")]
    paragraphs = paragraph_records(texts, rng, PARAGRAPHS)
    groups = grouped(pages, rng)
    groups += [paragraphs[i:i + GROUP] for i in range(0, len(paragraphs), GROUP)]
    rng.shuffle(groups)
    write_records(os.path.join(a.out, "train.pairs"), groups)
    print(f"{len(pages)} pages, {len(paragraphs)} paragraphs: {GROUP * len(groups)} records")


if __name__ == "__main__":
    main()
