#!/usr/bin/env python3
"""Fails when the sources break the rules of docs/architecture.md that a compiler does not see.

  * an #include, or a module's DEPS in its CMakeLists.txt, breaks the dependency rules between modules;
  * a header of the operating system is used outside src/base (applications may handle signals, src/net uses sockets);
  * libcurl is used outside src/net, the only module that opens outgoing connections;
  * vector intrinsics are used outside src/kernels (unit tests may compare with an instruction);
  * the files of a module include each other in a circle (a header and its source are one file here);
  * a hand-written file is longer than 700 lines (tables and generated files are exempt: *_tables.*, *_generated.*).

  layering_test.py [ROOT]      check the tree, after checking that planted violations are caught
"""
import pathlib
import re
import sys
import tempfile

# The modules that a module may include besides itself: the dependency rules of docs/architecture.md.
ALLOWED = {
    "base": set(),
    "tensor": {"base"},
    "quant": {"base", "tensor"},
    "gguf": {"base", "tensor", "quant"},
    "convert": {"base", "tensor", "quant", "gguf"},
    "kernels": {"base", "tensor", "quant"},
    "state": {"base", "tensor"},
    "text": {"base"},
    "constraints": {"base", "text"},
    "sampling": {"base", "tensor", "quant", "kernels"},
    "engram": {"base"},
    "net": {"base"},
    "hub": {"base", "net"},
    "database": {"base"},
    "retrieval": {"base", "text", "net", "database", "kernels"},
    "orchestrator": {"base", "text", "net", "database", "protocol", "retrieval"},
    "quantize": {"base", "tensor", "quant", "gguf", "kernels", "model", "runtime"},
    "protocol": {"base", "text"},
    "terminal": {"base", "text"},
    "serving": {"base", "text", "constraints", "sampling", "engine", "protocol", "database"},
    "model": {"base", "tensor", "quant", "gguf", "kernels", "state", "text"},
    "engine": {"base", "tensor", "quant", "gguf", "kernels", "state", "text", "constraints", "model", "sampling", "engram"},
    "runtime": {"base", "tensor", "quant", "gguf", "kernels", "state", "text", "constraints", "model", "sampling",
                "engram", "engine", "hub"},
}

# Libraries of a module that not every user of the module links.
PART_OF = {"base_digest": "base"}

OS_HEADER = re.compile(
    r"^(unistd|fcntl|pthread|dlfcn|poll|sched|termios|dirent|netdb|pwd|spawn|windows|io|direct|signal)\.h$"
    r"|^(sys|linux|netinet|arpa|net)/")
SOCKETS = {"arpa/inet.h", "netdb.h", "netinet/in.h", "poll.h", "sys/socket.h", "unistd.h"}  # of src/net
CURL = re.compile(r"^curl/")
INTRINSICS = re.compile(r"^(immintrin|x86intrin|emmintrin|avx\w*intrin|arm_neon|arm_sve|cpuid)\.h$")
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
MAX_LINES = 700
SOURCE = {".h", ".cc", ".cu", ".cuh", ".py", ".mjs", ".js", ".ts", ".cmake", ".sh"}
TABLES = re.compile(r"_(tables|generated)\.\w+$")
SKIPPED = re.compile(r"^(build|\.|node_modules|out)")


def source_files(root):
    for top in sorted(root.iterdir()):
        if SKIPPED.match(top.name):
            continue
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            relative = path.relative_to(root)
            if path.is_file() and not any(SKIPPED.match(part) for part in relative.parts[:-1]):
                yield path, relative


def check_include(root, relative, line, quoted, angled):
    top = relative.parts[0]
    module = relative.parts[1] if top == "src" else None
    header = quoted or angled
    if OS_HEADER.match(header) and not quoted and top in ("src", "apps") and module != "base":
        if not (top == "apps" and header == "signal.h") and not (module == "net" and header in SOCKETS):
            yield f"{relative}:{line}: <{header}> belongs to the operating system; only src/base may include it"
    if CURL.match(header) and module != "net":
        yield f"{relative}:{line}: <{header}> opens outgoing connections; only src/net may include it"
    if (INTRINSICS.match(header) and top in ("src", "apps") and module not in ("kernels", "base")
            and not relative.name.endswith("_test.cc")):
        yield f"{relative}:{line}: <{header}> has vector intrinsics; only src/kernels may include it"
    if not quoted or top != "src":
        return
    first = quoted.split("/")[0]
    if first == "support" and relative.stem.endswith("_test"):
        return  # tests/support
    if "/" not in quoted or not (root / "src" / first).is_dir():
        yield f'{relative}:{line}: write "{quoted}" as "module/file.h", the path from src/'
    elif first != module and first not in ALLOWED.get(module, set()):
        yield f"{relative}:{line}: {module} must not include {first} (\"{quoted}\")"


def check_cmake(relative, text):
    for call in re.finditer(r"chimere_module\(([^)]*)\)", text):
        words = call.group(1).split()
        name, keyword = words[0].removesuffix("_testing"), None
        name = PART_OF.get(name, name)
        for word in words[1:]:
            if word.isupper():
                keyword = word
            elif keyword == "DEPS" and word != name and PART_OF.get(word, word) not in ALLOWED.get(name, set()):
                yield f"{relative}: module {name} must not depend on {word}"


def component_of(path):
    """A header, its source and its device code are one component; unit tests belong to none."""
    stem = path.with_suffix("").as_posix()
    return None if stem.endswith(("_test", "_testing")) else stem


def circles(edges):
    """The strongly connected components of a graph {node: nodes} that have several nodes (Tarjan 1972)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for to in sorted(edges.get(node, ())):
            if to not in index:
                visit(to)
                low[node] = min(low[node], low[to])
            elif to in stack:
                low[node] = min(low[node], index[to])
        if low[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return found


def violations(root):
    """Every breach of the rules under root, as printable lines."""
    found = []
    source = root / "src"
    for module in sorted(p.name for p in source.iterdir() if p.is_dir()) if source.is_dir() else []:
        if module not in ALLOWED:
            found.append(f"src/{module}: an unknown module; give it dependency rules in {pathlib.Path(__file__).name}")
    edges = {}
    for path, relative in source_files(root):
        if path.name == "CMakeLists.txt" and relative.parts[0] == "src":
            found += check_cmake(relative, path.read_text(encoding="utf-8"))
        if path.suffix not in SOURCE:
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        if len(lines) > MAX_LINES and not TABLES.search(path.name):
            found.append(f"{relative}: {len(lines)} lines; split it ({MAX_LINES} at most)")
        if path.suffix in {".h", ".cc", ".cu", ".cuh"}:
            for number, line in enumerate(lines, 1):
                match = INCLUDE.match(line)
                if match:
                    found += check_include(root, relative, number, match.group(1), match.group(2))
                    component = component_of(relative)
                    if match.group(1) and component and relative.parts[0] == "src":
                        included = component_of(pathlib.PurePath("src", match.group(1)))
                        if included and included != component:
                            edges.setdefault(component, set()).add(included)
    found += ["a circle of includes: " + ", ".join(circle) for circle in circles(edges)]
    return found


def self_test():
    """Plants one violation of each kind in an otherwise clean tree and expects exactly that one."""
    planted = [
        ("src/state/a.cc", '#include "model/m.h"\n', "state must not include model"),
        ("src/base/a.h", '  #  include "tensor/t.h"\n', "base must not include tensor"),
        ("src/engine/a.cc", "#include <sys/mman.h>\n", "operating system"),
        ("src/model/a.cc", "#include <pthread.h>\n", "operating system"),
        ("apps/chimere/a.cc", "#include <unistd.h>\n", "operating system"),
        ("src/text/a.cc", "#include <immintrin.h>\n", "intrinsics"),
        ("src/hub/a.cc", "#include <curl/curl.h>\n", "outgoing connections"),
        ("src/net/a.cc", "#include <sys/mman.h>\n", "operating system"),
        ("src/text/a.cc", '#include "other.h"\n', "path from src/"),
        ("src/text/CMakeLists.txt", "chimere_module(text SOURCES\n a.cc DEPS base model)\n", "depend on model"),
        ("src/unlisted/a.h", "\n", "unknown module"),
        ({"src/text/a.h": "", "src/text/a.cc": '#include "text/b.h"\n', "src/text/b.h": '#include "text/c.h"\n',
          "src/text/c.h": '#include "text/a.h"\n'}, None, "src/text/a, src/text/b, src/text/c"),
        ("src/base/long.cc", "\n" * (MAX_LINES + 1), "split it"),
    ]
    clean = {"src/base/b.cc": "#include <unistd.h>\n", "src/model/m.h": '#include "state/s.h"\n',
             "src/net/n.cc": "#include <curl/curl.h>\n#include <netdb.h>\n", "src/hub/h.h": '#include "net/n.h"\n',
             "src/state/s.h": '#include "tensor/t.h"\n', "src/tensor/t.h": '#include "base/b.h"\n',
             "src/text/uni_tables.cc": "\n" * (MAX_LINES + 1), "build/x.cc": '#include "nowhere.h"\n'}
    for path, text, expected in [(None, None, None)] + planted:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            files = dict(clean)
            if isinstance(path, dict):
                files |= path
            elif path:
                files[path] = text
            for name, content in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(content)
            found = violations(root)
            if expected is None:
                assert not found, f"a clean tree is reported: {found}"
            else:
                assert len(found) == 1 and expected in found[0], f"planted '{expected}', found {found}"
    return len(planted)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]).resolve()
    caught = self_test()
    found = violations(root)
    for line in found:
        print(line)
    print(f"layering: {caught} planted violations caught, {len(found)} found in {root.name}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
