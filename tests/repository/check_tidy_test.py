#!/usr/bin/env python3
"""scripts/check-tidy looks at what changed since its last full look, and at what includes that.

  check_tidy_test.py CHECK_TIDY

Runs a copy of the script in a small tree of its own, with clang-tidy itself.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(sys.argv[1]).resolve()
CONFIG = "Checks: '-*,modernize-use-nullptr'\nWarningsAsErrors: '*'\nHeaderFilterRegex: '.*'\n"
FAULT = "inline int* fault() { return 0; }\n"


class CheckTidy(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        self.write("scripts/check-tidy", SCRIPT.read_text())
        self.write(".clang-tidy", CONFIG)
        self.write("src/base/low.h", "#pragma once\ninline int low() { return 1; }\n")
        self.write("src/base/middle.h", '#pragma once\n#include "base/low.h"\n')
        self.write("src/base/user.cc", '#include "base/middle.h"\nint user() { return low(); }\n')
        self.write("src/base/alone.cc", "int alone() { return 2; }\n")
        self.write("src/base/lanes.cc", "#include LANES\n")
        self.write("src/base/lanes.h", "#pragma once\n")
        self.write("tests/repository/README", "")
        self.sources = ["user", "alone", "lanes"]
        self.write("build/compile_commands.json", json.dumps([
            {"directory": str(self.root / "build"), "file": str(self.root / f"src/base/{name}.cc"),
             "command": f"c++ -I{self.root}/src '-DLANES=\"base/lanes.h\"' -std=c++20 -o x.o -c {self.root}/src/base/{name}.cc"}
            for name in self.sources]))

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def check(self, *args, clean=True):
        done = subprocess.run([sys.executable, self.root / "scripts/check-tidy", self.root / "build", *args],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0 if clean else 1, done.stdout + done.stderr)
        return done.stdout

    def test_without_a_record_everything_is_looked_at(self):
        self.assertIn("3 of 3", self.check())
        self.write("src/base/alone.cc", FAULT)
        self.assertIn("alone.cc", self.check(clean=False))

    def test_a_full_look_writes_the_record_and_then_nothing_is_left(self):
        self.assertIn("3 of 3", self.check("--all"))
        self.assertTrue((self.root / "tests/repository/tidy_record.txt").exists())
        self.assertIn("0 of 3", self.check())

    def test_a_source_that_was_not_compiled_is_not_recorded(self):
        self.write("src/base/other.cc", "int other() { return 5; }\n")
        self.check("--all")
        commands = self.root / "build/compile_commands.json"
        commands.write_text(commands.read_text().replace("alone", "other"))
        self.assertIn("1 of 3", self.check())

    def test_a_look_that_finds_something_leaves_the_record(self):
        self.write("src/base/alone.cc", FAULT)
        self.check("--all", clean=False)
        self.assertFalse((self.root / "tests/repository/tidy_record.txt").exists())

    def test_a_changed_source_is_looked_at_alone(self):
        self.check("--all")
        self.write("src/base/alone.cc", FAULT)
        told = self.check(clean=False)
        self.assertIn("alone.cc", told)
        self.assertNotIn("user.cc", told)
        self.write("src/base/alone.cc", "int other() { return 3; }\n")
        self.assertIn("1 of 3", self.check())

    def test_a_changed_header_leads_to_its_includers(self):
        self.check("--all")
        self.write("src/base/low.h", "#pragma once\ninline int low() { return 1; }\n" + FAULT)
        told = self.check(clean=False)
        self.assertIn("low.h:3", told)
        self.write("src/base/low.h", "#pragma once\ninline int low() { return 4; }\n")
        self.assertIn("1 of 3", self.check())

    def test_headers_that_a_definition_names(self):
        self.check("--all")
        self.write("src/base/lanes.h", "#pragma once\n" + FAULT)
        self.assertIn("lanes.h", self.check(clean=False))

    def test_another_configuration_means_everything(self):
        self.check("--all")
        self.write(".clang-tidy", CONFIG.replace("nullptr", "nullptr,modernize-use-override"))
        self.assertIn("3 of 3", self.check())

    def test_names_choose_without_the_record(self):
        self.check("--all")
        self.assertIn("1 of 1", self.check("alone"))


if __name__ == "__main__":
    if shutil.which("clang-tidy-16") is None:
        sys.exit("clang-tidy-16 is not installed: scripts/setup tools")
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
