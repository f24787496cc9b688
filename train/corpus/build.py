#!/usr/bin/python3
"""Builds the training corpus from the documentation of Debian packages.

  build.py OUT [--cache DIR] [--jobs N] [--seed N]

Downloads the packages of packages.txt and more_packages.txt (apt-get download), renders their manual pages, HTML,
text and pod files, removes repeated paragraphs, splits by source package into training and held-out, and writes

more_packages.txt was added later and is training text alone: it changes nothing of the held-out parts. It names no
package whose source is held out, and documents that share much with a held-out one are left out. It also lifts
the limits on the text of the packages of packages.txt.

  OUT/{train,heldout}.{docs,chat} OUT/DOMAIN.docs   documents, each ended by a zero byte
  OUT/pages.tsv                                     split, package, section, names, purpose of each manual page
  OUT/sources.tsv                                   package, split, documents, bytes, licences

Needs mandoc, dpkg-deb and apt-get; standard library only. Long package descriptions need apt's translations:
apt-get -o Acquire::Languages=en update.
"""
import argparse
import collections
import gzip
import hashlib
import json
import multiprocessing
import os
import random
import re
import subprocess
import sys
import zlib

import dialogues
import facts
import names
import overlap
import render

MAX_PACKAGE_BYTES, MAX_LARGE_BYTES = 2_000_000, 6_000_000
# Bytes of text: of one package of more_packages.txt, and of one package of packages.txt in total (WHOLE).
MAX_MORE_BYTES, MAX_WHOLE_BYTES = 1_000_000, 24_000_000
# Texts that a byte of zlib's stands for more than this many of repeat themselves: indexes, generated lists.
MAX_REPETITION = 7.0
# Manuals that may be longer than the rest.
LARGE = set("""linux-doc-6.1 python3.11-doc perl-doc git-man manpages-dev wordnet-base dict-foldoc libssl-doc zsh-doc
git-doc debian-policy autoconf-doc abs-guide guile-3.0-doc c++-annotations-html postgresql-doc-15""".split())
# Rendered beyond 6 MB (none of them is held out).
WHOLE = set("""linux-doc-6.1 python3.11-doc perl-doc freebsd-manpages dpdk-doc fp-docs-3.2.2 libboost1.81-doc
ada-reference-manual-2012 db5.3-doc icu-doc jython-doc""".split())
# Never held out: the packages whose commands a user is most likely to ask about.
CORE = set("""coreutils bash grep sed tar gawk findutils util-linux procps psmisc apt dpkg git-man openssh-client systemd
iproute2 gzip bzip2 xz-utils diffutils less man-db cron sudo passwd adduser login hostname mount curl wget rsync file
make iputils-ping ncurses-bin patch tmux zip unzip lsof kmod e2fsprogs manpages manpages-dev perl-base net-tools
debian-handbook debian-reference-en bc dc ed e2fsprogs fdisk""".split())
RENDERERS = {"man": render.man, "html": render.html_page, "pod": render.pod, "text": render.plain, "info": render.info,
             "wordnet": render.wordnet}
# Held out whole, by source package: domains that the model must not know at all.
DOMAINS = {"sql": "postgresql-15 postgis pgpool2 pgbouncer mariadb sqlite3 derby".split(),
           "building": "cmake meson scons ninja-build ant gradle bear bmake".split(),
           "clusters": "pacemaker corosync drbd-utils slurm-wlm booth crmsh fence-agents resource-agents".split(),
           "erlang": ["erlang", "elixir-lang", "rebar3"]}
DOMAIN_OF = {source: domain for domain, sources in DOMAINS.items() for source in sources}
LANGUAGE_DIR = re.compile(r"/(?!en(?:[-_]|/))[a-z]{2,3}(?:[-_][A-Za-z]{2,4})?/[^/]*$|/html/(?!en)[a-z]{2}-[A-Z]{2}/|\.html\.(?!en)[a-z]{2}|/man/[a-z]{2}")
UNUSUAL = re.compile(r"-(dev|dbg|dbgsym|perl)$|^lib|\d$|^(node|golang|r-cran|librust|python3|ruby|php)-")
GENERATED = re.compile(r"The documentation for this \w+ was generated|[Cc]omplete list of members|^\u25c6 |Include dependency graph|"
                       r"Go to the (source code|documentation) of this|Generated (on|by|for) .*1\.[89]\.\d|Public Member Functions", re.M)
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
        for i in range(0, len(missing), 200):
            subprocess.run(["apt-get", "download", "-qq", *missing[i:i + 200]], cwd=debs, check=True)
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
                                    "./usr/share/info/*.info*", "./usr/share/dictd/*.dz", "./usr/share/wordnet/data.*", "./usr/share/perl/*.pod", "./usr/share/vim/*.txt", "./usr/share/jargon*"],
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


def rendering_jobs(folders, known):
    """Packages with their folders and how much text of them is rendered at most."""
    for package, folder in sorted(folders.items()):
        yield package, folder, MAX_WHOLE_BYTES if package in WHOLE else MAX_LARGE_BYTES if package in known else 2 * MAX_MORE_BYTES


def rendered(job):
    """documents_of and license_of, kept beside the unpacked package: (package, documents, licences)."""
    package, folder, limit = job
    kept = folder + ".json.gz"
    if not os.path.isfile(kept):
        with gzip.open(kept + ".new", "wt", compresslevel=1) as f:
            json.dump([documents_of(folder, limit), license_of(folder, package)], f)
        os.rename(kept + ".new", kept)
    with gzip.open(kept, "rt") as f:
        return package, *json.load(f)


def documents_of(folder, limit):
    """Every document of a package: (kind, path, text), in the order of paths, within the size limit."""
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
                "pod" if base.endswith(".pod") else "info" if "/share/info/" in base else
                "wordnet" if "/wordnet/data." in base else
                "text" if base.endswith((".txt", ".rst", ".text", ".dict.dz")) or re.search(r"/(README|FAQ|HOWTO)[^/]*$", base) else None)
        if kind is None or (kind != "man" and LANGUAGE_DIR.search(base)):
            continue
        if kind in ("html", "text") and ("/devicetree/" in base or "/ABI/" in base):
            continue
        try:
            text = RENDERERS[kind](path)
        except (OSError, EOFError, subprocess.TimeoutExpired):
            continue
        if not text or len(text) < 200 or not render.is_english(text):
            continue
        out += [(kind, relative, piece) for piece in render.pieces(text)]
        size += len(text)
        if size > limit:
            break
    return out


class Deduplicator:
    """Drops whole documents, and long paragraphs, that were seen before but for numbers, case and punctuation."""

    def __init__(self):
        self.documents, self.paragraphs = set(), set()

    @staticmethod
    def digest(text):
        return hashlib.blake2b(re.sub(r"[\W\d]+", " ", text).lower().encode(), digest_size=8).digest()

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
    """{package: (source, one line, the whole description)} of the installable packages."""
    text = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout
    rows = {}
    for block in text.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Source|Description(?:-en)?): (.*(?:\n .*)*)", block, flags=re.M))
        short, _, long = fields.get("Description-en", fields.get("Description", "")).partition("\n")
        if "Package" in fields and short:
            whole = render.unwrap(re.sub(r"^ \.?", "", long, flags=re.M))
            rows[fields["Package"]] = (fields.get("Source", fields["Package"]).split(" ")[0], short, whole)
    return rows


def held_out(source, seed):
    return int(hashlib.sha256(f"{seed}:{source}".encode()).hexdigest(), 16) % 100 < 4


def split_of(source, core_sources, seed):
    if source in DOMAIN_OF:
        return DOMAIN_OF[source]
    return "heldout" if source not in core_sources and held_out(source, seed) else "train"


def write(path, documents):
    with open(path, "wb") as f:
        for text in documents:
            f.write(text.replace("\0", "").encode() + b"\0")


def read_list(path):
    with open(path, encoding="utf-8") as f:
        return [x.strip() for x in f if x.strip() and not x.startswith("#")]


def repeats_itself(text):
    data = text.encode()
    return len(data) > MAX_REPETITION * len(zlib.compress(data, 6))


def is_prose(text):
    """Whether a text is a manual page or has the small words of prose, and is no page that doxygen listed from sources."""
    if GENERATED.search(text):
        return False
    words = re.findall(r"[A-Za-z]+", text)
    return text.startswith("NAME\n") or sum(w.lower() in render.ENGLISH for w in words) > 0.19 * len(words)


def add_more(corpus, packages, known, descriptions, core_sources, seed):
    """Training documents of more_packages.txt, and what the limits on `known` packages left out."""
    found = []
    for package, documents, licences in sorted(packages, key=lambda r: (r[0] not in known, r[0])):
        size, limit = 0, MAX_WHOLE_BYTES if package in known else MAX_MORE_BYTES
        if split_of(descriptions.get(package, (package,))[0], core_sources, seed) != "train":
            continue
        for kind, path, text in documents:
            page = facts.parse(package, path, text) if kind == "man" else None
            text = corpus.dedupe.clean(text)
            if not text or repeats_itself(text) or kind == "wordnet":
                continue
            found.append((package, licences, page, text))
            size += len(text.encode())
            if size > limit:
                break
    found = [row for row in found if is_prose(row[3])]
    held = [text for name in ("heldout", *DOMAINS) for text in corpus.texts[name]]
    free = overlap.not_copied([text for *_, text in found], held)
    print(f"more packages: {len(found)} documents, {len(found) - sum(free)} of them left out for what they share with held-out text",
          file=sys.stderr)
    for package, licences, page, text in (row for row, keep in zip(found, free) if keep):
        corpus.texts["more"].append(text)
        corpus.count(package, "train", 1, len(text.encode()), licences)
        if page:
            corpus.pages.append(("train", page))


def add_packages(corpus, packages, descriptions, core_sources, seed):
    """Cleans and splits the packages' documents; core packages come first, and keep what others repeat."""
    for package, documents, licences in sorted(packages, key=lambda r: (r[0] not in CORE, r[0])):
        source = descriptions.get(package, (package,))[0]
        where, count, size = split_of(source, core_sources, seed), 0, 0
        for kind, path, text in documents:
            if size > (MAX_LARGE_BYTES if package in LARGE | CORE else MAX_PACKAGE_BYTES):
                break
            page = facts.parse(package, path, text) if kind == "man" else None
            text = corpus.dedupe.clean(text)
            if not text:
                continue
            corpus.texts[where].append(text)
            count, size = count + 1, size + len(text.encode())
            if page:
                corpus.pages.append((where, page))
            if kind == "wordnet":
                corpus.glossaries.append(text)
        corpus.count(package, where, count, size, licences)


class Corpus:
    def __init__(self):
        self.dedupe, self.texts, self.pages, self.glossaries, self.table = Deduplicator(), collections.defaultdict(list), [], [], {}

    def count(self, package, where, documents, size, licences):
        _, _, n, total, _ = self.table.get(package, (package, where, 0, 0, licences))
        self.table[package] = (package, where, n + documents, total + size, licences)


def add_descriptions(corpus, descriptions, core_sources, seed):
    """Package descriptions of the training side, as one document each."""
    count = size = 0
    for package, (source, short, whole) in sorted(descriptions.items()):
        text = corpus.dedupe.clean(f"{package}: {short}\n\n{whole}") if split_of(source, core_sources, seed) == "train" else ""
        if text:
            corpus.texts["train"].append(text)
            count, size = count + 1, size + len(text.encode())
    corpus.count("(package descriptions)", "train", count, size, "as each package")


def chats_of(corpus, descriptions, seed):
    writers = {name: dialogues.Writer(random.Random(seed + i)) for i, name in enumerate(("train", "heldout"))}
    # Commands first, and those of core packages before others: the first page of a name answers plain questions about it.
    for where, page in sorted(corpus.pages, key=lambda r: (r[1].package not in CORE, "186572349".find(r[1].section))):
        if where in writers:
            dialogues.page_dialogues(writers[where], page, page.package in CORE)
    for text in corpus.glossaries:
        dialogues.glossary_dialogues(writers["train"], text, 0.04)
    known = {n for _, page in corpus.pages for n in page.names} | set(descriptions)
    usual = [(n, short) for n, (_, short, _) in sorted(descriptions.items()) if not UNUSUAL.search(n)]
    rng = random.Random(seed)
    dialogues.general_dialogues(writers["train"], known, rng.sample(usual, min(6000, len(usual))))
    return {name: w.out for name, w in writers.items()}


def without_evaluation(conversations):
    """Drops conversations with an invented name of the evaluation sets, or that ask about any name in one of their wordings."""
    def plain(text):
        return re.sub(r"[^\w-]+", " ", text.lower()).strip()

    rows = list(names.evaluated())
    invented = {row["name"].lower() for row in rows if "answer" not in row}
    wordings = {plain(row["question"].replace(row["name"], "QQQ")).replace("qqq", r"[\w-]+") for row in rows}
    asked = re.compile("|".join(sorted(wordings)))
    kept = []
    for text in conversations:
        questions = re.findall(r"<\|im_start\|>user\n(.*?)<\|im_end\|>", text, flags=re.S)
        if not any(asked.search(plain(q)) or invented.intersection(re.findall(r"[\w.+-]*\w", q.lower())) for q in questions):
            kept.append(text)
    print(f"{len(conversations) - len(kept)} conversations left out that are like evaluation", file=sys.stderr)
    return kept


def main():
    a = parse_arguments()
    here = os.path.dirname(os.path.abspath(__file__))
    first_names = read_list(os.path.join(here, "packages.txt"))
    os.makedirs(a.out, exist_ok=True)
    known = set(first_names)
    more_names = [n for n in read_list(os.path.join(here, "more_packages.txt")) if n not in known]
    folders = fetch(first_names + more_names, a.cache)
    with multiprocessing.Pool(a.jobs) as pool:
        everything = pool.map(rendered, rendering_jobs(folders, known), chunksize=1)
    packages = [row for row in everything if row[0] in known]
    corpus, descriptions = Corpus(), package_descriptions()
    core_sources = {descriptions.get(p, (p,))[0] for p in CORE}
    add_packages(corpus, packages, descriptions, core_sources, a.seed)
    add_descriptions(corpus, descriptions, core_sources, a.seed)
    for name in ("heldout", *DOMAINS):
        corpus.texts[name], _ = overlap.without_copies(corpus.texts[name], corpus.texts["train"])
    add_more(corpus, everything, known, descriptions, core_sources, a.seed)
    corpus.texts["train"] += corpus.texts.pop("more")
    for name in ("heldout", *DOMAINS):
        _, share = overlap.without_copies(corpus.texts[name], corpus.texts["train"], 1.0)
        print(f"{name}: {100 * share:.2f}% of its 13-grams are in the training text", file=sys.stderr)
    parts = {f"{name}.docs": texts for name, texts in corpus.texts.items()}
    chats = chats_of(corpus, descriptions, a.seed)
    chats["train"] = without_evaluation(chats["train"])
    parts |= {f"{name}.chat": texts for name, texts in chats.items()}
    for name, texts in parts.items():
        random.Random(f"{a.seed}:{name}").shuffle(texts)
        path = os.path.join(a.out, name)
        write(path, texts)
        print(f"{path}: {len(texts)} documents, {os.path.getsize(path) / 1e6:.1f} MB", file=sys.stderr)
    rows = [(where, p.package, p.section, ",".join(p.names), p.whatis) for where, p in corpus.pages]
    for name, table in (("pages.tsv", rows), ("sources.tsv", sorted(corpus.table.values()))):
        with open(os.path.join(a.out, name), "w", encoding="utf-8") as f:
            f.writelines("\t".join(map(str, row)) + "\n" for row in table)


if __name__ == "__main__":
    main()
