#!/usr/bin/env python3
"""Kills processes that write a prefix cache, at random points; the next one must start, find no damaged file, and give the
same answers as a cold run.

  kill_test.py PREFIX_CACHE_WORKER TIMES
"""
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from limits import HANG  # noqa: E402

WORKER, TIMES = sys.argv[1], int(sys.argv[2])
SEED = int(os.environ.get("TEST_SEED", random.randrange(1 << 32)))


def check(folder):
    """How many conversations were found on disk."""
    done = subprocess.run([WORKER, "check", folder], capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stderr
    hits, rejected = map(int, done.stdout.split())
    assert rejected == 0, f"{rejected} damaged files"
    partial = [p for p in pathlib.Path(folder).rglob("*") if p.is_file() and p.suffix != ".prefix"]
    assert not partial, f"left behind: {partial}"
    return hits


def main():
    print(f"seed {SEED}")
    draw = random.Random(SEED)
    hits = 0
    with tempfile.TemporaryDirectory() as folder:
        for i in range(TIMES):
            with subprocess.Popen([WORKER, "write", folder, str(draw.randrange(1 << 30))], stdout=subprocess.PIPE) as writer:
                assert writer.stdout.readline() == b"ready\n", f"start {i} failed"
                # The first one saves something in any case: whatever the disk's speed, there is something to find.
                for _ in range(draw.randrange(4) if i else 1):
                    assert writer.stdout.readline() == b"saved\n"
                time.sleep(draw.uniform(0, 0.05))
                writer.kill()
            if i % 10 == 9:
                hits = check(folder)
    assert hits > 0, "nothing was ever found on disk; this run proves nothing"
    print(f"{TIMES} kills, {hits} conversations found on disk")


main()
