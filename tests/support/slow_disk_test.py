#!/usr/bin/env python3
"""The library of scripts/slow-disk delays writes, truncates, syncs and renames, and does not delay reads.

  slow_disk_test.py LIBRARY
"""
import os
import subprocess
import sys
import tempfile

DELAY = 0.05  # seconds
# Code that a child runs in an empty folder, and its minimum number of delays: only lower bounds hold on every machine.
CASES = [("open(name, 'w').close()", 1),
         ("os.close(os.open(name, os.O_WRONLY | os.O_CREAT))", 1),
         ("os.truncate(name, 3)", 1),
         ("os.rename(name, name + 'x'); os.replace(name + 'x', name)", 2),
         ("f = os.open(name, os.O_RDONLY); os.fsync(f); os.fdatasync(f); os.close(f)", 2),
         ("f = os.open(name, os.O_RDWR); os.ftruncate(f, 5); os.close(f)", 2)]
CHILD = """
import os, sys, time
name = sys.argv[1]
begun = time.monotonic()
exec(sys.argv[2])
print(time.monotonic() - begun, os.path.getsize(name), sep=" ")
"""


def seconds(folder, code, delay):
    environment = {**os.environ, "LD_PRELOAD": sys.argv[1], "SLOW_DISK_MICROSECONDS": str(int(delay * 1e6))}
    done = subprocess.run([sys.executable, "-c", CHILD, folder + "/file", code], env=environment, capture_output=True, text=True,
                          check=True)
    return float(done.stdout.split()[0]), int(done.stdout.split()[1])


def main():
    with tempfile.TemporaryDirectory() as folder:
        for code, delays in CASES:
            took, size = seconds(folder, code, DELAY)
            assert took >= delays * DELAY, f"{code}: {took} s for {delays} delays"
        assert size == 5, size
        # Reads are not delayed: with a delay of an hour the child would time out.
        assert seconds(folder, "open(name).read(); os.listdir('.')", 3600)[1] == 5
    print(f"{len(CASES)} kinds of calls are delayed")


main()
