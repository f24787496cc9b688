#!/usr/bin/python3
"""Records llama.cpp's log-probabilities of a model for golden_test: record.py MODEL.gguf > MODEL.json

Needs node and the packages of tests/peer (npm ci there). KV in f32; the tokens are drawn from a fixed seed.
"""
import json
import pathlib
import random
import subprocess
import sys

PEER = pathlib.Path(__file__).resolve().parent.parent / "peer"
VOCABULARY = 96
LENGTHS = [5, 70, 133]  # within a chunk, across its end, across two


def main():
    model = str(pathlib.Path(sys.argv[1]).resolve())
    draw = random.Random(35)
    prompts = [[draw.randrange(VOCABULARY) for _ in range(n)] for n in LENGTHS]
    jobs = "".join(json.dumps({"model": model, "tokens": t, "kv": "F32"}) + "\n" for t in prompts)
    answers = subprocess.run(["node", "logits.mjs"], cwd=PEER, input=jobs, capture_output=True, text=True, check=True)
    sequences = []
    for tokens, line in zip(prompts, answers.stdout.splitlines(), strict=True):
        rows = json.loads(line)["positions"]
        last = len(tokens) - 1
        sequences.append({"tokens": tokens, "positions": [
            {"pos": p, "logits": [round(x, 5) for x in rows[p]]} for p in (0, last // 2, last - 1, last)]})
    print(json.dumps({"implementation": "llama.cpp (node-llama-cpp)", "sequences": sequences}))


main()
