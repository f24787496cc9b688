#!/usr/bin/env python3
"""Time from starting `chimere run "question"` on a pseudo-terminal to the first byte of its answer, with a warm page cache.

  bench/first_token.py PROGRAM [--runs N] [--question TEXT] [--limit SECONDS] [-- FLAGS ..]

FLAGS follow the question, such as -m MODEL. Standard output is the terminal; standard error, with its notes, is dropped, so
that the first byte on the terminal is the answer's. Prints the median, least and greatest of N runs after one that is not
counted, and the processor time to the end of an answer of one token. With --limit, fails if the median is above it.
"""
import argparse
import os
import pty
import resource
import select
import statistics
import subprocess
import sys
import time


def first_byte(command):
    """Seconds until the answer begins."""
    terminal, program_side = pty.openpty()
    begun = time.monotonic()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=program_side, stderr=subprocess.DEVNULL) as process:
        os.close(program_side)
        ready, _, _ = select.select([terminal], [], [], 60)
        seconds = time.monotonic() - begun
        text = os.read(terminal, 4096) if ready else b""
        process.kill()
    os.close(terminal)
    if not text:
        sys.exit(f"first_token: no answer: {' '.join(command)}")
    return seconds


def processor_seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--question", default="What does ls do?")
    parser.add_argument("--limit", type=float)
    parser.add_argument("flags", nargs="*")
    args = parser.parse_args()
    command = [args.program, "run", args.question, *args.flags]
    first_byte(command)
    times = [first_byte(command) for _ in range(args.runs)]
    user, system = processor_seconds([*command, "-n", "1"])
    median = statistics.median(times)
    print(f"first token: median {median:.3f} s of {args.runs} runs ({min(times):.3f} to {max(times):.3f}); "
          f"processor time with one token: {user:.3f} s user, {system:.3f} s system")
    if args.limit is not None and median > args.limit:
        sys.exit(f"first_token: more than {args.limit} s")


if __name__ == "__main__":
    main()
