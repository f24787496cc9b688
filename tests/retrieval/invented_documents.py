"""Documents and questions by the thousand, the same for the same seed on every machine.

Sentences of the documentation in models/evaluation are drawn at random, so that words have the frequencies that they have in
documentation. Every document has 40 words of its own, which take the place of some of a sentence's, so that the vocabulary grows
with the number of documents and no two sections are near-duplicates.
"""
import collections
import os
import random
import re

TEXTS = ("heldout", "sql", "building", "clusters", "erlang")
SYLLABLES = [c + v + e for c in "bdfgklmnprstvz" for v in "aeiou" for e in ("", "n", "r", "s")]
HEADINGS = ["Options", "Examples", "Files", "Environment", "Exit status", "Configuration", "Notes", "Security", "Limits", "Formats"]
STOP_WORDS = set("a an and are as be by can for from has if in is it its may not of on or that the this to was will with you".split())
SECTION_BYTES = 1000  # nearly a chunk (1,200 bytes)
SECTIONS = 20


def sentences_of(folder):
    """Sentences as lists of words."""
    found = []
    for name in TEXTS:
        with open(os.path.join(folder, name + ".docs"), encoding="utf-8") as f:
            for paragraph in re.split(r"\n\s*\n|\0", f.read()):
                for sentence in re.split(r"(?<=[.!?]) ", re.sub(r"\s+", " ", paragraph).strip()):
                    words = sentence.split(" ")
                    if 4 <= len(words) <= 40 and all(len(w) < 40 for w in words):
                        found.append(words)
    return found


class Library:
    """Makes documents, and remembers of each what questions need."""

    def __init__(self, folder, seed):
        self.rng = random.Random(seed)
        self.sentences = sentences_of(folder)
        self.documents = []  # (name, headings, sentences to ask for)
        counted = collections.Counter(w.lower() for words in self.sentences for w in words if w.isalpha())
        self.frequent = [w for w, _ in counted.most_common(160) if w not in STOP_WORDS and len(w) > 2][:80]
        self.used = set()

    def new_word(self):
        while True:
            word = "".join(self.rng.choices(SYLLABLES, k=3))
            if word not in self.used:
                self.used.add(word)
                return word

    def sentence(self, own):
        words = list(self.rng.choice(self.sentences))
        for _ in range(1 + len(words) // 12):
            words[self.rng.randrange(len(words))] = self.rng.choice(own)
        return " ".join(words)

    def document(self):
        """(name, Markdown text): a title, SECTIONS sections of about SECTION_BYTES."""
        name = self.new_word()
        own = [self.new_word() if i % 4 else "".join(self.rng.choices(SYLLABLES, k=2)) for i in range(40)]
        lines = [f"# {name} - {self.sentence(own)[:70]}"]
        headings, asked = [], []
        for i in range(SECTIONS):
            headings.append(HEADINGS[i] if i < len(HEADINGS) else f"{self.rng.choice(self.frequent)} {self.rng.choice(own)}".capitalize())
            lines += ["", "## " + headings[-1], ""]
            size = 0
            while size < SECTION_BYTES - 60:
                sentence = self.sentence(own)
                size += len(sentence) + 1
                lines.append(sentence)
            asked.append(lines[-1])
        self.documents.append((name, headings, asked))
        return name, "\n".join(lines) + "\n"

    def questions(self, n, rng):
        """{kind: [(question, name of the document that it is about, or "")]}, n of each kind."""
        out = collections.defaultdict(list)
        for _ in range(n):
            name, headings, _ = rng.choice(self.documents)
            out["a name and a heading"].append((f"{name} {rng.choice(headings).lower()}", name))
            name, _, asked = rng.choice(self.documents)
            out["a sentence"].append((" ".join(rng.choice(asked).split(" ")[:12]), name))
            out["frequent words alone"].append((" ".join(rng.sample(self.frequent, rng.randint(2, 4))), ""))
        return out
