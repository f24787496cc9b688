#!/usr/bin/env python3
"""Files whose reasoning tags are control tokens or other texts: the same reasoning, content and calls as with the shipped file's
user-defined <think> and </think>.

  reasoning_tags_test.py CHIMERE MODEL [unittest arguments]
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

from server import Server, environment

CHIMERE, MODEL = sys.argv[1:3]
CHAT = "/v1/chat/completions"
QUESTION = [{"role": "user", "content": "What does ls do?"}]
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "s", "schema": {
    "type": "object", "properties": {"answer": {"enum": ["yes", "no"]}}, "required": ["answer"], "additionalProperties": False}}}
THINK = {"messages": QUESTION, "temperature": 0, "max_tokens": 160, "chat_template_kwargs": {"enable_thinking": True}}
REQUESTS = {
    "text": THINK,
    "a stop string": {**THINK, "stop": ["ls"]},
    "a budget": {"messages": QUESTION, "temperature": 0, "max_tokens": 120, "thinking_budget": 48},
    "a schema": {**THINK, "max_tokens": 300, "response_format": SCHEMA},
    "a call": {**THINK, "max_tokens": 300, "tools": [TOOL], "tool_choice": "required"},
    "a continued message": {"messages": [*QUESTION, {"role": "assistant", "content": "<think>\nIt lists.\n</think>\n\nIt"}],
                            "temperature": 0, "max_tokens": 20},
    "no reasoning": {**THINK, "chat_template_kwargs": {"enable_thinking": False}},
}
CONTROL = 3  # tokenizer.ggml.token_type


def with_tags(file, first, last):
    """The file with control tokens of these texts in place of <think> and </think>, in vocabulary and template."""
    def place(key):  # of the value, after its type
        return file.index(key) + len(key) + 4

    tokens = place(b"tokenizer.ggml.tokens")
    count, = struct.unpack_from("<Q", file, tokens + 4)
    types = place(b"tokenizer.ggml.token_type") + 12
    out = bytearray(file)
    at = tokens + 12
    ids = []
    for i in range(count):
        size, = struct.unpack_from("<Q", file, at)
        if file[at + 8:at + 8 + size] in (b"<think>", b"</think>"):
            struct.pack_into("<i", out, types + 4 * i, CONTROL)
            ids.append(i)
        at += 8 + size
    assert len(ids) == 2, ids
    assert (len(first), len(last)) == (len("<think>"), len("</think>"))  # sizes are written before texts
    return bytes(out.replace(b"</think>", last).replace(b"<think>", first))


def parts(choice):
    message = choice["message"]
    calls = [(c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls") or []]
    return message.get("reasoning_content") or "", message.get("content") or "", calls, choice["finish_reason"]


def scored(server, first, last):
    """Reasoning, content and tokens of each event of a stream with log-probabilities."""
    out = []
    for event in server.stream(CHAT, {**THINK, "logprobs": True}):
        choice = event["choices"][0]
        tokens = [t["token"] for t in (choice.get("logprobs") or {}).get("content") or []]
        tokens = [{first: "<think>", last: "</think>"}.get(t, t) for t in tokens]
        out.append((choice["delta"].get("reasoning_content"), choice["delta"].get("content"), tokens))
    return out


class ReasoningTags(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.home = pathlib.Path(cls.folder.name)
        server = Server(CHIMERE, MODEL)
        cls.wanted = {name: cls.ask(server, request) for name, request in REQUESTS.items()}
        cls.scored = scored(server, "<think>", "</think>")
        server.close()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @staticmethod
    def ask(server, request):
        response = server.post(CHAT, request)
        usage = response["usage"]
        return *parts(response["choices"][0]), usage["completion_tokens"], usage["completion_tokens_details"]["reasoning_tokens"]

    def streamed(self, server, request):
        deltas = [e["choices"][0]["delta"] for e in server.stream(CHAT, request) if e.get("choices")]
        return tuple("".join(d.get(key) or "" for d in deltas) for key in ("reasoning_content", "content"))

    def check(self, first, last):
        path = self.home / "tagged.gguf"
        path.write_bytes(with_tags(pathlib.Path(MODEL).read_bytes(), first.encode(), last.encode()))
        server = Server(CHIMERE, str(path))
        self.addCleanup(server.close)
        for name, request in REQUESTS.items():
            with self.subTest(request=name):
                if name == "a continued message":
                    text = request["messages"][-1]["content"].replace("</think>", last).replace("<think>", first)
                    request = {**request, "messages": [*QUESTION, {"role": "assistant", "content": text}]}
                self.assertEqual(self.ask(server, request), self.wanted[name])
                self.assertEqual(self.streamed(server, request), self.wanted[name][:2])
        self.assertEqual(scored(server, first, last), self.scored)
        reasoning, content = self.wanted["text"][:2]
        show = server.post("/api/show", {"model": server.model})
        self.assertIn("thinking", show["capabilities"])
        ran = subprocess.run([CHIMERE, "run", "-m", path, "-p", QUESTION[0]["content"], "--json", "--temp", "0", "--reasoning", "256",
                              "-n", "160"], capture_output=True, text=True, env=environment(self.home))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        out = json.loads(ran.stdout)
        self.assertTrue(out["reasoning"])
        self.assertTrue(out["text"])
        for tag in (first, last):
            self.assertNotIn(tag, reasoning + content + out["reasoning"] + out["text"])

    def test_the_shipped_file(self):
        for name in ("text", "a budget", "a schema", "a call"):
            reasoning, content, calls = self.wanted[name][:3]
            self.assertTrue(reasoning, name)
            self.assertTrue(content or calls, name)
        self.assertEqual(self.wanted["no reasoning"][0], "")
        self.assertEqual([t for _, _, tokens in self.scored for t in tokens].count("</think>"), 1)
        self.assertIn(json.loads(self.wanted["a schema"][1])["answer"], ("yes", "no"))
        self.assertEqual([name for name, _ in self.wanted["a call"][2]], ["look"])

    def test_tags_that_are_control_tokens(self):
        self.check("<think>", "</think>")

    def test_tags_of_other_texts(self):
        self.check("[THINK]", "[/THINK]")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
