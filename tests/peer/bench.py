#!/usr/bin/python3
"""Compares speed with llama.cpp: same file, same machine, same threads, alternating runs.

  bench.py --chimere PROGRAM [--model FILE ..] [--prompt 256] [--decode 64] [--runs 5] [--threads 2]
           [--llama-bench PROGRAM [--settings "-rtr 1" ..]] [--skip-node]

Without --model: the shipped model and a synthetic file of about 0.8 GB (written to --folder once). llama.cpp (of node-llama-cpp) runs
with and without flash attention and with the KV types that each prefers (f16). A llama-bench given by its path, such as
ik_llama.cpp's, runs with each of --settings. Peers' figures are by their own clocks, without loading; ours are what `chimere bench`
prints. Each peer counts with the setting of the highest median; medians over the runs, and the lowest ratio of a single run.
"""
import argparse
import json
import math
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


class Node:
    """llama.cpp in node-llama-cpp: the model stays loaded between runs."""
    name = "llama.cpp"

    def __init__(self, args, model, flags):
        self.setting = " ".join(flags) or "no flash"
        self.peer = Peer("speed.mjs", model, "--threads", args.threads, *flags)
        self.job = {"prompt": args.prompt, "decode": args.decode}

    def speed(self):
        answer = self.peer.ask(self.job)
        return {"prompt": answer["prompt_tok_s"], "decode": answer["decode_tok_s"]}

    def close(self):
        with self.peer:
            pass


class LlamaBench:
    """A program with the options and the JSON of llama-bench; loads the model for each run."""

    def __init__(self, args, model, setting):
        self.name = args.llama_bench_name
        self.setting = setting or "defaults"
        self.command = [args.llama_bench, "-m", model, "-p", str(args.prompt), "-n", str(args.decode), "-r", "1",
                        "-t", str(args.threads), "-o", "json", *setting.split()]

    def speed(self):
        done = subprocess.run(self.command, check=True, capture_output=True, text=True)
        rows = json.loads(done.stdout)
        return {"prompt" if row["n_gen"] == 0 else "decode": row["avg_ts"] for row in rows}

    def close(self):
        pass


def bench(args, model):
    """Prints a row for each peer and kind; the lowest decode ratio of them."""
    peers = [Node(args, model, flags) for flags in ([], ["--flash"])] if not args.skip_node else []
    if args.llama_bench:
        peers += [LlamaBench(args, model, setting) for setting in args.settings or [""]]
    ours, theirs = [], [[] for _ in peers]
    for run in range(args.runs + 1):
        mine = our_speed(args, model)
        rows = [peer.speed() for peer in peers]
        if run == 0:
            continue  # fills the page cache
        ours.append(mine)
        for runs, row in zip(theirs, rows):
            runs.append(row)
    for peer in peers:
        peer.close()
    lowest = math.inf
    size = pathlib.Path(model).stat().st_size / 1e9
    for what in ("prompt", "decode"):
        mine = [run[what] for run in ours]
        for name in dict.fromkeys(peer.name for peer in peers):
            settings = [(peer.setting, [run[what] for run in runs]) for peer, runs in zip(peers, theirs) if peer.name == name]
            setting, other = max(settings, key=lambda item: statistics.median(item[1]))
            ratio = statistics.median(mine) / statistics.median(other)
            worst = min(a / b for a, b in zip(mine, other))
            if what == "decode":
                lowest = min(lowest, ratio)
            print(f"{pathlib.Path(model).name:24} {size:6.2f} GB  {what:7} {statistics.median(mine):10.2f} "
                  f"{statistics.median(other):10.2f} {ratio:7.2f} {worst:7.2f}  {name} ({setting})", flush=True)
    return lowest


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--chimere", required=True)
    parser.add_argument("--model", action="append")
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--decode", type=int, default=64)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--llama-bench", help="a llama-bench program to run as well")
    parser.add_argument("--llama-bench-name", default="llama-bench", help="what to call it in the table")
    parser.add_argument("--settings", action="append", help='options of it to try, like "-rtr 1" or ""; may be repeated')
    parser.add_argument("--skip-node", action="store_true", help="leave node-llama-cpp out")
    parser.add_argument("--folder", default=tempfile.gettempdir())
    parser.add_argument("--at-least", type=float, help="fail when a decode ratio is below this")
    args = parser.parse_args()
    models = args.model
    if not models:
        synthetic = pathlib.Path(args.folder) / "chimere-synthetic-1.6b-a0.4b.gguf"
        if not synthetic.exists():
            subprocess.run([ROOT / "bench" / "synth_gguf.py", synthetic, "--size", "1.6b-a0.4b"], check=True)
        models = [ROOT / "models" / "chimere-mini.gguf", synthetic]
    print(f"{'file':24} {'size':>9}  {'':7} {'chimere':>10} {'peer':>10} {'ratio':>7} {'worst':>7}  tok/s, "
          f"{args.threads} threads, medians of {args.runs}")
    slow = [model for model in models if bench(args, model) < (args.at_least or 0)]
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
