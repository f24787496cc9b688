#!/usr/bin/env python3
"""Questions about manual pages that the model has not been trained on, closed-book and with a collection of these pages.

  odo_grounded.py CHIMERE MODEL EVALUATION [--count 100] [--correct C --incorrect I] [--calibrate]

EVALUATION is the folder models/evaluation: heldout.docs has the pages, questions.jsonl the wordings and names of commands
that do not exist, rephrased.jsonl and reworded.jsonl other wordings. The pages are divided by name into two halves. The
collection has the pages of both but for those that are withheld: a quarter of the names that other pages mention.

  purpose      what a page's command is for: right if the content words of the answer and of the purpose have F1 >= 0.5
  option       what an option does: right if the answer has 0.6 of the content words of its description
  mentioned    a withheld name: passages mention it, none answers
  unknown      a name that does not exist

A citation is right if it names the page that was asked about. CRAG: `correct` for the first two, `ambiguous` for
mentioned names, `incorrect` for unknown ones; an answer abstains if it says that it does not know.
--calibrate asks the first half with the wordings of questions.jsonl and chooses the thresholds with the best macro-F1;
without it the second half is asked with the other wordings.
"""
import argparse
import json
import os
import pathlib
import random
import re
import statistics
import sys
import tempfile
import zlib

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "serving"))
from answer_grading import f1, words  # noqa: E402
from server import Server  # noqa: E402

CLASSES = ["correct", "ambiguous", "incorrect"]
CHAT = "/v1/chat/completions"


def pages_of(path):
    """Name to (purpose, text, [(option, description)]) of each page with a line of its name."""
    out = {}
    for text in open(path, errors="replace").read().split("\0"):
        head = re.match(r"NAME\n\s+([A-Za-z0-9_.+-]+) --? (.+)", text)
        if not head or head[1].lower() in (n.lower() for n in out):
            continue
        options = [(o[1], o[2].split(". ")[0]) for o in re.finditer(r"\n {4}(--[a-z-]{3,})\n {8}(\S[^\n]{20,})\n", text)]
        out[head[1]] = (head[2].strip(), text, options)
    return out


def wordings(path):
    seen = {}
    for line in open(path):
        row = json.loads(line)
        if row["question"].count(row["name"]) == 1:
            seen.setdefault(row["question"].replace(row["name"], "{}"), None)
    return [w for w in seen if w.count("{}") == 1]


def macro_f1(rows):
    """rows: (true class, predicted class)"""
    scores = []
    for c in CLASSES:
        tp = sum(t == c and p == c for t, p in rows)
        wrong = sum((t == c) != (p == c) for t, p in rows)
        scores.append(2 * tp / (2 * tp + wrong) if tp + wrong else 0.0)
    return statistics.mean(scores)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("evaluation")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--correct", type=float)
    parser.add_argument("--incorrect", type=float)
    parser.add_argument("--sure", type=float)
    parser.add_argument("--calibrate", action="store_true")
    o = parser.parse_args()
    evaluation = pathlib.Path(o.evaluation)
    pages = pages_of(evaluation / "heldout.docs")
    everything = {n: p[1] for n, p in pages.items()}
    mentioned = sorted(n for n in pages if len(n) > 3 and any(
        m != n and re.search(r"(?<![\w-])" + re.escape(n) + r"(?![\w-])", t) for m, t in everything.items()))
    withheld = set(random.Random(3).sample(mentioned, max(1, len(mentioned) // 4)))
    half = lambda name: zlib.crc32(name.encode()) % 2 == (0 if o.calibrate else 1)  # noqa: E731
    ways = wordings(evaluation / "questions.jsonl") if o.calibrate else [
        w for f in ("rephrased", "reworded") for w in wordings(evaluation / (f + ".jsonl"))]
    unknown = sorted({json.loads(line)["name"] for line in open(evaluation / "questions.jsonl") if '"purpose"' not in line})
    pick = random.Random(5)
    items = []
    for name in sorted(n for n in pages if n not in withheld and half(n)):
        items.append(("purpose", name, pick.choice(ways).format(name), pages[name][0], "correct"))
        for option, description in pick.sample(pages[name][2], min(2, len(pages[name][2]))):
            items.append(("option", name, f"What does the option {option} of {name} do?", description, "correct"))
    items += [("mentioned", n, pick.choice(ways).format(n), "", "ambiguous") for n in sorted(withheld) if half(n)]
    items += [("unknown", n, pick.choice(ways).format(n), "", "incorrect") for n in unknown if half(n)]
    kinds = ["purpose", "option", "mentioned", "unknown"]
    items = [i for k in kinds for i in (lambda rows: pick.sample(rows, min(o.count, len(rows))))([r for r in items if r[0] == k])]

    with tempfile.TemporaryDirectory() as home:
        pipelines = pathlib.Path(home) / "state" / "pipelines"
        pipelines.mkdir(parents=True)
        settings = "".join(f", {k}: {v}" for k, v in (("correct", o.correct), ("incorrect", o.incorrect), ("sure", o.sure)) if v is not None)
        for name, text in [("closed", "enrich: {when: never}"), ("grounded", "enrich: {when: always, only_passages: true" + settings + "}")]:
            (pipelines / (name + ".yaml")).write_text(f"name: {name}\nmode: fast\n{text}\n")
        os.environ["HOME"] = home
        server = Server(o.program, o.model, "--collections", home + "/collections", "--state-folder", home + "/state")
        try:
            server.post("/v1/collections", {"name": "pages"})
            rows = [{"name": n + ".txt", "text": t} for n, t in everything.items() if n not in withheld]
            for at in range(0, len(rows), 100):
                server.post("/v1/collections/pages/documents", {"documents": rows[at:at + 100]})
            info = server.get("/v1/collections/pages?limit=0")
            print(f"{info['documents']} pages, {info['chunks']} chunks; {len(ways)} wordings; "
                  + ", ".join(f"{k} {sum(i[0] == k for i in items)}" for k in kinds))
            results = []
            for kind, name, question, gold, true in items:
                row = {"kind": kind, "true": true}
                for pipeline in ("closed", "grounded"):
                    reply = server.post(CHAT, {"model": "odo:" + pipeline, "temperature": 0, "max_tokens": 64,
                                               "messages": [{"role": "user", "content": question}],
                                               **({"odo": {"collections": ["pages"]}} if pipeline == "grounded" else {})})
                    text, about = reply["choices"][0]["message"]["content"], reply["odo"]
                    right = (f1(text, gold, name) >= 0.5 if kind == "purpose" else
                             len(words(text) & words(gold)) >= 0.6 * len(words(gold)) if kind == "option" else None)
                    row[pipeline] = {"right": right, "text": text, "abstains": text.startswith("I do not know"),
                                     "verdict": about.get("passages"), "quoted": about.get("quoted", False),
                                     "best": max([s["relevance"] for s in about["sources"]], default=0.0),
                                     "cited": [s["document"] == name + ".txt" for s in about["sources"] if s["cited"]]}
                results.append(row)
                if os.environ.get("SHOW"):
                    print(kind, "|", question, "|", gold, "|", row["grounded"]["text"], "|", row["grounded"]["verdict"], row["grounded"]["right"])
        finally:
            server.close()
    share = lambda values: statistics.mean(values) if values else float("nan")  # noqa: E731
    for kind in kinds[:2]:
        rows = [r for r in results if r["kind"] == kind]
        if rows:
            print(f"{kind}: closed-book {share([r['closed']['right'] for r in rows]):.3f} right, with passages "
                  f"{share([r['grounded']['right'] for r in rows]):.3f}; quoted {share([r['grounded']['quoted'] for r in rows]):.2f}, "
                  f"falsely abstains {share([r['grounded']['abstains'] for r in rows]):.3f}")
    citations = [c for r in results if r["true"] == "correct" for c in r["grounded"]["cited"]]
    print(f"citations: {share(citations):.3f} of {len(citations)} right")
    for kind in kinds[2:]:
        print(f"{kind}: abstains {share([r['grounded']['abstains'] for r in results if r['kind'] == kind]):.3f}")
    print(f"CRAG: macro-F1 {macro_f1([(r['true'], r['grounded']['verdict']) for r in results]):.3f}")
    if o.calibrate:
        # `best` is 0 where the passages were thrown away; ask with --incorrect 0 to calibrate.
        best = max((macro_f1([(r["true"], "correct" if r["grounded"]["best"] >= c / 100 else
                               "ambiguous" if r["grounded"]["best"] >= i / 100 else "incorrect") for r in results]), -c, i)
                   for c in range(5, 100, 5) for i in range(0, c + 1, 5))
        print(f"calibrated: correct {-best[1] / 100}, incorrect {best[2] / 100}, macro-F1 {best[0]:.3f}")


if __name__ == "__main__":
    main()
