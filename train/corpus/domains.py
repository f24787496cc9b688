#!/usr/bin/python3
"""Texts of the four domains that the shipped model was not trained on, for n-gram tables.

  domains.py OUT [--cache DIR] [--jobs N] [--without DIR]

Downloads the packages of each domain (build.py names them, apt-get downloads them), renders their documentation and
writes OUT/DOMAIN.docs, documents each ended by a zero byte. With --without, documents of which a tenth or more of the
13-word sequences lies in DIR/DOMAIN.docs are left out, and so are paragraphs that occur there: what is left is other text
of the same domain.
"""
import argparse
import multiprocessing
import os
import sys

import build
import overlap


def packages_of(domain, descriptions, listed):
    return [p for p in listed if descriptions.get(p, (p,))[0] in build.DOMAINS[domain]]


def documents(path):
    with open(path, encoding="utf-8") as f:
        return [d for d in f.read().split("\0") if d]


def without(texts, evaluation):
    kept, _ = overlap.without_copies(texts, evaluation)
    known = {p.strip() for text in evaluation for p in text.split("\n\n")}
    return ["\n\n".join(p for p in text.split("\n\n") if p.strip() not in known) for text in kept]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--cache", default=os.path.expanduser("~/.cache/chimere-corpus"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--without")
    a = parser.parse_args()
    os.makedirs(a.out, exist_ok=True)
    here = os.path.dirname(os.path.abspath(__file__))
    listed, descriptions = build.read_list(os.path.join(here, "packages.txt")), build.package_descriptions()
    for domain in build.DOMAINS:
        folders = build.fetch(packages_of(domain, descriptions, listed), a.cache)
        with multiprocessing.Pool(a.jobs) as pool:
            packages = pool.map(build.rendered, build.rendering_jobs(folders, set(listed)), chunksize=1)
        corpus = build.Corpus()
        build.add_packages(corpus, packages, descriptions, set(), 1)
        texts = corpus.texts[domain]
        if a.without:
            texts = without(texts, documents(os.path.join(a.without, f"{domain}.docs")))
        texts = [t for t in texts if len(t) > 200]
        path = os.path.join(a.out, f"{domain}.docs")
        build.write(path, texts)
        print(f"{path}: {len(folders)} packages, {len(texts)} documents, {os.path.getsize(path) / 1e6:.1f} MB", file=sys.stderr)


if __name__ == "__main__":
    main()
