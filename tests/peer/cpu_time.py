#!/usr/bin/python3
"""Compares CPU time per token with llama.cpp's on one thread, for machines that other work shares.

  cpu_time.py --bench build/tests/bench/cpu_time_bench --model FILE [--prompt 128] [--decode 16] [--runs 5] [--flash]

The programs run in turns. Ours is what cpu_time_bench prints; llama.cpp's (of node-llama-cpp) is the CPU time of its process for a
prompt and one step, and for a short prompt and many steps. Prints each run, then the medians of the ratios (above 1: ours takes less
time), and of the share of the rate of plain reads that our decode steps reach.
"""
import argparse
import json
import os
import statistics
import subprocess

from peer import Peer

SHORT = 8  # tokens of the prompt before the decode steps


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bench", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--decode", type=int, default=16)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--flash", action="store_true", help="flash attention in llama.cpp")
    args = parser.parse_args()
    ratios = {"prompt": [], "decode": [], "share of reads": []}
    with Peer("speed.mjs", args.model, "--threads", 1, *(["--flash"] if args.flash else [])) as peer:
        def milliseconds(prompt, decode):
            start = cpu_seconds(peer.process.pid)
            peer.ask({"prompt": prompt, "decode": decode})
            return 1e3 * (cpu_seconds(peer.process.pid) - start)

        milliseconds(SHORT, 2)  # fills the page cache
        for _ in range(args.runs):
            done = subprocess.run([args.bench, args.model, str(args.prompt), str(args.decode)], check=True, capture_output=True, text=True)
            ours = json.loads(done.stdout)
            prompt = milliseconds(args.prompt, 1) / (args.prompt + 1)
            decode = (milliseconds(SHORT, args.decode) - SHORT * prompt) / args.decode
            print(f"ours {ours}  llama.cpp prompt {prompt:.2f} decode {decode:.2f} ms", flush=True)
            ratios["prompt"].append(prompt / ours["prompt_ms"])
            ratios["decode"].append(decode / ours["decode_ms"])
            ratios["share of reads"].append(ours["decode_gb_s"] / ours["read_gb_s"])
    for what, values in ratios.items():
        print(f"{what:14} median {statistics.median(values):.2f}  lowest {min(values):.2f}")


if __name__ == "__main__":
    main()
