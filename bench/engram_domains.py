#!/usr/bin/python3
"""Perplexity of held-out domains behind tables made of each domain's other documents, and of unrelated text.

  engram_domains.py CHIMERE MODEL TEXTS EVALUATION [--bytes N]

TEXTS: what `train/corpus/domains.py TEXTS --without EVALUATION` wrote; EVALUATION: models/evaluation. Builds a table of
each domain beside its texts, then prints a Markdown table: perplexity without a table, with Kneser-Ney's shares always,
and gated, of the domain's text and of heldout.docs behind the same table; the first N bytes of each text.
"""
import argparse
import json
import os
import subprocess
import tempfile

DOMAINS = ("sql", "building", "clusters", "erlang")


def run(*command):
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("chimere")
    p.add_argument("model")
    p.add_argument("texts")
    p.add_argument("evaluation")
    p.add_argument("--bytes", type=int, default=36_000)
    a = p.parse_args()
    print("| table | n-grams | built in | text | tokens | off | always (Kneser-Ney) | gated | mean weight |")
    print("|---|---:|---:|---|---:|---:|---:|---:|---:|")
    for domain in DOMAINS:
        table = os.path.join(a.texts, f"{domain}.engr")
        built = run(a.chimere, "engram", "build", "-m", a.model, "-o", table, os.path.join(a.texts, f"{domain}.docs"), "--json")
        for name in (domain, "heldout"):
            with open(os.path.join(a.evaluation, f"{name}.docs"), encoding="utf-8") as f:
                text = f.read().replace("\0", "\n").encode()[:a.bytes].decode(errors="ignore")
            with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as f:
                f.write(text)
                f.flush()
                r = run(a.chimere, "engram", "eval", "-m", a.model, table, "-f", f.name, "--json")
            print(f"| {domain} | {built['ngrams'] / 1e6:.1f} M | {built['seconds']:.0f} s | {name} | {r['tokens']:,} | "
                  f"{r['off']['perplexity']:.2f} | {100 * r['always']['change']:+.1f}% | {100 * r['gated']['change']:+.1f}% | "
                  f"{r['mean_weight']:.2f} |", flush=True)


if __name__ == "__main__":
    main()
