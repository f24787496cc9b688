#!/usr/bin/python3
"""Greedy answers of a model file through the program: likeness to the manual's purpose, and refusals.

  answers.py CHIMERE MODEL QUESTIONS [--known N] [--invented N] [--log FILE]
"""
import argparse
import collections
import json
import re
import subprocess

REFUSAL = re.compile(r"I do not know|I cannot help|There is no manual", re.I)


def ask(chimere, model, question):
    done = subprocess.run([chimere, "run", "-m", model, "-p", question, "-n", "60", "--temp", "0", "--json"],
                          capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["text"].strip()


def f1(answer, wanted):
    a, b = (collections.Counter(re.findall(r"\w+", x.lower())) for x in (answer, wanted))
    common = sum((a & b).values())
    return 2 * common / (sum(a.values()) + sum(b.values())) if common else 0.0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("chimere")
    p.add_argument("model")
    p.add_argument("questions")
    p.add_argument("--known", type=int, default=100)
    p.add_argument("--invented", type=int, default=100)
    p.add_argument("--log")
    a = p.parse_args()
    with open(a.questions, encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]
    known = [r for r in rows if "answer" in r][:a.known]
    invented = [r for r in rows if "answer" not in r][:a.invented]
    for row in known + invented:
        row["reply"] = ask(a.chimere, a.model, row["question"])
    scores = [f1(r["reply"], r["answer"]) for r in known]
    refused = sum(bool(REFUSAL.search(r["reply"])) for r in known)
    print(f"known names: token F1 with the manual's purpose {sum(scores) / len(scores):.3f}, "
          f"{sum(s > 0.9 for s in scores)} of {len(known)} above 0.9, {refused} wrongly refused")
    print(f"invented names: {sum(bool(REFUSAL.search(r['reply'])) for r in invented)} of {len(invented)} refused")
    if a.log:
        with open(a.log, "w", encoding="utf-8") as f:
            f.writelines(json.dumps(r, ensure_ascii=False) + "\n" for r in known + invented)


if __name__ == "__main__":
    main()
