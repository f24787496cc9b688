#!/usr/bin/python3
"""Builds the training corpus from the documentation of Debian packages.

  build.py OUT [--cache DIR] [--jobs N] [--seed N]

Downloads the packages of packages.txt (apt-get download), renders their manual pages, HTML, text and pod
files, removes repeated paragraphs, splits by source package into training and held-out, and writes

  OUT/train.docs OUT/train.chat OUT/heldout.docs OUT/heldout.chat    documents, each ended by a zero byte
  OUT/sources.tsv                                                     package, split, documents, bytes, licences

Needs mandoc, dpkg-deb and apt-get; standard library only.
"""
import argparse
import collections
import hashlib
import multiprocessing
import os
import random
import re
import subprocess
import sys

import dialogues
import facts
import render

MAX_PACKAGE_BYTES = 5_000_000
# Never held out: the packages whose commands a user is most likely to ask about.
CORE = set("""coreutils bash grep sed tar gawk findutils util-linux procps psmisc apt dpkg git-man openssh-client systemd
iproute2 gzip bzip2 xz-utils diffutils less man-db cron sudo passwd adduser login hostname mount curl wget rsync file
make iputils-ping ncurses-bin patch tmux zip unzip lsof kmod e2fsprogs manpages manpages-dev perl-base net-tools
debian-handbook debian-reference-en bc dc ed e2fsprogs fdisk""".split())
LANGUAGE_DIR = re.compile(r"/(?!en(?:[-_]|/))[a-z]{2,3}(?:[-_][A-Za-z]{2,4})?/[^/]*$|/html/(?!en)[a-z]{2}-[A-Z]{2}/|\.html\.(?!en)[a-z]{2}|/man/[a-z]{2}")
NAMES = re.compile(r"/(changelog|copyright|NEWS|ChangeLog|genindex|search|py-modindex|contents|sitemap|quickref|glossary_index|AUTHORS|TODO)[^/]*$")


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("--cache", default=os.path.expanduser("~/.cache/chimere-corpus"))
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("--seed", type=int, default=1)
    return p.parse_args()


def fetch(packages, cache):
    """Downloads what is missing and unpacks the documentation of each package; returns {package: folder}."""
    debs, trees = os.path.join(cache, "debs"), os.path.join(cache, "trees")
    os.makedirs(debs, exist_ok=True)
    have = {name.split("_")[0] for name in os.listdir(debs)}
    missing = [p for p in packages if p not in have]
    if missing:
        subprocess.run(["apt-get", "download", "-qq", *missing], cwd=debs, check=True)
    folders = {}
    for name in sorted(os.listdir(debs)):
        package = name.split("_")[0]
        folder = os.path.join(trees, package)
        if package in packages:
            folders[package] = folder
            if not os.path.isdir(folder):
                os.makedirs(folder)
                with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", os.path.join(debs, name)], stdout=subprocess.PIPE) as tar:
                    subprocess.run(["tar", "-x", "-C", folder, "--wildcards", "./usr/share/man/man*", "./usr/share/doc/*",
                                    "./usr/share/perl/*.pod", "./usr/share/vim/*.txt", "./usr/share/jargon*"],
                                   stdin=tar.stdout, stderr=subprocess.DEVNULL, check=False)
    return folders


def license_of(folder, package):
    path = os.path.join(folder, "usr/share/doc", package, "copyright")
    if not os.path.isfile(path):
        return "as its source package"
    text = render.read_text(path)
    found = re.findall(r"^License: *(\S[^\n]*)", text, flags=re.M)
    if not found:
        found = re.findall(r"\b(GPL-[123]\+?|LGPL-[23](?:\.1)?|Apache-2\.0|MIT|BSD|GFDL(?:-[\d.]+)?|Artistic|GPL|LGPL)\b", text)
    counted = collections.Counter(x.strip().rstrip(",") for x in found)
    return ", ".join(name for name, _ in counted.most_common(6)) or "see its copyright file"


def documents_of(job):
    """Every document of a package: (kind, path, text), the best sources first, within the size limit."""
    package, folder = job
    files = []
    for root, dirs, names in os.walk(folder):
        dirs.sort()
        files += [os.path.join(root, n) for n in sorted(names)]
    out, size = [], 0
    for path in files:
        relative = path[len(folder):]
        if os.path.islink(path) or NAMES.search(relative):
            continue
        base = relative[:-3] if relative.endswith(".gz") else relative
        kind = ("man" if "/man/man" in base else "html" if re.search(r"\.x?html?(\.en)?$", base) else
                "pod" if base.endswith(".pod") else
                "text" if base.endswith((".txt", ".rst", ".text")) or re.search(r"/(README|FAQ|HOWTO)[^/]*$", base) else None)
        if kind is None or (kind != "man" and LANGUAGE_DIR.search(base)):
            continue
        if kind in ("html", "text") and ("/devicetree/" in base or "/ABI/" in base):
            continue
        try:
            text = {"man": render.man, "html": render.html_page, "pod": render.pod, "text": render.plain}[kind](path)
        except (OSError, EOFError, subprocess.TimeoutExpired):
            continue
        if not text or len(text) < 200 or not render.is_english(text):
            continue
        out.append((kind, relative, text))
        size += len(text)
        if size > MAX_PACKAGE_BYTES:
            break
    return package, out, license_of(folder, package)


class Deduplicator:
    """Drops whole documents, and long paragraphs, that were seen before (licence texts, shared options)."""

    def __init__(self):
        self.documents, self.paragraphs = set(), set()

    @staticmethod
    def digest(text):
        return hashlib.blake2b(re.sub(r"\W+", " ", text).encode(), digest_size=8).digest()

    def clean(self, text):
        whole = self.digest(text)
        if whole in self.documents:
            return ""
        self.documents.add(whole)
        kept = []
        for paragraph in text.split("\n\n"):
            if len(paragraph) > 120:
                d = self.digest(paragraph)
                if d in self.paragraphs:
                    continue
                self.paragraphs.add(d)
            kept.append(paragraph)
        cleaned = "\n\n".join(kept)
        return cleaned if len(cleaned) > 0.35 * len(text) and len(cleaned) > 200 else ""


def package_descriptions():
    """(name, one-line description) of the installable packages."""
    text = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout
    rows = re.findall(r"^Package: (\S+)\n(?:.+\n)*?Description(?:-en)?: (.+)", text, flags=re.M)
    return sorted({n: d for n, d in rows if not re.search(r"-(dev|dbg|dbgsym|perl)$|^lib|\d$|^(node|golang|r-cran|librust|python3|ruby|php)-", n)}.items())


def held_out(source, seed):
    return int(hashlib.sha256(f"{seed}:{source}".encode()).hexdigest(), 16) % 100 < 4


def source_of(packages):
    text = subprocess.run(["apt-cache", "show", "--no-all-versions", *packages], capture_output=True, text=True, check=True).stdout
    out = {}
    for block in text.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Source): (\S+)", block, flags=re.M))
        if "Package" in fields:
            out[fields["Package"]] = fields.get("Source", fields["Package"])
    return out


def write(path, documents):
    with open(path, "wb") as f:
        for text in documents:
            f.write(text.replace("\0", "").encode() + b"\0")


def main():
    a = parse_arguments()
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "packages.txt"), encoding="utf-8") as f:
        packages = [x.strip() for x in f if x.strip() and not x.startswith("#")]
    os.makedirs(a.out, exist_ok=True)
    folders, sources = fetch(packages, a.cache), source_of(packages)
    with multiprocessing.Pool(a.jobs) as pool:
        rendered = pool.map(documents_of, sorted(folders.items()), chunksize=1)
    core_sources = {sources.get(p, p) for p in CORE}
    rendered.sort(key=lambda r: (r[0] not in CORE, r[0]))
    dedupe, rng = Deduplicator(), random.Random(a.seed)
    split = {"train": [], "heldout": []}
    chats = {name: dialogues.Writer(random.Random(a.seed + i)) for i, name in enumerate(split)}
    known, pages, table = set(), [], []
    for package, documents, licences in rendered:
        source = sources.get(package, package)
        where = "heldout" if source not in core_sources and held_out(source, a.seed) else "train"
        count = size = 0
        for kind, path, text in documents:
            page = facts.parse(package, path, text) if kind == "man" else None
            text = dedupe.clean(text)
            if not text:
                continue
            split[where].append(text)
            count, size = count + 1, size + len(text.encode())
            if page:
                pages.append((where, page))
                known.update(page.names)
        table.append((package, where, count, size, licences))
        print(f"{package}: {where}, {count} documents, {size / 1e6:.2f} MB", file=sys.stderr)
    for where, page in pages:
        dialogues.page_dialogues(chats[where], page, page.package in CORE)
    descriptions = package_descriptions()
    dialogues.general_dialogues(chats["train"], known | {n for n, _ in descriptions}, rng.sample(descriptions, min(4000, len(descriptions))))
    for name, texts in split.items():
        rng.shuffle(texts)
        chats[name].rng.shuffle(chats[name].out)
        write(os.path.join(a.out, f"{name}.docs"), texts)
        write(os.path.join(a.out, f"{name}.chat"), chats[name].out)
    with open(os.path.join(a.out, "sources.tsv"), "w", encoding="utf-8") as f:
        f.writelines("\t".join(map(str, row)) + "\n" for row in sorted(table))
    for name in split:
        for part in ("docs", "chat"):
            path = os.path.join(a.out, f"{name}.{part}")
            print(f"{path}: {os.path.getsize(path) / 1e6:.1f} MB", file=sys.stderr)


if __name__ == "__main__":
    main()
