#!/usr/bin/env python3
"""Chat templates put into the shipped model: what a client gets does not depend on the format in which the model writes.

  chat_formats_test.py PROGRAM MODEL FOLDER RUNS [unittest arguments]       FOLDER: chat templates, *.jinja

For each template and seed, a plain question and one with tools are answered as a whole and as a stream: both are the same,
names and arguments of calls are those of the tools, required calls are there, no text shows markup of calls or reasoning, and
an answer that has ended has a text or a call. Without a reasoning budget, which not every format can have, a model may end its
answer at once or inside the reasoning.
"""
import concurrent.futures
import json
import pathlib
import re
import sys
import unittest

from server import Server

PROGRAM, MODEL, FOLDER, RUNS = sys.argv[1:5]
CHAT = "/v1/chat/completions"
QUESTION = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What does the command ls do?"}]
TOOLS = {
    "find_thing": {"type": "object", "properties": {"word": {"enum": ["ä <b>", "x"]},
                                                    "count": {"type": "integer", "minimum": 1, "maximum": 9}},
                   "required": ["word", "count"], "additionalProperties": False},
    "list_files": {"type": "object", "properties": {"path": {"type": "string", "maxLength": 20}, "all": {"type": "boolean"}},
                   "required": ["path"], "additionalProperties": False},
}
# What no text beside calls may show if the template has it. Without tools a model may write whatever it likes, and with them
# what is markup elsewhere.
MARKUP = re.compile(r"</?think>|</?tool_call>|\[TOOL_CALLS\]|\[/?THINK\]|</?seed:(?:think|tool_call)>|<\|(?:channel|message|start|end|call)\|>|"
                    r"<function=|<\|tool_calls?_(?:begin|end)\|>|<\|python_tag\|>|<\|(?:START|END)_(?:THINKING|ACTION)\|>")
TOKENS = 300


def right_arguments(name, text):
    values = json.loads(text)
    if name == "find_thing":
        return set(values) == {"word", "count"} and values["word"] in ("ä <b>", "x") and values["count"] in range(1, 10)
    return {"path"} <= set(values) <= {"path", "all"} and len(values["path"]) <= 20 and isinstance(values.get("all", True), bool)


def answer(message, finish):
    """What two answers are compared by: the ids of calls are drawn anew."""
    calls = [(c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls") or []]
    return {"content": message.get("content") or "", "reasoning": message.get("reasoning_content") or "", "calls": calls,
            "finish": finish}


def streamed(events):
    message, finish, calls = {"content": "", "reasoning_content": ""}, None, {}
    for event in events:
        for choice in event["choices"]:
            delta, finish = choice["delta"], choice["finish_reason"] or finish
            for key in message:
                message[key] += delta.get(key) or ""
            for part in delta.get("tool_calls") or []:
                call = calls.setdefault(part["index"], {"name": "", "arguments": ""})
                for key in call:
                    call[key] += part["function"].get(key) or ""
    return answer({**message, "tool_calls": [{"function": c} for _, c in sorted(calls.items())]}, finish)


class ChatFormats(unittest.TestCase):
    def check(self, server, body, required):
        reply = server.post(CHAT, body)
        choice = reply["choices"][0]
        whole = answer(choice["message"], choice["finish_reason"])
        self.assertEqual(streamed(server.stream(CHAT, body)), whole)
        if "tools" in body:
            self.assertEqual([tag for tag in MARKUP.findall(whole["content"]) if tag in self.source], [])
        ended = whole["finish"] != "length"
        for i, (name, arguments) in enumerate(whole["calls"]):
            self.assertIn(name, TOOLS)
            if ended or i + 1 < len(whole["calls"]):
                self.assertTrue(right_arguments(name, arguments), (name, arguments))
        if ended:
            given = whole["calls"] if required else whole["calls"] or whole["content"]
            at_once = reply["usage"]["completion_tokens"] <= 1
            may_lack = not required and "reasoning_effort" not in body and (whole["reasoning"] or at_once)
            self.assertTrue(given or may_lack, whole)
        return whole

    @staticmethod
    def takes_budgets(server):
        """Whether the format's reasoning tags are tokens."""
        return server.call("POST", CHAT, {"messages": QUESTION, "max_tokens": 1, "reasoning_effort": "low"})[0] == 200

    def check_template(self, path):
        """How many answers have ended, and how many have calls."""
        self.source = path.read_text()
        server = Server(PROGRAM, MODEL, chat_template=path)
        try:
            # Arguments of calls that were not required are valid under the schema if the tool is strict.
            tools = [{"type": "function", "function": {"name": n, "parameters": p, "strict": True}} for n, p in TOOLS.items()]
            bodies = []
            budget = {"reasoning_effort": "low"} if self.takes_budgets(server) else {}
            for seed in range(int(RUNS)):
                body = {"messages": QUESTION, "temperature": 1, "max_tokens": TOKENS, "seed": seed}
                if (seed + 1) // 2 % 2:
                    body |= budget
                choice = ("required", "auto")[seed % 2]
                bodies += [(body, False), ({**body, "tools": tools, "tool_choice": choice}, choice == "required")]
            with concurrent.futures.ThreadPoolExecutor(8) as threads:
                done = list(threads.map(lambda b: self.check(server, *b), bodies))
        finally:
            code = server.close()
        self.assertEqual(code, 0, server.log()[-2000:])
        return sum(a["finish"] != "length" for a in done), sum(bool(a["calls"]) for a in done), len(done)

    def test_what_clients_get(self):
        templates = sorted(pathlib.Path(FOLDER).rglob("*.jinja"))
        self.assertTrue(templates)
        with_calls = 0
        for path in templates:
            with self.subTest(template=path.name):
                ended, calls, all_answers = self.check_template(path)
                print(f"{path.name}: {all_answers} answers, {ended} ended, {calls} with calls", flush=True)
                with_calls += calls > 0
        # Each second request with tools requires one; where a template opens the reasoning, it may not end.
        self.assertGreater(with_calls, len(templates) // 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
