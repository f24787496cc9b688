#!/usr/bin/env python3
"""Checks the repository itself: file sizes and their sum, no machine paths, lines of documents that wrap at 100 columns,
documented commands that exist, architectures that are documented, and texts of chat formats that one source file knows.

  repository_test.py ROOT [PROGRAM]

Code blocks marked ```sh in README.md, CONTRIBUTING.md and docs/ may call `make TARGET` and `chimere COMMAND`: each
target must be in the Makefile and each command in PROGRAM's help.
"""
import pathlib
import re
import subprocess
import sys

MAX_BYTES = 40 * 1024 * 1024
MAX_SUM = 56 * 1024 * 1024  # of all tracked files
MAX_COLUMNS = 100
WRAPPED = re.compile(r"(README|CONTRIBUTING)\.md|docs/.*\.md")
# Folders of a single machine.
MACHINE_PATH = re.compile(rb"(?<![\w.$}])/(?:" + b"|".join([b"work", b"root", rb"home/\w+"]) + rb")/\w")
# What only one source file below src, apps and include may know: tags of reasoning, and the beginning of ChatML's messages.
CHAT_FORMAT, TEMPLATES = "src/text/chat_format.cc", "src/text/builtin_templates.cc"
KNOWN_ONCE = {**dict.fromkeys(("<think>", "</think>", "[THINK]", "[/THINK]", "<seed:think>", "</seed:think>", "<|START_THINKING|>",
                               "<|END_THINKING|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>", "<response>", "</response>"), CHAT_FORMAT),
              "<|im_start|>": TEMPLATES}
SOURCES = re.compile(r"(?!.*_test\.)(?!.*/testdata/)(src|apps|include)/.*\.(h|cc|cu|def)")
TEXT = {".h", ".cc", ".cu", ".md", ".txt", ".cmake", ".py", ".mjs", ".js", ".json", ".sh", ".yml", ".yaml", ""}


def tracked(root):
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        return [root / name for name in listed.stdout.decode().split("\0") if name and (root / name).is_file()]
    return [p for p in root.rglob("*") if p.is_file() and not re.match(r"build|\.git", p.relative_to(root).parts[0])]


def long_lines(text):
    """Numbers and lengths of the lines above MAX_COLUMNS that could be wrapped: no code, no row of a table, no single word
    (a link, say) behind its list marker."""
    fence, code, blank = None, False, True
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        marker = re.match(r"```+|~~~+", stripped)
        if marker and fence is None:
            fence = marker[0]
        elif fence is not None:
            if stripped.startswith(fence):
                fence = None
        else:
            # An indented block begins behind an empty line; behind a list item the indent continues the item.
            code = line.startswith("    ") and (code or blank)
            words = re.sub(r"^([>#*+-]+|\d+\.) ", "", stripped).split(" ")
            if len(line) > MAX_COLUMNS and not code and not stripped.startswith("|") and len(words) > 1:
                yield number, len(line)
        blank = not stripped


def self_test():
    """Plants lines and expects exactly the faulty ones."""
    long, link = "word " * 20 + "end", "[a](https://example.org/" + "x" * 100 + ")"
    for text, faults in [(long[:100], []), (long, [1]), (f"# T\n\n{long}\nshort\n{long}", [3, 5]), (f"- {link}", []), (link, []),
                         (f"see {link}", [1]), (f"| {long} |", []), (f"```sh\n{long}\n```\n{long}", [4]), (f"- {long}", [1]),
                         (f"text\n\n    {long}\n    {long}\n", []), (f"- item\n    {long}", [2])]:
        found = [number for number, _ in long_lines(text)]
        assert found == faults, (text, found)
    assert undocumented('row("a", a) row("a-b", f)', "`a-b`") == ["a"]
    assert undocumented("", "`a`")
    for name, words in [("src/engine/a.cc", ["<think>", "<|im_start|>"]), ("apps/a/b.h", ["<think>", "<|im_start|>"]),
                        (CHAT_FORMAT, ["<|im_start|>"]), (TEMPLATES, ["<think>"]), ("src/text/a_test.cc", []),
                        ("src/text/testdata/a.cc", []), ("docs/a.md", [])]:
        assert known_elsewhere(name, 'f("<think>", "<|im_start|>")') == words, name


def shell_lines(text):
    """Command lines of the ```sh blocks, without prompts and comments."""
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.S | re.M):
        for line in block.replace("\\\n", " ").splitlines():
            yield line.strip().removeprefix("$ ")


def known_elsewhere(name, text):
    """The words of KNOWN_ONCE in a source file that must not have them."""
    return [word for word, home in KNOWN_ONCE.items() if name != home and word in text] if SOURCES.fullmatch(name) else []


def undocumented(registry, text):
    """Names of the rows of src/model/arch/registry.h that the document does not have in backquotes."""
    names = re.findall(r'\brow\("([^"]+)"', registry)
    return [name for name in names if f"`{name}`" not in text] if names else ["(no row found in the registry)"]


def main():
    self_test()
    root = pathlib.Path(sys.argv[1]).resolve()
    program = sys.argv[2] if len(sys.argv) > 2 else None
    found = []
    files = tracked(root)
    total = sum(path.stat().st_size for path in files)
    if total > MAX_SUM:
        found.append(f"all files together: {total / 2**20:.1f} MiB; at most {MAX_SUM >> 20}. Keep large files elsewhere.")
    for path in files:
        relative = path.relative_to(root)
        if WRAPPED.fullmatch(relative.as_posix()):
            found += [f"{relative}:{number}: {columns} columns; wrap it at {MAX_COLUMNS}"
                      for number, columns in long_lines(path.read_text())]
        if path.stat().st_size > MAX_BYTES:
            found.append(f"{relative}: {path.stat().st_size >> 20} MiB; at most {MAX_BYTES >> 20}")
        if path.suffix in TEXT:
            for number, line in enumerate(path.read_bytes().splitlines(), 1):
                if MACHINE_PATH.search(line):
                    found.append(f"{relative}:{number}: names a path of one machine")

    targets = set(re.findall(r"^([a-z-]+):", (root / "Makefile").read_text(), re.M))
    help_text = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout if program else ""
    commands = checked = 0
    for path in files:
        if path.suffix != ".md":
            continue
        relative = path.relative_to(root)
        for line in shell_lines(path.read_text()):
            for target in re.findall(r"(?:^|&& )make ((?:[a-z-]+(?: |$))*)", line):
                for name in target.split():
                    checked += 1
                    if name not in targets:
                        found.append(f"{relative}: `make {name}` does not exist")
            for command in re.findall(r"(?:^|[|;&] ?)(?:build/)?chimere ([a-z][a-z-]*)", line):
                commands += 1
                if program and not re.search(rf"^\s+{command}\b", help_text, re.M):
                    found.append(f"{relative}: `chimere {command}` does not exist")
    registry = (root / "src/model/arch/registry.h").read_text()
    for document in ("README.md", "docs/models-supported.md"):
        found += [f"{document}: lacks the architecture `{name}`" for name in undocumented(registry, (root / document).read_text())]
    sources = {name: path.read_text() for path in files if SOURCES.fullmatch(name := path.relative_to(root).as_posix())}
    for name, text in sources.items():
        found += [f"{name}: knows {word}, which only {KNOWN_ONCE[word]} may" for word in known_elsewhere(name, text)]
    found += [f"{home}: does not have {word}" for word, home in KNOWN_ONCE.items() if word not in sources[home]]
    for line in found:
        print(line)
    print(f"repository: {len(files)} files of {total / 2**20:.1f} MiB, {checked} make targets and {commands} commands in the documents, "
          f"{len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
