#!/usr/bin/env python3
"""Builds the program as `make build` does and compares it with the tests' one.

  release_test.py CMAKE SOURCES BUILD PROGRAM MODEL native|none ...

The preset `release` compiles several sources at once, the CPU's kernels for this machine alone and no server (native).
Here all sources of a module are compiled in one unit, so that no names clash in any smaller grouping either.
`none` is the same build with the baseline's kernels only, and the server if PROGRAM has it. Each must choose the right
kernels and give the bits that PROGRAM gives, which has all of them.
"""
import json
import os
import re
import subprocess
import sys

cmake, sources, build, program, model, *settings = sys.argv[1:]
BUILT = os.path.join(build, "chimere")


def output(*command, expect=0):
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, cwd=sources)
    assert done.returncode == expect, f"{command} exited with {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
    return done.stdout, done.stderr


def isas(path):
    """The compiled instruction sets and the one in use."""
    text = output(path, "--version")[0]
    found = re.search(r"^kernels for processors: (.*) \(here: (\w+)\)$", text, re.M)
    assert found, text
    return found[1].split(", "), found[2], text


def answers(path):
    logits = json.loads(output(path, "eval", "logits", "-m", model, "--tokens", "5,17,301,42,9,1000", "--top", "20", "--all",
                               "--json")[0])
    generated = json.loads(output(path, "run", "-m", model, "-p", "What does ls do?", "-n", "24", "--temp", "0", "--json")[0])
    return logits, generated["text"]


def main():
    every, best, text = isas(program)
    with_server = "server: yes" in text
    want = answers(program)
    for setting in settings:
        serve = setting == "none" and with_server
        output(cmake, "--preset", "release", "-S", sources, "-B", build, f"-DCHIMERE_CPU_ISAS={setting}",
               f"-DCHIMERE_SERVE={'on' if serve else 'off'}", "-DCHIMERE_CUDA=off",
               "-DCHIMERE_UNITY=0")
        output(cmake, "--build", build, "--target", "chimere")
        compiled, here, text = isas(BUILT)
        print(f"{setting}: {compiled}, in use {here}")
        assert compiled[0] == "generic" and set(compiled) <= set(every), compiled
        assert here == (best if setting == "native" else "generic"), f"{here} in place of {best}"
        assert here == compiled[-1], f"more than this processor needs: {compiled}"
        assert f"server: {'yes' if serve else 'no'}" in text, text
        if not serve:
            complaint = output(BUILT, "serve", expect=1)[1]
            assert "make serve" in complaint, complaint
        assert answers(BUILT) == want, f"the program with CHIMERE_CPU_ISAS={setting} gives other answers"
    complaint = output(cmake, "--preset", "release", "-S", sources, "-B", build, "-DCHIMERE_CPU_ISAS=sse9", expect=1)[1]
    assert "CHIMERE_CPU_ISAS=sse9" in complaint, complaint


if __name__ == "__main__":
    main()
