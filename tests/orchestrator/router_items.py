"""Questions of different difficulty with graders, for router.py: purposes of commands in easy and in unusual wordings, several
commands at once, statements to choose from, pages to read, options, tasks, sums, constraints and names that do not exist."""
import json
import pathlib
import random
import re
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
from answer_grading import f1, words  # noqa: E402

REFUSAL = re.compile(r"\b(do not|don't) know\b", re.I)
OPTIONS = [  # command, what the option does, its spellings
    ("sort", "reverse the result of comparisons", "-r --reverse"), ("sort", "compare according to string numerical value", "-n --numeric-sort"),
    ("ls", "do not ignore entries starting with .", "-a --all"), ("ls", "use a long listing format", "-l"), ("grep", "ignore case distinctions", "-i --ignore-case"),
    ("grep", "select non-matching lines", "-v --invert-match"), ("tar", "extract files from an archive", "-x --extract --get"),
    ("tar", "create a new archive", "-c --create"), ("gzip", "decompress", "-d --decompress --uncompress"), ("cp", "copy directories recursively", "-r -R --recursive"),
    ("rm", "ignore nonexistent files and arguments, never prompt", "-f --force"), ("mkdir", "make parent directories as needed", "-p --parents"),
    ("wc", "print the newline counts", "-l --lines"), ("uniq", "prefix lines by the number of occurrences", "-c --count"),
    ("du", "display only a total for each argument", "-s --summarize"), ("df", "print sizes in powers of 1024", "-h --human-readable"),
    ("ln", "make symbolic links instead of hard links", "-s --symbolic"), ("cut", "select only these fields", "-f --fields"),
    ("head", "print the first NUM lines", "-n --lines"), ("cat", "number all output lines", "-n --number")]
TASKS = [  # task, a command that does it, as an expression
    ("list all files including hidden ones", r"ls -\w*[aA]"), ("search for a word in a file", r"grep"), ("count the lines of a file", r"wc -l"),
    ("copy a directory", r"cp -\w*[rRa]"), ("rename a file", r"\bmv\b"), ("create a directory", r"mkdir"), ("see the last lines of a file", r"tail"),
    ("remove duplicate lines", r"uniq|sort -u"), ("find a file by name", r"find"), ("show free disk space", r"\bdf\b"),
    ("show running processes", r"\bps\b|\btop\b"), ("make a file executable", r"chmod (\+|u\+|a\+|7)\w*"), ("change the owner of a file", r"chown"),
    ("extract an archive", r"tar -?\w*x|unzip"), ("compress a file", r"gzip|xz|bzip2|zstd"), ("compare two files", r"\bdiff\b|\bcmp\b"),
    ("install a package", r"apt(-get)? install|dpkg -i"), ("create a symbolic link", r"ln -s"), ("show my user name", r"whoami|\bid\b"),
    ("show memory usage", r"\bfree\b|vmstat|\btop\b"), ("clone a repository", r"git clone"), ("compute a checksum", r"sum\b")]
CONSTRAINED = ["State what {n} must be used for in at most {k} words, without the word '{n}'.",
               "What is {n} for? The answer must have exactly one sentence and at least 3 but at most {k} words.",
               "Purpose of {n}, only the purpose, at most {k} words; it should not name an option and must not be a question."]
SEVERAL = ["What does {a} do, and what does {b} do?", "What is each of these for?\n1. {a}\n2. {b}\n3. {c}",
           "First say what {a} does, then what {b} does, and finally what {c} does.",
           "Compare {a} and {b}: what is each of them for?"]
HARD = ["Explain step by step why one would run {a} and what it does. Then evaluate whether {b} is needed, and justify what {b} is for.",
        "Analyze this plan:\n1. run {a}\n2. run {b}\nWhy should both run? Explain what each of them does, and compare their purposes.",
        "Design a script that must use {a} without {b}. Explain why, step by step: what does {a} do, and what does {b} do?"]


def purpose_grader(name, purpose):
    return lambda text: f1(text, purpose, name) >= 0.5


def several_grader(pairs):
    """Half of the content words of each purpose."""
    return lambda text: all(len(words(text) & words(p)) >= 0.5 * len(words(p) - words(n)) for n, p in pairs)


def constrained_grader(name, purpose, most):
    return lambda text: f1(text, purpose, name) >= 0.5 and len(text.split()) <= most


def option_grader(spellings):
    return lambda text: any(re.search(r"(?<![\w-])" + re.escape(s) + r"(?![\w-])", text) for s in spellings.split())


def number_grader(value):
    return lambda text: value in [int(n) for n in re.findall(r"(?<![\d.])-?\d+(?![\d.]*\d)", text.replace(",", ""))]


def statement_grader(name, statements, right):
    """The statement, of the four, that the answer has most in common with."""
    def right_one(text):
        number = re.match(r"\s*(?:answer:? )?\(?([1-4])\)?[.:]?\s*$", text, re.I)
        if number:
            return int(number[1]) - 1 == right
        scores = [f1(text, s, name) for s in statements]
        return scores[right] > 0.3 and scores[right] == max(scores) and scores.count(max(scores)) == 1
    return right_one


def rows_of(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def pages_of(path):
    """(name, purpose, text) of short pages."""
    out = []
    with open(path, errors="replace", encoding="utf-8") as f:
        texts = f.read().split("\0")
    for text in texts:
        head = re.match(r"NAME\n\s+([A-Za-z0-9_.+-]+) --? (.+)", text)
        if head and 200 < len(text) < 6000 and len(words(head[2]) - words(head[1])) >= 2:
            out.append((head[1], head[2].strip(), text[:900].rsplit("\n", 1)[0]))
    return out


def items(evaluation, seed, count=None):
    """(kind, question, grader), one of each kind after the other; count: of each kind."""
    rng = random.Random(seed)
    evaluation = pathlib.Path(evaluation)
    easy = [r for r in rows_of(evaluation / "questions.jsonl") if "purpose" in r and len(words(r["purpose"]) - words(r["name"])) >= 2]
    invented = [r for r in rows_of(evaluation / "questions.jsonl") if "purpose" not in r]
    other = [r for r in rows_of(evaluation / "reworded.jsonl") if "purpose" in r and len(words(r["purpose"]) - words(r["name"])) >= 2]
    kinds = {}
    kinds["purpose"] = [(r["question"], purpose_grader(r["name"], r["purpose"])) for r in rng.sample(easy, 40)]
    kinds["reworded"] = [(r["question"], purpose_grader(r["name"], r["purpose"])) for r in rng.sample(other, 40)]
    kinds["invented"] = [(r["question"], lambda text: bool(REFUSAL.search(text))) for r in rng.sample(invented, 25)]
    kinds["statement"] = []
    for r in rng.sample([r for r in easy if len(r["wrong"]) == 3], 25):
        statements = [r["answer"], *r["wrong"]]
        order = rng.sample(range(4), 4)
        listed = "\n".join(f"{i + 1}. {statements[s]}" for i, s in enumerate(order))
        kinds["statement"].append((f"Which of these is right for {r['name']}?\n{listed}",
                                   statement_grader(r["name"], [statements[s] for s in order], order.index(0))))
    for kind, ways, n in (("several", SEVERAL, 24), ("hard", HARD, 24)):
        kinds[kind] = []
        for i in range(n):
            way, chosen = ways[i % len(ways)], rng.sample(easy, 3)
            pairs = [(r["name"], r["purpose"]) for r, key in zip(chosen, "abc") if "{" + key + "}" in way]
            kinds[kind].append((way.format(**{k: r["name"] for r, k in zip(chosen, "abc")}), several_grader(pairs)))
    kinds["constrained"] = [(CONSTRAINED[i % 3].format(n=r["name"], k=14), constrained_grader(r["name"], r["purpose"], 14))
                            for i, r in enumerate(rng.sample(easy, 24))]
    kinds["page"] = [(f"Here is a manual page:\n\n```\n{text}\n```\n\nWhat is {name} for?", purpose_grader(name, purpose))
                     for name, purpose, text in rng.sample(pages_of(evaluation / "heldout.docs"), 24)]
    kinds["option"] = [(f"Which option of {c} does this: {d}?", option_grader(s)) for c, d, s in OPTIONS]
    kinds["task"] = [(f"How do I {t}?", lambda text, e=e: bool(re.search(e, text))) for t, e in TASKS]
    kinds["sum"] = []
    for i in range(24):
        a, b, c = rng.randrange(2, 60), rng.randrange(2, 60), rng.randrange(2, 9)
        text, value = [(f"{a} + {b}", a + b), (f"{a} * {c}", a * c), (f"({a} + {b}) * {c}", (a + b) * c)][i % 3]
        kinds["sum"].append((["Calculate {}.", "How much is {}?"][i % 2].format(text), number_grader(value)))
    ordered = {kind: rng.sample(rows, len(rows))[:count or len(rows)] for kind, rows in kinds.items()}
    return [(kind, *rows[i]) for i in range(max(map(len, ordered.values()))) for kind, rows in ordered.items() if i < len(rows)]
