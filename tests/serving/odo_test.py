#!/usr/bin/env python3
"""The orchestrated models of `chimere serve`, `chimere ask` and `chimere odo`, with a real model.

  odo_test.py CHIMERE MODEL
"""
import contextlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from server import Server, environment
from limits import HANG, wait_for

CHIMERE, MODEL = sys.argv[1:3]
QUESTION = [{"role": "user", "content": "What does the command ls do?"}]
CHAT = "/v1/chat/completions"


class Odo(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.state = tempfile.TemporaryDirectory()
        cls.pipelines = pathlib.Path(cls.state.name) / "pipelines"
        cls.pipelines.mkdir()
        (cls.pipelines / "live.yaml").write_text("name: live\nmode: fast\nsystem: Be brief.\n")
        (cls.pipelines / "two.yaml").write_text(
            "name: two\nmode: fast\nsteps:\n  - name: first\n    params: {max_tokens: 8}\n  - name: second\n")
        (cls.pipelines / "tree.yaml").write_text(
            "name: tree\nmode: ultra\nsearch: {strategy: dvts, width: 2, branches: 2, depth: 2, step_tokens: 8}\n")
        intents = pathlib.Path(cls.state.name) / "intents"
        intents.mkdir()
        (intents / "heraldry.yaml").write_text(
            "name: heraldry\nphrases: [coat of arms]\nsubjects: [blazon, tincture, escutcheon]\n"
            "examples: [Blazon this shield, \"Which tincture is gules?\", \"Where on the escutcheon is the chief?\"]\n")
        cls.server = Server(CHIMERE, MODEL, "--state-folder", cls.state.name)

    @classmethod
    def tearDownClass(cls):
        cls.server.close()
        cls.state.cleanup()

    def chat(self, **fields):
        return self.server.post(CHAT, {"model": "odo", "messages": QUESTION, "temperature": 0, "max_tokens": 24, **fields})

    def test_a_plain_question_gets_the_plain_answer(self):
        plain = self.chat(model=self.server.model, reasoning_effort="none")
        self.assertNotIn("odo", plain)
        odo = self.chat()
        self.assertEqual(odo["choices"][0]["message"], plain["choices"][0]["message"])
        self.assertEqual(odo["usage"]["completion_tokens"], plain["usage"]["completion_tokens"])
        self.assertEqual(odo["usage"]["prompt_tokens"], plain["usage"]["prompt_tokens"])
        about = odo["odo"]
        self.assertEqual((about["pipeline"], about["mode"], about["model"]), ("default", "fast", self.server.model))
        self.assertEqual(list(about["tokens"]), ["answer"])
        self.assertEqual(about["route"]["intent"], "how-to")
        self.assertTrue(about["route"]["reasons"])

    def test_intents_of_the_state_folder(self):
        route = self.chat(messages=[{"role": "user", "content": "Whose coat of arms has three lions?"}])["odo"]["route"]
        self.assertEqual((route["intent"], route["stage"]), ("heraldry", "rules"))
        self.assertGreater(route["confidence"], 0.9)
        route = self.chat(messages=[{"role": "user", "content": "Which tincture is azure?"}])["odo"]["route"]
        self.assertEqual(next(iter(route["candidates"])), "heraldry")

    def test_streams_say_steps_and_then_the_answer(self):
        whole = self.chat()
        events = self.server.stream(CHAT, {"model": "odo", "messages": QUESTION, "temperature": 0, "max_tokens": 24,
                                           "stream_options": {"include_usage": True}})
        steps = [e["odo"]["step"]["name"] for e in events if "step" in e.get("odo", {})]
        self.assertEqual(steps, ["route"])
        text = "".join(e["choices"][0]["delta"].get("content", "") for e in events if e["choices"])
        self.assertEqual(text, whole["choices"][0]["message"]["content"])
        self.assertEqual(events[-2]["odo"]["tokens"], whole["odo"]["tokens"] | {
            "answer": {**whole["odo"]["tokens"]["answer"], "cached": events[-2]["odo"]["tokens"]["answer"]["cached"]}})
        self.assertEqual(events[-1]["usage"]["completion_tokens"], whole["usage"]["completion_tokens"])
        reasons = [e["choices"][0]["finish_reason"] for e in events if e["choices"] and e["choices"][0]["finish_reason"]]
        self.assertEqual(reasons, [whole["choices"][0]["finish_reason"]])

    def test_parameters_tools_and_formats_of_callers(self):
        stopped = self.chat(stop=["directory"])
        self.assertNotIn("directory", stopped["choices"][0]["message"]["content"])
        listed = self.chat(logprobs=True, top_logprobs=2)
        self.assertEqual(len(listed["choices"][0]["logprobs"]["content"][0]["top_logprobs"]), 2)
        chosen = self.chat(guided_choice=["red", "blue"], odo={"mode": "quality"})
        self.assertIn(chosen["choices"][0]["message"]["content"], ("red", "blue"))
        self.assertEqual(self.server.error(CHAT, {"model": "odo", "messages": QUESTION, "n": 2})["param"], "n")
        self.assertEqual(self.server.error(CHAT, {"model": "odo:none", "messages": QUESTION}, 404)["code"], "model_not_found")
        self.assertEqual(self.server.error(CHAT, {"model": "odo", "messages": QUESTION, "odo": {"mode": "x"}})["param"], "odo")
        names = {m["id"] for m in self.server.get("/v1/models")["data"]}
        self.assertLessEqual({"odo", "odo:code", "odo:cyber", "odo:kine", "odo:research", "odo:live"}, names)
        self.assertEqual(self.server.get("/v1/models/odo:code")["id"], "odo:code")

    def test_other_apis(self):
        for path, body, text in [
                ("/v1/messages", {"max_tokens": 24}, lambda r: r["content"][0]["text"]),
                ("/api/chat", {"stream": False, "options": {"num_predict": 24}}, lambda r: r["message"]["content"])]:
            answers = []
            for model in ("odo", self.server.model):
                fields = {"model": model, "messages": QUESTION, **body}
                fields["temperature" if path == "/v1/messages" else "seed"] = 0
                if path == "/api/chat":
                    fields = {"model": model, "messages": QUESTION, "stream": False, "think": False,
                              "options": {"num_predict": 24, "temperature": 0}}
                answers.append(text(self.server.post(path, fields)))
            self.assertEqual(*answers, path)

    def test_steps_and_a_tree(self):
        two = self.chat(model="odo:two")
        self.assertEqual(set(two["odo"]["tokens"]), {"step first", "answer"})
        self.assertLessEqual(two["odo"]["tokens"]["step first"]["completion"], 8)
        self.assertEqual(two["usage"]["completion_tokens"], sum(t["completion"] for t in two["odo"]["tokens"].values()))
        tree = self.chat(model="odo:tree", temperature=0.8, seed=5, max_tokens=64)
        self.assertTrue(tree["choices"][0]["message"]["content"])
        self.assertLessEqual({"search", "judge"}, set(tree["odo"]["tokens"]))
        self.assertIn("search", tree["odo"]["scores"])
        # Forks of the question: all but the first compute little of their prompts.
        search = tree["odo"]["tokens"]["search"]
        self.assertGreater(search["cached"], search["prompt"] / 3)

    def test_reload(self):
        file = self.pipelines / "live.yaml"
        self.assertEqual(self.chat(model="odo:live")["odo"]["pipeline"], "live")
        before = self.chat(model="odo:live")["usage"]["prompt_tokens"]
        file.write_text("name: live\nmode: fast\nsistem: longer\n")
        wait_for(lambda: (self.chat(model="odo:live"), "live.yaml:3: 'sistem' is no key here" in self.server.log())[1],
                 "the reason in the log")
        self.assertEqual(self.chat(model="odo:live")["usage"]["prompt_tokens"], before)
        file.write_text("name: live\nmode: fast\nsystem: Be brief, and say what the command is for.\n")
        wait_for(lambda: self.chat(model="odo:live")["usage"]["prompt_tokens"] > before, "the new version")

    def command(self, *arguments):
        return subprocess.run([CHIMERE, "odo", *map(str, arguments)], capture_output=True, text=True, timeout=HANG,
                              env=environment(self.state.name))

    def test_files_are_checked(self):
        with tempfile.TemporaryDirectory() as folder:
            good, bad = pathlib.Path(folder) / "good.yaml", pathlib.Path(folder) / "bad.yaml"
            good.write_text("name: good\nmode: fast\nsteps:\n  - name: first\n  - name: second\n")
            bad.write_text("name: bad\nmode: slow\nsistem: x\n")
            done = self.command("check", good)
            self.assertEqual((done.returncode, done.stdout), (0, f"{good}: pipeline good, mode fast, 2 steps\n"))
            done = self.command("check", good, bad, "--json")
            self.assertEqual(done.returncode, 1)
            read = json.loads(done.stdout)
            self.assertEqual([file["valid"] for file in read], [True, False])
            self.assertIn("bad.yaml:3: 'sistem' is no key here", read[1]["why"])
            self.assertIn("1 of 2 files", done.stderr)
            done = self.command("check", "--intents", self.pipelines.parent / "intents" / "heraldry.yaml")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("intent heraldry", done.stdout)

    def test_decisions_are_explained(self):
        about = self.chat(model="odo:live")["odo"]
        state = ("--state-folder", self.state.name)

        def newest():
            done = self.command("explain", "--json", "-n", 1, *state)
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout)[0]
        wait_for(lambda: newest()["pipeline"] == "live", "the decision in the log")
        decision = newest()
        self.assertEqual(decision["intent"], about["route"]["intent"])
        self.assertEqual(decision["reasons"], about["route"]["reasons"])
        shown = self.command("explain", *state).stdout
        self.assertIn("pipeline live, mode fast", shown)
        for reason in about["route"]["reasons"]:
            self.assertIn("  - " + reason, shown)
        with tempfile.TemporaryDirectory() as empty:
            self.assertIn("decided nothing yet", self.command("explain", "--state-folder", empty).stderr)

    def test_clients_that_leave_end_the_generation(self):
        connection = self.server.raw()
        body = json.dumps({"model": "odo", "messages": QUESTION, "stream": True, "ignore_eos": True, "max_tokens": 4000})
        connection.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        connection.recv(100)
        connection.close()
        wait_for(lambda: self.server.get("/v1/status")["requests"]["running"] == 0, "the end of the generation")

    def test_ask(self):
        def ask(*arguments):
            return subprocess.run([CHIMERE, "ask", "-m", MODEL, "--state-folder", self.state.name, *arguments],
                                  capture_output=True, text=True, timeout=HANG, env=environment(self.state.name))
        with tempfile.TemporaryDirectory() as folder:
            docs = pathlib.Path(folder) / "docs"
            docs.mkdir()
            (docs / "zorb.md").write_text("# zorb\n\nThe command zorb counts the moons of a planet.\n\n"
                                          "## Options\n\nThe option --rings counts the rings, too.\n")
            (docs / "other.md").write_text("# other\n\nThe command other prints a poem about rain.\n")
            collections = ["--collections", folder + "/collections", "--embedding-model", "none"]
            added = subprocess.run([CHIMERE, "collection", "add", *collections, "docs", str(docs)],
                                   capture_output=True, text=True, timeout=HANG, env=environment(folder))
            self.assertEqual(added.returncode, 0, added.stderr)
            done = ask("--json", "--temp", "0", "--seed", "1", "-n", "24", *collections, "--collection", "docs",
                       "--pipeline", "research", "--mode", "fast", "What does the command zorb count?")
            self.assertEqual(done.returncode, 0, done.stderr)
            reply = json.loads(done.stdout)
            self.assertEqual(reply["odo"]["passages"], "correct")
            self.assertEqual(reply["odo"]["sources"][0]["collection"], "docs")
            self.assertIn("zorb", reply["odo"]["sources"][0]["name"])
            self.assertEqual([s["name"] for s in reply["steps"]], ["route", "retrieve", "probe"])
            # Whatever the small model says, the answer has the passage and its number.
            self.assertIn("counts the moons of a planet", reply["answer"])
            self.assertIn("[1]", reply["answer"])
            shown = ask("-q", "--temp", "0", "--seed", "1", "-n", "8", *collections, "--collection", "docs", "--pipeline", "research",
                        "--mode", "fast", "What does the command zorb count?")
            self.assertIn("Sources:\n  [1] ", shown.stdout)
            missing = ask("-q", *collections, "--collection", "none", "--pipeline", "research", "What is zorb?")
            self.assertNotEqual(missing.returncode, 0)
            self.assertIn("none", missing.stderr)
        self.assertNotEqual(ask("--mode", "slow", "x").returncode, 0)

    @contextlib.contextmanager
    def proxy(self):
        """`chimere odo` in front of the server, with its pipelines and intents."""
        url = f"http://127.0.0.1:{self.server.port}/v1"
        with tempfile.TemporaryDirectory() as home:
            for folder in ("pipelines", "intents"):
                if (pathlib.Path(self.state.name) / folder).exists():
                    shutil.copytree(pathlib.Path(self.state.name) / folder, pathlib.Path(home) / folder)
            process = subprocess.Popen(
                [CHIMERE, "odo", "--json", "--upstream", url, "--port", "0", "--continues", "--state-folder", home],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment(home))
            try:
                proxy = Server.__new__(Server)
                proxy.port = int(json.loads(process.stdout.readline())["url"].rsplit(":", 1)[1])
                yield proxy
            finally:
                process.terminate()
                process.wait(HANG)
                process.stdout.close()

    def test_proxy(self):
        with self.proxy() as proxy:
            body = {"messages": QUESTION, "temperature": 0, "max_tokens": 24}
            plain = proxy.post(CHAT, {**body, "model": self.server.model, "reasoning_effort": "none"})
            self.assertNotIn("odo", plain)
            odo = proxy.post(CHAT, {**body, "model": "odo"})
            self.assertEqual(odo["choices"][0]["message"], plain["choices"][0]["message"])
            self.assertEqual(odo["odo"]["tokens"]["answer"]["completion"], plain["usage"]["completion_tokens"])
            events = proxy.stream(CHAT, {**body, "model": "odo"})
            self.assertEqual("".join(e["choices"][0]["delta"].get("content", "") for e in events),
                             plain["choices"][0]["message"]["content"])
            self.assertIn("odo:code", {m["id"] for m in proxy.get("/v1/models")["data"]})
            self.assertEqual(proxy.error(CHAT, {**body, "model": "odo:none"}, 404)["code"], "model_not_found")
            self.assertTrue(proxy.stream(CHAT, {**body, "model": self.server.model}))

    def test_shipped_pipelines_in_the_server_and_in_front_of_it(self):
        questions = {"code": "Write a function in Python that merges two sorted lists.",
                     "cyber": "We see thousands of failed password lines for root from one address.",
                     "default": "Explain step by step which of tar and zip is smaller, and why?",
                     "kine": "Which exercises for a rotator cuff tendinopathy?",
                     "research": "Compare the evidence for the two diets and cite sources."}
        own = {"code": {"step architect"}, "cyber": {"step triage", "step correlate"}, "default": set(), "kine": set(),
               "research": {"search"}}
        with self.proxy() as proxy:
            for pipeline, question in questions.items():
                with self.subTest(pipeline=pipeline):
                    body = {"model": "odo:" + pipeline, "messages": [{"role": "user", "content": question}], "temperature": 0,
                            "seed": 7, "max_tokens": 40, "odo": {"mode": "ultra" if pipeline == "research" else "quality"}}
                    here, there = self.server.stream(CHAT, body), proxy.stream(CHAT, body)
                    self.assertEqual(self.stages(here), self.stages(there))
                    text = [self.text(events) for events in (here, there)]
                    self.assertEqual(text[0], text[1])
                    self.assertTrue(text[0]["content"] or text[0]["reasoning_content"])
                    about = [next(e["odo"] for e in events if "pipeline" in e.get("odo", {})) for events in (here, there)]
                    for key in ("pipeline", "mode", "route", "sources", "scores", "tools"):
                        self.assertEqual(about[0].get(key), about[1].get(key), key)
                    completions = [{purpose: n["completion"] for purpose, n in a["tokens"].items()} for a in about]
                    self.assertEqual(completions[0], completions[1])
                    self.assertEqual(about[0]["pipeline"], pipeline)
                    self.assertLessEqual(own[pipeline], set(completions[0]))

    @staticmethod
    def stages(events):
        steps = [e["odo"]["step"] for e in events if "step" in e.get("odo", {})]
        # A search's tokens are those that were not cached: the second one finds those of the first.
        return [{key: value for key, value in step.items() if key not in ("seconds", "tokens")} for step in steps]

    @staticmethod
    def text(events):
        out = {"content": "", "reasoning_content": ""}
        for event in events:
            for choice in event["choices"]:
                for key in out:
                    out[key] += choice["delta"].get(key) or ""
        return out


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
