#!/usr/bin/env python3
"""libchimere as a user gets it: installed into a folder of its own, and used by the examples.

  library_test.py CMAKE BUILD SOURCE NODE [unittest arguments]       NODE may be empty
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

CMAKE, BUILD, SOURCE, NODE = sys.argv[1:5]
SOURCE = pathlib.Path(SOURCE)
EXAMPLES = SOURCE / "examples"
TEXT = "the path of a moth"
HEADER = (SOURCE / "include/chimere/chimere.h").read_text()
DECLARED = set(re.findall(r"\b(chimere_\w+)\(", re.sub(r"/\*.*?\*/", "", HEADER, flags=re.S)))
CALLBACKS = {"chimere_log_callback", "chimere_token_callback"}


def run(*command, **keywords):
    """Standard output of a command that must succeed."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **keywords)
    if done.returncode != 0:
        raise AssertionError(f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Library(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="library-"))
        cls.prefix = cls.folder / "prefix"
        run(CMAKE, "--install", BUILD, "--component", "library", "--prefix", cls.prefix)
        cls.shared = cls.prefix / "lib/libchimere.so.1"
        cls.nano = cls.prefix / "share/chimere/chimere-nano.gguf"
        cls.environment = {**os.environ, "LD_LIBRARY_PATH": str(cls.prefix / "lib"),
                           "PKG_CONFIG_PATH": str(cls.prefix / "lib/pkgconfig"),
                           "HOME": str(cls.folder), "XDG_STATE_HOME": str(cls.folder / "state")}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def flags(self):
        return run("pkg-config", "--cflags", "--libs", "chimere", env=self.environment).split()

    def test_exports_the_interface_and_nothing_else(self):
        table = run("nm", "-D", "--defined-only", self.shared)
        exported = {line.split()[-1].split("@")[0] for line in table.splitlines()}
        self.assertEqual(exported, DECLARED - CALLBACKS)
        self.assertIn("SONAME", run("objdump", "-p", self.shared))
        self.assertRegex(run("objdump", "-p", self.shared), r"SONAME\s+libchimere\.so\.1\n")

    def test_needs_neither_boost_nor_sqlite(self):
        needed = re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", self.shared))
        self.assertFalse([n for n in needed if re.search("boost|sqlite|prometheus|node", n)], needed)

    def test_the_header_is_c(self):
        source = self.folder / "header.c"
        source.write_text("#include <chimere/chimere.h>\nint main(void) { return chimere_api_version() != "
                          "CHIMERE_API_VERSION; }\n")
        run("cc", "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", source, "-o", self.folder / "header",
            *self.flags())
        run(self.folder / "header", env=self.environment)

    def test_the_c_example_by_pkg_config(self):
        program = self.folder / "generate"
        run("cc", "-std=c99", "-Wall", "-Wextra", "-Werror", EXAMPLES / "c/generate.c", "-o", program, *self.flags())
        first = run(program, self.nano, TEXT, env=self.environment)
        self.assertRegex(first, r"\n[1-9]\d* tokens\n$")
        self.assertEqual(run(program, self.nano, TEXT, env=self.environment), first)
        # The library finds the shipped model beside itself.
        self.assertRegex(run(program, "", TEXT, env=self.environment), r"\n[1-9]\d* tokens\n$")
        failed = subprocess.run([program, "no such model", TEXT], env=self.environment, capture_output=True, text=True)
        self.assertEqual(failed.returncode, 1)
        self.assertIn("'no such model'", failed.stderr)

    def test_the_cpp_example_by_find_package(self):
        build = self.folder / "cpp"
        run(CMAKE, "-S", EXAMPLES / "cpp", "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}",
            "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror")
        run(CMAKE, "--build", build)
        self.assertIn("the same in two parts", run(build / "continue", self.nano, TEXT, env=self.environment))

    def test_the_python_example(self):
        environment = {**self.environment, "CHIMERE_SHARED_LIBRARY": str(self.shared)}
        out = run(sys.executable, "-B", EXAMPLES / "python/chimere.py", self.nano, TEXT, env=environment)
        self.assertRegex(out, r"log-probability of the prompt: -\d+\.\d+")

    def test_two_models_in_one_process(self):
        os.environ["CHIMERE_SHARED_LIBRARY"] = str(self.shared)
        sys.path.insert(0, str(EXAMPLES / "python"))
        import chimere
        embedder = self.prefix / "share/chimere/chimere-embed.gguf"
        options = {"backend": "cpu", "state_memory": "256MiB"}
        with chimere.Runtime(threads=2) as runtime, \
                chimere.Model(runtime, str(self.nano), **options) as model, \
                chimere.Model(runtime, str(embedder), backend="cpu") as vectors:
            near, far, query = (vectors.embed(t) for t in ("a small dog", "the price of steel", "a little dog"))
            dot = lambda a, b: sum(x * y for x, y in zip(a, b))  # noqa: E731
            self.assertGreater(dot(query, near), dot(query, far))
            tokens = model.chat([("user", "What is a moth?")])
            with chimere.Sequence(model, tokens) as sequence:
                text, result = sequence.generate(max_tokens=8, temp=0)
                self.assertEqual(result.prompt_tokens, len(tokens))
                self.assertEqual(model.detokenize(sequence.tokens()[len(tokens):]), text)
            with self.assertRaisesRegex(chimere.Error, "no option 'no-such-option'"):
                with chimere.Sequence(model, tokens) as sequence:
                    sequence.generate(no_such_option=1)

    def test_the_node_example(self):
        modules = SOURCE / "tests/library/node_modules"
        if not NODE or not (modules / "koffi").is_dir():
            self.skipTest("needs node and koffi: scripts/install-npm tests/library")
        folder = self.folder / "node"
        folder.mkdir()
        shutil.copy(EXAMPLES / "node/generate.mjs", folder)
        (folder / "node_modules").symlink_to(modules)
        environment = {**self.environment, "CHIMERE_SHARED_LIBRARY": str(self.shared)}
        out = run(NODE, folder / "generate.mjs", self.nano, TEXT, env=environment)
        program = self.folder / "for_node"
        run("cc", EXAMPLES / "c/generate.c", "-o", program, *self.flags())
        expected = run(program, self.nano, TEXT, env=self.environment).rsplit("\n", 2)[0]
        self.assertEqual(out.rstrip("\n"), expected.rstrip("\n"))

    def test_the_manual_shows_the_examples_interface(self):
        manual = (SOURCE / "docs/library.md").read_text()
        for name in sorted(DECLARED - CALLBACKS):
            self.assertIn(f"`{name}", manual, f"docs/library.md says nothing about {name}")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]])
