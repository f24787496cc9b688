#!/usr/bin/env python3
"""A model without rounding, made of one in q4_0: every weight gets uniform noise of one step of its block, so that it lies anywhere
between the neighbours that q4_0 would round it from. Quantisers are compared on such models, because on the shipped ones q4_0 is exact.

  unround.py CHIMERE Q4_0.gguf OUT.gguf
"""
import json
import pathlib
import subprocess
import sys

import numpy

from quantize_table import read_tensors


def unround(chimere, source, out):
    report = subprocess.run([chimere, "quantize", source, "-o", out, "--type", "f32", "--json", "-q"], capture_output=True, check=True)
    types = {t["name"]: t["from"] for t in json.loads(report.stdout)["tensors"]}
    old, old_bytes = read_tensors(source)
    new, _ = read_tensors(out)
    random = numpy.random.default_rng(1)
    values = numpy.memmap(out, dtype=numpy.uint8, mode="r+")
    for name, (dims, offset, _) in new.items():
        if types[name] != "q4_0":
            continue
        count = int(numpy.prod(dims))
        blocks = numpy.frombuffer(old_bytes, dtype=numpy.uint8, count=count // 32 * 18, offset=old[name][1]).reshape(-1, 18)
        step = numpy.abs(blocks[:, :2].copy().view(numpy.float16).astype(numpy.float32))
        weights = values[offset:offset + 4 * count].view(numpy.float32).reshape(-1, 32)
        weights += step * random.uniform(-0.5, 0.5, weights.shape).astype(numpy.float32)
    values.flush()


def main():
    unround(*(pathlib.Path(word).absolute() for word in sys.argv[1:]))


if __name__ == "__main__":
    main()
