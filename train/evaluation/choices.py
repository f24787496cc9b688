#!/usr/bin/python3
"""Known commands: is the right purpose likelier than three near distractors?

  choices.py write QUESTIONS OUT     conversations that end in each answer, for chimere-vocabulary encode --special yes
  choices.py read QUESTIONS SCORES   share of questions won, from the lines that chimere-train score printed
"""
import json
import sys


def load(path):
    with open(path, encoding="utf-8") as f:
        return [row for row in map(json.loads, f) if "wrong" in row]


def conversation(question, answer):
    return (f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n{answer}<|im_end|>\n")


def main():
    what, questions, path = sys.argv[1:]
    rows = load(questions)
    if what == "write":
        with open(path, "w", encoding="utf-8") as f:
            for row in rows:
                for answer in (row["answer"], *row["wrong"]):
                    f.write(conversation(row["question"], answer) + "\0")
        return
    with open(path, encoding="utf-8") as f:
        scores = [float(line.split()[0]) / float(line.split()[1]) for line in f if line[0] in "-0123456789"]
    at = won = 0
    for row in rows:
        right, *wrong = scores[at:at + 1 + len(row["wrong"])]
        at += 1 + len(row["wrong"])
        won += all(right > w for w in wrong)
    print(f"{won} of {len(rows)} questions: {100 * won / len(rows):.1f}%")


if __name__ == "__main__":
    main()
