#!/usr/bin/env python3
"""Errors of our weight encoders beside llama.cpp's on 20 tensors of a shipped model, without importance and with it.

  encoder_errors.py --chimere PROGRAM --compare COMPARE_ENCODERS --library LIBGGML_BASE --model Q4_0.gguf --text TEXT --folder FOLDER

The shipped weights are exact in q4_0, so the tensors are those of unround.py. The importance matrix is that of MODEL over the first
BYTES of TEXT. Prints the table of compare_encoders; fails if one of our mean errors is larger than llama.cpp's.
"""
import argparse
import pathlib
import subprocess
import sys

from unround import unround

BYTES = 40_000


def main():
    parser = argparse.ArgumentParser()
    for name in ("chimere", "compare", "library", "model", "text", "folder"):
        parser.add_argument("--" + name, required=True, type=lambda word: pathlib.Path(word).absolute())
    arguments = parser.parse_args()
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    text, matrix, weights = (folder / name for name in ("calibration.txt", "imatrix.gguf", "unrounded.gguf"))
    text.write_bytes(arguments.text.read_bytes()[:BYTES])
    subprocess.run([arguments.chimere, "imatrix", arguments.model, "-f", text, "-o", matrix, "-q"], check=True)
    unround(arguments.chimere, arguments.model, weights)
    sys.exit(subprocess.run([arguments.compare, arguments.library, weights, matrix], check=False).returncode)


if __name__ == "__main__":
    main()
