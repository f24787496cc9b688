"""Invented names that no page is about, for questions that must be refused."""
import json
import os
import re

EVALUATION = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "models", "evaluation")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = """archive audio backup battery bench block board boot branch bridge buffer build bundle cache calendar camera cargo chain channel chart
check clean clock cloud cluster code color compare config connect console convert copy core count crypt dash data debug deploy desk diff disk
display dns docs download draw drive edit event fetch field file filter find fire fix flash flow folder font form forge frame gate gen graph
grid group guard hash heap help host image import index info input item job journal json kernel key label lab layer lease light line link list
load local lock log mail make map mark mask match media memory menu merge mesh meta mirror mix model monitor mount move name net node note
object open order pack page panel parse pass patch path peer ping pipe pixel plan play plot point pool port post power print probe process
profile proxy pull push query queue quick quota rank rate read record reg relay remote rename render repo reset ring root route rule run safe
sample save scan scene schema score screen script search sector secure send serve service session set shadow share shell shift show sign site
sketch slice smart snap sort sound source split stack stage star stat stock store stream string style super swap switch sync system table tag
tail task temp term test text thread tile time token tool touch trace track trade trash tree trim tunnel turbo type unit up user vault vector
verify view virtual voice volume wait walk watch wave web wheel window wire word work wrap write yaml zip zone""".split()
PREFIXES = ["x", "g", "k", "q", "py", "lib", "my", "open", "free", "mini", "nano", "u", "e", "i", "z", "auto", "fast", "n", "git-", "apt-", "deb", "xdg-", "dh_",
            "pg_", "net", "sys", "ip", "perl", "tex", "pdf", "gnome-", "k8s-"]
SUFFIXES = ["ctl", "d", "-tool", "tool", "fs", "2", "3", "-ng", "-cli", "admin", "conf", "info", "stat", "top", "rc", "sh", "x", "er", "-config", "-query", "mon",
            "-gtk", "-qt", "-utils", "util", "db", "dump", "view", "cat", "grep", "edit", "2html", "topdf", "-server", "-client", "-daemon", "ify", "r", "s", "_old"]


def evaluated():
    """Rows of the fixed evaluation sets that ask about a name."""
    for name in sorted(os.listdir(EVALUATION)):
        if name.endswith(".jsonl"):
            with open(os.path.join(EVALUATION, name), encoding="utf-8") as f:
                yield from (row for row in map(json.loads, f) if "name" in row)


def syllables(rng):
    return "".join(rng.choice("bcdfghjklmnpqrstvwxz") + rng.choice(["a", "e", "i", "o", "u", "u", "y", "ea", "oo"][:rng.choice([5, 9])]) +
                   rng.choice(["", "", "", "n", "r", "x", "l", "s", "ck", "t", "mp"]) for _ in range(rng.choice([1, 2, 2, 2, 3, 3])))


def misspelt(rng, name):
    """One or two slips of the fingers in a name."""
    letters = list(name)
    for _ in range(rng.choice([1, 1, 1, 2])):
        at, kind = rng.randrange(len(letters)), rng.random()
        if kind < 0.45:
            letters[at] = rng.choice(LETTERS)
        elif kind < 0.6:
            letters.insert(at, rng.choice(LETTERS))
        elif kind < 0.75 and len(letters) > 3:
            del letters[at]
        elif kind < 0.9 and at > 0:
            letters[at - 1], letters[at] = letters[at], letters[at - 1]
        else:
            letters.insert(at, letters[at])
    return "".join(letters)


def invent(rng, real, likeness):
    """One name; `likeness`: how often it is a misspelt real one."""
    kind = rng.random()
    if kind < likeness:
        return misspelt(rng, rng.choice(real))
    kind = rng.random()
    if kind < 0.35:
        word = syllables(rng)
        return rng.choice(["", "", "", rng.choice(PREFIXES)]) + word + rng.choice(["", "", rng.choice(SUFFIXES)])
    if kind < 0.55:
        return rng.choice(WORDS) + rng.choice(["", "", "-", "_"]) + rng.choice(WORDS) + rng.choice(["", "", "", rng.choice(SUFFIXES)])
    if kind < 0.7:
        return rng.choice(PREFIXES) + rng.choice(WORDS) if rng.random() < 0.5 else rng.choice(WORDS) + rng.choice(SUFFIXES)
    if kind < 0.85:
        name = rng.choice(real)
        return rng.choice(PREFIXES) + name if rng.random() < 0.4 else name + rng.choice(SUFFIXES)
    first, second = rng.choice(real), rng.choice(real)
    return first[:rng.randint(2, max(2, len(first) - 1))] + second[rng.randint(1, max(1, len(second) - 2)):]


class Inventor:
    """Names that are not in `known`, never the same twice. `usual`: real names that are misspelt as often as all others together."""

    def __init__(self, rng, known, usual, likeness=0.45):
        self.rng, self.likeness, self.taken = rng, likeness, {name.lower() for name in known}
        self.real, self.usual = ([n for n in sorted(names) if re.match(r"^[A-Za-z][\w.+-]{2,17}$", n)] for names in (known, usual))

    def __call__(self):
        while True:
            name = invent(self.rng, self.usual if self.usual and self.rng.random() < 0.5 else self.real, self.likeness)
            if 2 < len(name) < 24 and name.lower() not in self.taken and re.match(r"^[A-Za-z][\w.+-]*\w$", name):
                self.taken.add(name.lower())
                return name

    def slip(self, name):
        """A misspelling of one given name."""
        for _ in range(20):
            other = misspelt(self.rng, name)
            if len(other) > 2 and other.lower() not in self.taken and re.match(r"^[A-Za-z][\w.+-]*\w$", other):
                self.taken.add(other.lower())
                return other
        return self()
