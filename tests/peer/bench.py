#!/usr/bin/python3
"""Speed beside llama.cpp: same file, same machine, same threads, alternating runs.

  bench.py --chimere PROGRAM [--model FILE ..] [--prompt 256] [--decode 64] [--runs 5] [--threads 2]

Without --model: the shipped model and a synthetic file of about 0.8 GB (written to --folder once). llama.cpp runs with and without
flash attention and with the KV types that each prefers (f16); the faster setting counts. Its figures are by its own clock,
without the time of the JavaScript around it; ours are what `chimere bench` prints. Medians over the runs; `worst ratio` is the
lowest of the runs' own ratios.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile

from peer import Peer, chimere

ROOT = pathlib.Path(__file__).resolve().parents[2]


def our_speed(args, model):
    rows = chimere(args.chimere, "bench", "-m", model, "-p", args.prompt, "-n", args.decode, "-b", 1, "-r", 1,
                   "--threads", args.threads)
    speed = {row["test"]: row["tok_s"] for row in rows}
    return {"prompt": speed[f"pp{args.prompt}"], "decode": speed[f"tg{args.decode}"]}


def bench(args, model):
    settings = {"flash off": [], "flash on": ["--flash"]}
    peers = {name: Peer("speed.mjs", model, "--threads", args.threads, *flags) for name, flags in settings.items()}
    ours, theirs = [], {name: [] for name in peers}
    for run in range(args.runs + 1):
        mine = our_speed(args, model)
        rows = {}
        for name, peer in peers.items():
            answer = peer.ask({"prompt": args.prompt, "decode": args.decode})
            rows[name] = {"prompt": answer["prompt_tok_s"], "decode": answer["decode_tok_s"]}
        if run == 0:
            continue  # fills the page cache
        ours.append(mine)
        for name, row in rows.items():
            theirs[name].append(row)
    for peer in peers.values():
        with peer:
            pass
    result = {}
    for what in ("prompt", "decode"):
        mine = [run[what] for run in ours]
        best = max(theirs, key=lambda name: statistics.median(run[what] for run in theirs[name]))
        other = [run[what] for run in theirs[best]]
        ratio = statistics.median(mine) / statistics.median(other)
        worst = min(a / b for a, b in zip(mine, other))
        result[what] = ratio
        size = pathlib.Path(model).stat().st_size / 1e9
        print(f"{pathlib.Path(model).name:24} {size:6.2f} GB  {what:7} {statistics.median(mine):10.2f} "
              f"{statistics.median(other):10.2f} ({best}) {ratio:7.2f} {worst:7.2f}", flush=True)
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--chimere", required=True)
    parser.add_argument("--model", action="append")
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--decode", type=int, default=64)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", default=tempfile.gettempdir())
    parser.add_argument("--at-least", type=float, help="fail when a decode ratio is below this")
    args = parser.parse_args()
    models = args.model
    if not models:
        synthetic = pathlib.Path(args.folder) / "chimere-synthetic-1.6b-a0.4b.gguf"
        if not synthetic.exists():
            subprocess.run([ROOT / "bench" / "synth_gguf.py", synthetic, "--size", "1.6b-a0.4b"], check=True)
        models = [ROOT / "models" / "chimere-mini.gguf", synthetic]
    print(f"{'file':24} {'size':>9}  {'':7} {'chimere':>10} {'llama.cpp':>10} {'':11} {'ratio':>7} {'worst':>7}   tok/s, "
          f"{args.threads} threads, medians of {args.runs}")
    slow = [model for model in models if bench(args, model)["decode"] < (args.at_least or 0)]
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
