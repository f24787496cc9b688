#!/usr/bin/env python3
"""Stop strings beside reasoning, in each API that has them and in `chimere run`; log-probabilities of echoed prompts, as evaluation
harnesses ask for them.

  stop_and_echo_test.py CHIMERE MODEL [unittest arguments]
"""
import json
import subprocess
import sys
import tempfile
import unittest

from server import Server, environment

CHIMERE, MODEL = sys.argv[1:3]
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
QUESTION = [{"role": "user", "content": "What does ls do?"}]
THINK = {"messages": QUESTION, "temperature": 0, "max_tokens": 160, "chat_template_kwargs": {"enable_thinking": True}}
# A prompt of several chunks of prefill.
LONG = " ".join(f"{i}: ls lists the files of directory {i}." for i in range(30))


def before(text, stop):
    return text.split(stop, 1)[0]


class WithServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(CHIMERE, MODEL, "--max-running", 8)

    @classmethod
    def tearDownClass(cls):
        code = cls.server.close()
        assert code == 0, (code, cls.server.log())


class StopInReasoning(WithServer):
    def chat(self, stop, **fields):
        choice = self.server.post(CHAT, {**THINK, "stop": stop, **fields})["choices"][0]
        message = choice["message"]
        return message.get("reasoning_content") or "", message["content"], choice["finish_reason"]

    def streamed(self, stop):
        deltas = [e["choices"][0]["delta"] for e in self.server.stream(CHAT, {**THINK, "stop": stop})]
        join = lambda name: "".join(d.get(name) or "" for d in deltas)
        return join("reasoning_content"), join("content"), ""

    def anthropic(self, stop):
        response = self.server.post("/v1/messages", {"messages": QUESTION, "temperature": 0, "max_tokens": 1500, "stop_sequences": stop,
                                                     "thinking": {"type": "enabled", "budget_tokens": 1024}})
        parts = {p["type"]: p.get("thinking") or p.get("text", "") for p in response["content"]}
        return parts.get("thinking", ""), parts.get("text", ""), response["stop_sequence"]

    def ollama(self, stop):
        response = self.server.post("/api/chat", {"messages": QUESTION, "think": True, "stream": False,
                                                  "options": {"temperature": 0, "num_predict": 160, "stop": stop}})
        return response["message"].get("thinking", ""), response["message"]["content"], ""

    def check(self, ask):
        reasoning, answer, _ = ask(["nowhere in it"])
        self.assertTrue(reasoning and answer, (reasoning, answer))
        # The first word of the reasoning ends the answer where it occurs there, and nothing else.
        for stop in (reasoning.split()[0], reasoning[2:9], "\n\n"):
            self.assertEqual(ask([stop])[:2], (reasoning, before(answer, stop)), stop)
        stop = answer[len(answer) // 2:][:6]
        self.assertEqual(ask([stop])[:2], (reasoning, before(answer, stop)))
        # A stop string does not begin in the reasoning and end in the answer.
        self.assertEqual(ask([reasoning[-3:] + "\n</think>", "</think>\n\n" + answer[:3]])[:2], (reasoning, answer))

    def test_the_case_from_the_field(self):
        fields = {"max_tokens": 60, "stop": ["command"]}
        choice = self.server.post(CHAT, {**THINK, **fields})["choices"][0]
        self.assertIn("command", choice["message"]["reasoning_content"])
        self.assertNotIn("command", choice["message"]["content"] or "")

    def test_chat(self):
        self.check(self.chat)

    def test_streams(self):
        self.check(self.streamed)

    def test_budgets(self):
        self.check(lambda stop: self.chat(stop, chat_template_kwargs=None, thinking_budget=48))

    def test_anthropic(self):
        self.check(self.anthropic)

    def test_ollama(self):
        self.check(self.ollama)

    def test_without_reasoning(self):
        ask = lambda stop: self.chat(stop, chat_template_kwargs={"enable_thinking": False})
        reasoning, answer, _ = ask(["nowhere in it"])
        self.assertEqual(reasoning, "")
        stop = answer.split()[1]
        self.assertEqual(ask([stop])[1:], (before(answer, stop), "stop"))

    def test_completions_match_from_the_first_byte(self):
        fields = {"prompt": "Question: what does ls do? <think>", "temperature": 0, "max_tokens": 24}
        text = self.server.post(TEXT, fields)["choices"][0]["text"]
        stop = text[1:4]
        self.assertEqual(self.server.post(TEXT, {**fields, "stop": stop})["choices"][0]["text"], before(text, stop))

    def test_run(self):
        with tempfile.TemporaryDirectory() as home:
            def ask(stop):
                out = subprocess.run([CHIMERE, "run", "--json", "-m", MODEL, "--temp", "0", "-n", "160", "--reasoning", "48", "--stop",
                                      stop, "-p", QUESTION[0]["content"]], capture_output=True, check=True, env=environment(home))
                result = json.loads(out.stdout)
                return result["reasoning"], result["text"]
            reasoning, answer = ask("nowhere in it")
            stop = reasoning.split()[0]
            self.assertEqual(ask(stop), (reasoning, before(answer, stop).rstrip()))


class Echo(WithServer):
    def tokens(self, text):
        return self.server.post("/tokenize", {"content": text, "add_special": True})["tokens"]

    def complete(self, prompt, **fields):
        return self.server.post(TEXT, {"prompt": prompt, "echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0, "seed": 1234,
                                       **fields})

    def check_shape(self, choice, prompt, generated):
        """prompt: its text."""
        logprobs = choice["logprobs"]
        values, tops, offsets = logprobs["token_logprobs"], logprobs["top_logprobs"], logprobs["text_offset"]
        n = len(logprobs["tokens"])
        self.assertEqual([len(values), len(tops), len(offsets)], [n, n, n])
        self.assertEqual([values[0], tops[0]], [None, None])
        self.assertTrue(all(v <= 0 and len(t) == 1 for v, t in zip(values[1:], tops[1:])))
        self.assertTrue(choice["text"].startswith(prompt))
        self.assertEqual("".join(logprobs["tokens"][:n - generated]), prompt)
        for offset, token in zip(offsets, logprobs["tokens"]):
            self.assertEqual(prompt[offset:offset + len(token)] if offset < len(prompt) else token, token)
        if generated:
            self.assertEqual(offsets[-generated], len(prompt))
        return values[1:n - generated]

    def test_what_evaluation_harnesses_send(self):
        contexts = ["Question: what lists files?\nAnswer:", "The command to list files is"]
        endings = [" ls", " cat", " the command ls, which lists them"]
        pairs = [(c, e) for c in contexts for e in endings]
        prompts = [self.tokens(c) + self.server.post("/tokenize", {"content": e, "add_special": False})["tokens"] for c, e in pairs]
        responses = [self.complete(prompts, max_tokens=n) for n in (1, 0)]
        for most, response in zip((1, 0), responses):
            self.assertEqual([c["index"] for c in response["choices"]], list(range(len(pairs))))
            usage = response["usage"]
            self.assertEqual((usage["prompt_tokens"], usage["completion_tokens"]), (sum(map(len, prompts)), most * len(prompts)))
            for choice, ids, (context, ending) in zip(response["choices"], prompts, pairs):
                self.assertEqual(len(choice["logprobs"]["tokens"]), len(ids) + most)
                self.check_shape(choice, context + ending, most)
                self.assertIn(choice["finish_reason"], ("length", "stop") if most else ("length",))
        parts = [[c["logprobs"]["token_logprobs"][:len(ids)] for c, ids in zip(r["choices"], prompts)] for r in responses]
        self.assertEqual(parts[0], parts[1])
        # One by one, and as texts, the values are the same.
        for i, (context, ending) in enumerate(pairs):
            for prompt in (prompts[i], context + ending):
                if prompt == context + ending and self.tokens(prompt) != prompts[i]:
                    continue
                logprobs = self.complete(prompt, max_tokens=0)["choices"][0]["logprobs"]
                self.assertEqual(logprobs["token_logprobs"], parts[1][i])

    def test_greedy_endings_are_recognised(self):
        context = "The command ls"
        ids = self.tokens(context)
        logprobs = self.server.post(TEXT, {"prompt": ids, "temperature": 0, "max_tokens": 12, "logprobs": 1})["choices"][0]["logprobs"]
        ending = self.server.post("/tokenize", {"content": "".join(logprobs["tokens"]), "add_special": False})["tokens"]

        def is_greedy(continuation):
            out = self.complete(ids + continuation)["choices"][0]["logprobs"]
            part = slice(len(ids), -1)
            return all(v == max(t.values()) for v, t in zip(out["token_logprobs"][part], out["top_logprobs"][part]))
        self.assertTrue(is_greedy(ending))
        self.assertFalse(is_greedy(ending[:3] + self.tokens(" zebra")))

    def test_equal_to_generating_them(self):
        first = self.tokens("ls")[:1]
        fields = {"temperature": 1, "seed": 5, "logprobs": 3, "max_tokens": 100, "ignore_eos": True, "cache_prompt": False}
        made = self.server.post(TEXT, {"prompt": first, **fields, "echo": True})["choices"][0]
        ids = self.server.post("/tokenize", {"content": made["text"], "add_special": False})["tokens"]
        if len(ids) != 101:  # the sampled tokens are others than those of the text
            self.skipTest("the text has other tokens")
        again = self.complete(ids, logprobs=3, max_tokens=0)["choices"][0]
        self.assertEqual(again["logprobs"], made["logprobs"])

    def test_long_prompts_and_the_prefix_cache(self):
        alone = self.complete(LONG, max_tokens=0)["choices"][0]
        values = self.check_shape(alone, LONG, 0)
        self.assertGreater(len(values), 200)
        plain = {"prompt": LONG, "max_tokens": 4, "temperature": 0}
        text = self.server.post(TEXT, plain)["choices"][0]["text"]
        self.assertEqual(self.server.post(TEXT, plain)["choices"][0]["text"], text)
        cached = self.complete(LONG, max_tokens=0)
        self.assertEqual(cached["choices"][0], alone)
        self.assertEqual(cached["usage"]["prompt_tokens_details"]["cached_tokens"], 0)

    def test_offsets_count_characters(self):
        for prompt in ("grüße: ls", "日本語 ls"):
            choice = self.complete(prompt, max_tokens=2)["choices"][0]
            if "\ufffd" not in "".join(choice["logprobs"]["tokens"]):  # every token is whole characters
                self.check_shape(choice, prompt, len(choice["logprobs"]["tokens"]) - len(self.tokens(prompt)))
            self.assertEqual(choice["logprobs"]["text_offset"][len(self.tokens(prompt))], len(prompt))

    def test_several_choices_and_streams(self):
        fields = {"n": 2, "temperature": 1, "max_tokens": 5, "logprobs": 2, "seed": 3}
        whole = self.complete("ls lists", **fields)["choices"]
        events = self.server.stream(TEXT, {"prompt": "ls lists", "echo": True, **fields})
        for choice in whole:
            parts = [e["choices"][0] for e in events if e["choices"][0]["index"] == choice["index"]]
            self.assertEqual("".join(p["text"] for p in parts), choice["text"])
            for name in choice["logprobs"]:
                joined = [x for p in parts if p["logprobs"] for x in p["logprobs"][name]]
                self.assertEqual(joined, choice["logprobs"][name], name)
            self.assertEqual(parts[-1]["finish_reason"], choice["finish_reason"])
        prompts = [c["logprobs"]["token_logprobs"][:len(self.tokens("ls lists"))] for c in whole]
        self.assertEqual(prompts[0], prompts[1])
        nothing = self.server.stream(TEXT, {"prompt": "ls lists", "echo": True, "max_tokens": 0, "logprobs": 1})
        self.assertEqual("".join(e["choices"][0]["text"] for e in nothing), "ls lists")
        self.assertEqual(nothing[-1]["choices"][0]["finish_reason"], "length")

    def test_the_token_that_ends_a_generation_is_counted(self):
        end = self.server.post("/tokenize", {"content": "<|im_end|>", "add_special": False, "parse_special": True})["tokens"]
        choice = self.complete("ls lists", logit_bias={str(end[0]): 100})["choices"][0]
        self.assertEqual((choice["text"], choice["finish_reason"]), ("ls lists", "stop"))
        self.assertEqual(choice["logprobs"]["tokens"][-1], "<|im_end|>")
        self.assertEqual(choice["logprobs"]["text_offset"][-1], len("ls lists"))

    def test_without_logprobs(self):
        choice = self.complete("ls lists", logprobs=None, max_tokens=0)["choices"][0]
        self.assertEqual((choice["text"], choice["logprobs"], choice["finish_reason"]), ("ls lists", None, "length"))
        self.assertEqual(self.server.error(TEXT, {"prompt": "x", "max_tokens": 0})["param"], "max_tokens")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
