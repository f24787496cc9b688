#!/usr/bin/env python3
"""Help, usage errors, and advice for flags of other programs.

  usage_test.py CHIMERE WRITE_TINY_MODEL SOURCES [unittest arguments]
"""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

CHIMERE, WRITER, SOURCES = (pathlib.Path(arg).absolute() for arg in sys.argv[1:4])
FOLDER = tempfile.TemporaryDirectory()
HOME = pathlib.Path(FOLDER.name)
MODEL = HOME / "tiny.gguf"
PLACES = ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")


def environment(home=HOME):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("CHIMERE_") and k not in PLACES}
    return {**kept, "HOME": str(home)} if home else kept


def chimere(*args, stdin="", home=HOME):
    return subprocess.run([CHIMERE, *map(str, args)], input=stdin, capture_output=True, text=True, check=False,
                          env=environment(home), timeout=100, cwd=HOME)


class Case(unittest.TestCase):
    def output(self, *args, **kwargs):
        done = chimere(*args, **kwargs)
        self.assertEqual(done.returncode, 0, f"{args}: {done.stderr}")
        return done.stdout

    def complaint(self, code, *args, **kwargs):
        """The one error message of a command that fails."""
        done = chimere(*args, **kwargs)
        self.assertEqual(done.returncode, code, f"{args}: {done.stdout}{done.stderr}")
        self.assertEqual(done.stdout, "")
        lines = [line for line in done.stderr.splitlines() if line.startswith("chimere: ")]
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertNotIn("..", lines[0])
        return lines[0]


class Help(Case):
    def test_help_is_a_command_too(self):
        self.assertEqual(self.output("help"), self.output("--help"))
        for words in (["run"], ["eval", "logits"], ["engram", "query"], ["help"]):
            self.assertEqual(self.output("help", *words), self.output(*words, "--help"))
        self.assertIn("'chimere frobnicate'", self.complaint(2, "help", "frobnicate"))
        self.assertIn("'chimere eval frobnicate'", self.complaint(2, "help", "eval", "frobnicate"))

    def test_version_is_a_command_too(self):
        self.assertEqual(self.output("version"), self.output("--version"))
        result = json.loads(self.output("version", "--json"))
        self.assertIn(result["version"], self.output("version").splitlines()[0])
        self.assertIn(result["cpu_isa"], result["cpu_isas"])

    def test_every_command_that_has_results_takes_json(self):
        for command in re.findall(r"^  ([a-z]+)  ", self.output("--help"), re.M):
            help_text = self.output(command, "--help")
            groups = re.findall(r"^  ([a-z]+)  ", help_text.partition("Subcommands:")[2], re.M)
            for text in [self.output(command, below, "--help") for below in groups] or [help_text]:
                # The commands that print only text, as README.md lists them.
                self.assertEqual("--json" in text, command not in ("help", "man", "completion"), command)

    def test_every_command_has_a_group_and_an_example(self):
        pages = re.findall(r'^\.SS "chimere ([a-z ]+?)(?: [A-Z]+)*"$', self.output("man"), re.M)
        self.assertGreater(len(pages), 30)
        commands = dict.fromkeys(word for page in pages for word in (page.split()[0], page))
        texts = {command: self.output(*command.split(), "--help") for command in commands}
        texts[""] = self.output("--help")
        for command, text in texts.items():
            self.assertLessEqual(max(map(len, text.splitlines())), 80, command)
            examples = re.findall(r"^  (chimere\b.*)$", text.partition("\nExamples:\n")[2].partition("\n\n")[0], re.M)
            self.assertTrue(examples, command)
            for example in examples:
                self.assertTrue(example.startswith(f"chimere {command}"), example)
                words = re.sub('".*?"', "", example).split()
                named = " ".join(words[1:3]) if " ".join(words[1:3]) in texts else "".join(words[1:2])
                for flag in (word for word in words if command and word.startswith("-")):
                    self.assertRegex(texts[named], rf"(?m)^  (-\w,)?{flag}[ ,\n]", example)
            if command and " " not in command:
                self.assertRegex(texts[""], rf"(?m)^  {command} +\S")
        # The flags that people need first come first.
        run = texts["run"]
        self.assertLess(run.index("\nNeeded most:"), run.index("  --temp "))
        self.assertLess(run.index("  --temp "), run.index("\nSampling:"))


class UsageErrors(Case):
    """What is missing or wrong is named in our words, not in those of the parser."""

    def test_missing_parts_are_named(self):
        for words, part in ((["run", "-p"], "-p needs a value"), (["eval", "perplexity"], "`chimere eval perplexity` needs --file"),
                            (["detokenize"], "`chimere detokenize` needs IDS"), (["engram"], "`chimere engram` needs a subcommand: "),
                            (["engram", "frobnicate"], "no command 'chimere engram frobnicate'; `chimere engram` has "),
                            (["keys", "lst"], "'chimere keys lst'")):
            message = self.complaint(2, *words)
            self.assertIn(part, message.replace("--prompt", "-p"))
            self.assertNotIn("required", message)

    def test_an_amount_of_memory_names_its_flag(self):
        message = self.complaint(2, "inspect", "-m", "x.gguf", "--vram-budget", "x")
        for part in ("'x'", "--vram-budget", "15.5GiB"):
            self.assertIn(part, message)


class OtherPrograms(Case):
    """Flags of llama.cpp and vLLM, which this program has under other names or not at all."""

    def test_foreign_flags_get_advice(self):
        ours = set(re.findall(r"--[a-z][a-z-]+", self.output("man").replace("\\-", "-")))
        for flag, value, here in (
                ("--device", 0, "one GPU"), ("--cpu-moe", None, "--cpu-experts"), ("--mmproj", "x.gguf", "text only"),
                ("--hf-file=x", None, "chimere pull"), ("--override-kv", "a=int:1", "chimere inspect"),
                ("--reasoning-budget", 5, "--reasoning"), ("--gpu-memory-utilization", 0.9, "--vram-budget")):
            for command in ("run", "serve"):
                words = [flag] if value is None else [flag, value]
                said = self.complaint(2, command, "-m", MODEL, *words)
                self.assertIn(flag.partition("=")[0] + " is a flag of another program", said)
                self.assertIn(here, said)
                self.assertLessEqual(set(re.findall(r"--[a-z][a-z-]+", said.partition("; here: ")[2])) - {"--help"}, ours)

    def test_flags_that_change_nothing_are_taken(self):
        plain = ["run", "-m", MODEL, "-p", "x", "--temp", 0, "-n", 2, "--json"]
        for flags in (["-ngl", 99], ["--n-gpu-layers=99"], ["-fa", "on"], ["-fa"], ["--draft-max", 8], ["--tensor-split", "1,1"], ["-cnv"], ["--log-verbose"]):
            done = chimere(*plain[:3], *flags, *plain[3:])
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"{flags[0].partition('=')[0]} changes nothing here: ", done.stderr)
            self.assertEqual(json.loads(done.stdout)["ids"], json.loads(self.output(*plain))["ids"])
            self.assertNotIn("changes nothing", chimere(*plain, *flags, "-q").stderr)

    def test_synonyms_do_the_same(self):
        plain = ["run", "-m", MODEL, "-p", "x", "--seed", 3, "--json"]
        expected = json.loads(self.output(*plain, "--temp", 0.5, "-n", 5, "--ctx", 512, "--cache-k", "f32"))["ids"]
        for words in (["--temperature", 0.5, "--n-predict", 5, "--ctx-size", 512, "-ctk", "f32"],
                      ["--temperature=0.5", "--n_predict=5", "--max-model-len", 512, "--cache_type_k", "f32"]):
            self.assertEqual(json.loads(self.output(*plain, *words))["ids"], expected)
        self.assertIn("--max-running", self.complaint(2, "run", "-m", MODEL, "-np", 4))

    def test_own_flags_are_not_foreign(self):
        self.assertNotIn("another program", chimere("eval", "perplexity", "-m", MODEL, "-f", "absent").stderr)  # -f is llama.cpp's too
        self.assertNotIn("another program", self.complaint(2, "bench", "-b", "1", "-r", "0"))
        # A foreign flag may be a value, or follow the end of the flags.
        ids = ["--temp", 0, "-n", 1, "--json"]
        self.assertIn('"text"', self.output("run", "-m", MODEL, *ids, "--stop", "--ctx-size", "-p", "x"))
        self.assertEqual(self.output("tokenize", "-m", MODEL, "--", "-ngl"), self.output("tokenize", "-m", MODEL, stdin="-ngl"))

    def test_a_prompt_without_its_flag(self):
        expected = self.output("run", "-m", MODEL, "-p", "tell me", "--temp", 0, "-n", 2)
        flags = ("--temp", 0, "-n", 2)
        for words in (["-m", MODEL, "-p", "tell me"], [MODEL, "tell me"], [MODEL, "tell", "me"]):
            self.assertEqual(self.output(*words, *flags), expected)
        self.assertIn("did you mean `chimere run 'it'\\''s'`? `chimere --help`", self.complaint(2, "chat", "it's"))
        self.assertIn("There is no command and no model 'hello'; `chimere run 'hello'`", self.complaint(2, "hello"))
        self.assertIn("did you mean `chimere run`?", self.complaint(2, "rnu", "tell me"))
        self.assertIn("x.gguf", self.complaint(1, "-m", "x.gguf", "-p", "tell me"))
        self.assertNotIn("did you mean", self.complaint(2, "run", "--frobnicate"))
        self.assertNotIn("did you mean", self.complaint(2, "list", "hello"))

    def test_complaints_end_in_one_full_stop(self):
        for args in (("detokenize", "1,a"), ("bench", "-p", "1,,2"), ("eval", "logits", "--tokens", "x"), ("bench", "--accept", "2"),
                     ("run", "--top-p", "7"), ("eval", "divergence", "-f", "x", "--base-cache-k", "q1")):
            self.complaint(2, *args)


class Empty(Case):
    def test_an_empty_model_is_refused(self):
        for args in (("run", "-m", "", "-p", "x"), ("run", "--model=", "-p", "x"), ("run", "-p", "x", "--model="), ("inspect", ""), ("tokenize", "-m", "", "x"),
                     ("eval", "divergence", "-f", "x", "--base", "")):
            said = self.complaint(2, *args)
            self.assertIn("empty", said)
            self.assertIn("chimere list", said)

    def test_the_list_marks_what_cannot_chat(self):
        models = HOME / "kinds"
        models.mkdir()
        for name, shape in (("embedder", ["embedder"]), ("ranker", ["bert-rank", "7"]), ("drafter", ["drafter", "9"]), ("text", ["300"])):
            subprocess.run([WRITER, models / f"{name}.gguf", *shape], check=True)
        (models / "broken.gguf").write_bytes(b"no model")
        (models / "foreign.gguf").write_bytes((models / "text.gguf").read_bytes().replace(b"qwen35moe", b"qwen35xyz"))
        kinds = {"broken": "unreadable", "drafter": "drafter", "embedder": "embedding", "foreign": "unsupported", "ranker": "reranking",
                 "text": "text"}
        self.assertEqual({row["name"]: row["kind"] for row in json.loads(self.output("list", "--models", models, "--json"))}, kinds)
        listed = {line.split()[0]: line for line in self.output("list", "--models", models).splitlines()}
        for name, kind in kinds.items():
            self.assertTrue(listed[name].endswith("B" if kind == "text" else "  " + kind), listed[name])
        chat = chimere("chat", "-m", MODEL, "--models", models, stdin="/model\n")
        offered = [line.split()[0] for line in chat.stderr.splitlines() if line.startswith("  ") and "comes with the program" not in line]
        self.assertEqual(offered, ["text"])
        self.assertNotIn("dflash", chat.stderr)
        for name, why in (("drafter", "--draft-model"), ("embedder", "no answers"), ("foreign", "cannot be run")):
            refused = chimere("chat", "-m", MODEL, "--models", models, stdin=f"/model {name}\n").stderr
            self.assertIn(why, refused)
            self.assertIn("The conversation continues with tiny.", refused)

    def test_inspect_prints_plain_digits(self):
        text = self.output("inspect", MODEL)
        self.assertRegex(text, r"(?m)^\d{1,3}(,\d{3})+ parameters in \d+ tensors$")
        self.assertRegex(text, r"(?m)rope\.freq_base +\d+(\.\d+)?$")
        self.assertNotRegex(text, r"\de[+-]\d")

    def test_an_empty_prompt_is_refused(self):
        for flags in ((), ("--raw",)):
            self.assertIn("The prompt is empty", self.complaint(1, "run", "-m", MODEL, *flags, "-p", ""))
            self.assertIn("The prompt is empty", self.complaint(1, "run", "-m", MODEL, *flags, stdin=""))
        for blank in ("\n\n", " \t\n"):
            self.assertIn("-p", self.complaint(1, "run", "-m", MODEL, stdin=blank))
            self.assertIn("-p", self.complaint(1, "run", "-m", MODEL, "-p", blank))
        # Without a template, white space is a valid prompt.
        self.assertEqual(json.loads(self.output("run", "-m", MODEL, "--raw", "-p", "\n", "-n", 1, "--json"))["tokens"], 1)

    def test_an_empty_line_is_no_message(self):
        chat = json.loads(self.output("chat", "-m", MODEL, "-n", 2, "--json", stdin="\n   \n\t\nthe path\n\n"))
        self.assertEqual(len(chat["turns"]), 1)


class NoHome(Case):
    """Without HOME and the XDG variables every command works, or its error names the variable or flag to set."""

    def test_commands_that_need_no_folder_work(self):
        text = HOME / "text.txt"
        text.write_text("the path of the third moth\n" * 3)
        table = HOME / "table.engr"
        for args in (("run", "-m", MODEL, "-p", "x", "-n", 1), ("chat", "-m", MODEL), ("inspect", MODEL), ("tokenize", "-m", MODEL, "x"),
                     ("detokenize", "-m", MODEL, "1"), ("bench", "-m", MODEL, "-p", 4, "-n", 1, "-r", 1),
                     ("eval", "perplexity", "-m", MODEL, "-f", text), ("eval", "logits", "-m", MODEL, "--tokens", 1),
                     ("engram", "build", "-m", MODEL, "-o", table, text), ("engram", "query", "-m", MODEL, "-p", "the", table),
                     ("list", "--models", HOME), ("state", "purge", "--state-folder", HOME / "state"), ("man",), ("version",), ("help",),
                     ("completion", "bash")):
            self.output(*args, home=None)

    def test_others_say_what_to_set(self):
        for args in (("list",), ("rm", "x"), ("pull", "a/b"), ("run", "-m", "absent", "-p", "x")):
            said = self.complaint(1, *args, home=None)
            self.assertIn("HOME", said)
            self.assertIn("--models", said)
        self.assertIn("--state-folder", self.complaint(1, "state", "purge", home=None))
        self.assertFalse((HOME / "chimere").exists())


class Keys(Case):
    def setUp(self):
        if "server: yes" not in self.output("version"):
            self.skipTest("built without the server")
        self.file = HOME / "keys.json"
        self.file.unlink(missing_ok=True)

    def test_text_output_is_a_table(self):
        self.output("keys", "add", "ann", "--keys", self.file, "--parallel", 4)
        self.output("keys", "add", "grafana", "--keys", self.file, "--scopes", "metrics,engram", "--per-minute", 60)
        head, ann, grafana = self.output("keys", "list", "--keys", self.file).splitlines()
        self.assertEqual(head.split(), ["NAME", "SCOPES", "PARALLEL", "PER", "MINUTE", "TOKENS/DAY"])
        self.assertRegex(ann, r"^ann +inference,metrics +4 +no limit +no limit$")
        self.assertRegex(grafana, r"^grafana +metrics,engram +no limit +60 +no limit$")
        self.assertEqual(head.index("PER "), grafana.index("60"))
        result = json.loads(self.output("keys", "list", "--keys", self.file, "--json"))
        self.assertEqual([(k["name"], k["per_minute"]) for k in result], [("ann", 0), ("grafana", 60)])

    def test_a_file_that_cannot_be_used(self):
        said = self.complaint(1, "keys", "list", "--keys", self.file)
        self.assertIn(f"`chimere keys add NAME --keys {self.file}` creates one.", said)
        for words in (["add", "ann"], ["list"]):
            said = self.complaint(1, "keys", *words, "--keys", "k" * 300)  # fails for root too
            self.assertIn("cannot be examined", said)
            self.assertIn("--keys", said)

    def test_help_and_complaints_name_every_scope(self):
        said = self.complaint(1, "keys", "add", "ann", "--keys", self.file, "--scopes", "everything")
        scopes = re.findall(r"[a-z]+", said.partition("there are ")[2])
        self.assertIn("engram", scopes)
        self.assertGreaterEqual(len(scopes), 3)
        text = re.sub(r"\s+", " ", self.output("keys", "add", "--help"))
        for scope in scopes:
            self.assertIn(f"{scope} (", text)
            self.output("keys", "add", scope, "--keys", self.file, "--scopes", scope)


class Documents(Case):
    def test_the_examples_of_tables_run(self):
        lines = re.findall(r"^build/chimere (engram (?:build|query|inspect) .*)$", (SOURCES / "docs/engram.md").read_text(), re.M)
        self.assertEqual(len(lines), 3)
        (HOME / "docs/experiments").mkdir(parents=True)
        for name in ("README.md", "docs/experiments/a.md"):
            (HOME / name).write_text("The command ls lists files. The command cp copies them.\n")
        for line in lines:
            words = shlex.split(line, comments=True)
            self.output(*words, *([] if "inspect" in words else ["-m", MODEL]))


if __name__ == "__main__":
    subprocess.run([WRITER, MODEL, "300"], check=True)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
