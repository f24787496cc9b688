#!/usr/bin/env python3
"""Checks the repository itself: file sizes, no machine paths, and documented commands that exist.

  repository_test.py ROOT [PROGRAM]

Code blocks marked ```sh in README.md, CONTRIBUTING.md and docs/ may call `make TARGET` and `chimere COMMAND`: each
target must be in the Makefile and each command in PROGRAM's help.
"""
import pathlib
import re
import subprocess
import sys

MAX_BYTES = 40 * 1024 * 1024
# Folders of a single machine.
MACHINE_PATH = re.compile(rb"(?<![\w.$}])/(?:" + b"|".join([b"work", b"root", rb"home/\w+"]) + rb")/\w")
TEXT = {".h", ".cc", ".cu", ".md", ".txt", ".cmake", ".py", ".mjs", ".js", ".json", ".sh", ".yml", ".yaml", ""}


def tracked(root):
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        return [root / name for name in listed.stdout.decode().split("\0") if name and (root / name).is_file()]
    return [p for p in root.rglob("*") if p.is_file() and not re.match(r"build|\.git", p.relative_to(root).parts[0])]


def shell_lines(text):
    """Command lines of the ```sh blocks, without prompts and comments."""
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.S | re.M):
        for line in block.replace("\\\n", " ").splitlines():
            yield line.strip().removeprefix("$ ")


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    program = sys.argv[2] if len(sys.argv) > 2 else None
    found = []
    files = tracked(root)
    for path in files:
        relative = path.relative_to(root)
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
            for command in re.findall(r"(?:^|[|;&] ?)(?:build/)?chimere ([a-z]+)", line):
                commands += 1
                if program and not re.search(rf"^\s+{command}\b", help_text, re.M):
                    found.append(f"{relative}: `chimere {command}` does not exist")
    for line in found:
        print(line)
    print(f"repository: {len(files)} files, {checked} make targets and {commands} commands in the documents, "
          f"{len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
