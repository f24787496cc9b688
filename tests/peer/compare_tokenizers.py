#!/usr/bin/python3
"""Compares token ids with those of Hugging Face's tokenizers (the Rust library), line by line, over published vocabularies.

  compare_tokenizers.py --tokenizer PROGRAM [--lines 100000] [--only NAME] [--folder TMP] [--seed N]

PROGRAM is tests/peer/tokenize_lines. Each family is compared twice: with the text of special tokens read as those tokens, and as text.
"""
import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

from corpus import Corpus
from peer import node
from vocabularies import FAMILIES, UNICODE_8, added_texts, load, metadata, without_special, write_gguf

HERE = pathlib.Path(__file__).parent


def write_texts(path, lines):
    encoded = [line.encode() for line in lines]
    path.write_bytes(b"".join(struct.pack("<I", len(line)) + line for line in encoded))


def records(path):
    data = path.read_bytes()
    at = 0
    while at < len(data):
        count = struct.unpack_from("<I", data, at)[0]
        yield data[at + 4:at + 4 + 4 * count]
        at += 4 + 4 * count


def compare(args, name, folder, lines, special, tokenizer):
    theirs_json, texts = folder / "tokenizer.json", folder / "texts"
    theirs_json.write_text(json.dumps(tokenizer if special else without_special(tokenizer)), encoding="utf-8")
    write_texts(texts, lines)
    start = time.monotonic()
    subprocess.run([node(), HERE / "hf_tokenize.mjs", theirs_json, texts, folder / "theirs"], check=True)
    their_time = time.monotonic() - start
    flags = ["--special"] if special else []
    done = subprocess.run([args.tokenizer, folder / "model.gguf", texts, folder / "ours", *flags], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"{name}: {done.stderr}")
        return False
    ours = json.loads(done.stdout)
    differ = [(line, a, b) for line, a, b in zip(lines, records(folder / "theirs"), records(folder / "ours"), strict=True) if a != b]
    print(f"{name:16} {'special' if special else 'text':8} {len(lines):7} lines {ours['tokens']:9} tokens {len(differ):6} differ "
          f"{ours['lost']:6} changed by a round trip   {ours['seconds']:6.2f} s (theirs {their_time:.1f} s with start)", flush=True)
    for line, a, b in differ[:args.show]:
        print(f"  {line[:200]!r}\n    theirs {list(struct.unpack(f'<{len(a) // 4}I', a))[:40]}\n    ours   {list(struct.unpack(f'<{len(b) // 4}I', b))[:40]}")
    return not differ


LONG = {"qwen2": ("a", " ", "A中"), "llama2": ("a", " "), "bert rule": ("a", "!")}  # what is repeated in the longest texts


def long_texts(args, family, folder):
    """Texts of 1 MB and 10 MB of one word. They take seconds; where the time grows with the square it is days, which ctest's limit
    for hangs ends: how long they take is printed and judges nothing."""
    for unit in LONG.get(family, ()):
        seconds = []
        for size in (10**6, 10**7):
            write_texts(folder / "texts", [unit * (size // len(unit.encode()))])
            done = subprocess.run([args.tokenizer, folder / "model.gguf", folder / "texts", folder / "ours"], capture_output=True, text=True, check=True)
            seconds.append(json.loads(done.stdout)["seconds"])
        print(f"{family:16} 1 MB and 10 MB of {unit!r}: {seconds[0]:.2f} s, {seconds[1]:.2f} s", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--lines", type=int, default=100000)
    parser.add_argument("--only", action="append", choices=list(FAMILIES))
    parser.add_argument("--folder")
    parser.add_argument("--show", type=int, default=3, help="differing lines to print for each comparison")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    corpus = Corpus(args.seed, args.lines)
    ok = True
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = pathlib.Path(name)
        for family in args.only or FAMILIES:
            tokenizer = load(family, corpus.common)
            write_gguf(folder / "model.gguf", metadata(family, tokenizer))
            lines = corpus.lines(added_texts(tokenizer), unicode_8=family in UNICODE_8)
            ok &= compare(args, family, folder, lines, True, tokenizer)
            # The effect of added tokens shows in the adversarial lines.
            ok &= compare(args, family, folder, lines[-corpus.torture:], False, tokenizer)
            long_texts(args, family, folder)
    print(f"seed {args.seed}")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
