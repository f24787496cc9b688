#!/usr/bin/env python3
"""Questions about commands, answered closed-book, with passages of the manual pages of this machine, and by the
confidence trigger between the two.

  odo_questions.py CHIMERE MODEL QUESTIONS [--count 100] [--tokens 40]

An answer is right if its content words and those of the command's purpose have F1 >= 0.5. Prints the share of right
answers, the area under the ROC curve of the probe's confidence for closed-book answers being right, how often passages
were retrieved, the tokens of an answer, and the time that the orchestrator adds to a request that needs nothing.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "serving"))
from answer_grading import f1  # noqa: E402
from server import Server, environment  # noqa: E402

PIPELINES = {
    "closed": "name: closed\nmode: fast\nenrich: {when: never}\n",
    "always": "name: always\nmode: fast\nenrich: {when: always, collections: [pages]}\n",
    "trigger": "name: trigger\nmode: fast\nenrich: {when: auto, collections: [pages], confidence: %s}\n",
}


def auroc(scores):
    """scores: (confidence, right)"""
    right = [c for c, r in scores if r]
    wrong = [c for c, r in scores if not r]
    if not right or not wrong:
        return float("nan")
    return sum((a > b) + 0.5 * (a == b) for a in right for b in wrong) / (len(right) * len(wrong))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("questions")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--confidence", default="0.75")
    options = parser.parse_args()
    rows = [json.loads(line) for line in open(options.questions)]
    with tempfile.TemporaryDirectory() as home:
        pages = pathlib.Path(home) / "pages"
        pages.mkdir()
        asked = []
        for row in rows:
            found = [p for s in "18" for p in pathlib.Path(f"/usr/share/man/man{s}").glob(row["name"] + f".{s}*")]
            if found and len(asked) < options.count:
                shutil.copyfile(found[0], pages / found[0].name)
                asked.append(row)
        folder = ["--collections", home + "/collections", "--embedding-model", "none"]
        began = time.time()
        subprocess.run([options.program, "collection", "add", *folder, "pages", str(pages)], check=True,
                       env=environment(home), stdout=subprocess.DEVNULL)
        print(f"{len(asked)} questions, {len(list(pages.iterdir()))} manual pages, indexed in {time.time() - began:.1f} s")
        pipelines = pathlib.Path(home) / "state" / "pipelines"
        pipelines.mkdir(parents=True)
        for name, text in PIPELINES.items():
            (pipelines / (name + ".yaml")).write_text(text % options.confidence if "%" in text else text)
        os.environ["HOME"] = home
        server = Server(options.program, options.model, *folder[:2], "--state-folder", home + "/state")
        try:
            confidences = []
            closed_right = {}
            for name in PIPELINES:
                right, retrieved, tokens, cited = 0, 0, [], 0
                for i, row in enumerate(asked):
                    reply = server.post("/v1/chat/completions", {
                        "model": "odo:" + name, "temperature": 0, "max_tokens": options.tokens,
                        "messages": [{"role": "user", "content": row["question"]}]})
                    good = f1(reply["choices"][0]["message"]["content"], row["purpose"], row["name"]) >= 0.5
                    if name == "closed":
                        closed_right[i] = good
                    right += good
                    retrieved += bool(reply["odo"].get("passages"))
                    cited += any(s["cited"] for s in reply["odo"]["sources"])
                    tokens.append(reply["usage"]["prompt_tokens"] + reply["usage"]["completion_tokens"])
                    if name == "trigger":
                        confidences.append((reply["odo"]["scores"]["confidence"], closed_right[i]))
                print(f"{name}: {right / len(asked):.3f} right, passages for {retrieved / len(asked):.2f}, "
                      f"cited {cited / len(asked):.2f}, {statistics.mean(tokens):.0f} tokens a question")
            print(f"AUROC of the probe's confidence: {auroc(confidences):.3f}")
            times = {"odo": [], server.model: []}
            for _ in range(40):
                for model, values in times.items():
                    start = time.perf_counter()
                    server.post("/v1/chat/completions", {"model": model, "max_tokens": 1, "reasoning_effort": "none",
                                                         "messages": [{"role": "user", "content": "What does ls do?"}]})
                    values.append(time.perf_counter() - start)
            added = statistics.median(times["odo"]) - statistics.median(times[server.model])
            print(f"added to a request that needs nothing: {added * 1000:.2f} ms")
        finally:
            server.close()


if __name__ == "__main__":
    main()
