#!/usr/bin/env python3
"""Tools and structured output of `chimere serve`, with the shipped model.

  tools_test.py CHIMERE MODEL [unittest arguments]
"""
import json
import sys
import unittest

from server import Server

CHIMERE, MODEL = sys.argv[1:3]
CHAT = "/v1/chat/completions"
QUESTION = [{"role": "user", "content": "What does the command ls do?"}]
GREEDY = {"messages": QUESTION, "temperature": 0, "max_tokens": 24}


def content(response):
    return response["choices"][0]["message"]["content"]


class Tools(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(CHIMERE, MODEL)

    @classmethod
    def tearDownClass(cls):
        code = cls.server.close()
        assert code == 0, (code, cls.server.log())

    def chat(self, **fields):
        return self.server.post(CHAT, {**GREEDY, **fields})

    def check_call(self, choice):
        """A choice with one call of find_thing, streamed or not."""
        self.assertEqual(choice["finish_reason"], "tool_calls")
        message = choice["message"]
        self.assertIsNone(message["content"])
        [call] = message["tool_calls"]
        self.assertEqual((call["type"], call["function"]["name"]), ("function", "find_thing"))
        self.assertRegex(call["id"], "^call_[A-Za-z0-9]{24}$")
        arguments = json.loads(call["function"]["arguments"])
        self.assertEqual(set(arguments), {"word", "count"})
        self.assertIn(arguments["word"], ["ä <b>", "x"])
        self.assertIn(arguments["count"], range(1, 10))
        return call

    def test_tools(self):
        schema = {"type": "object", "properties": {"word": {"enum": ["ä <b>", "x"]},
                                                   "count": {"type": "integer", "minimum": 1, "maximum": 9}},
                  "required": ["word", "count"], "additionalProperties": False}
        fields = {"tools": [{"type": "function", "function": {"name": "find_thing", "parameters": schema}}],
                  "max_tokens": 200, "parallel_tool_calls": False}
        named = {"type": "function", "function": {"name": "find_thing"}}
        for choice in ("required", named):
            for temperature, effort in ((0, "none"), (1.5, "none"), (1, "low")):
                body = {**GREEDY, **fields, "tool_choice": choice, "temperature": temperature, "seed": 3,
                        "reasoning_effort": effort}
                whole = self.server.post(CHAT, body)["choices"][0]
                call = self.check_call(whole)
                message = {"content": None, "tool_calls": []}
                for event in self.server.stream(CHAT, {**body, "stream": True}):
                    [part] = event["choices"]
                    for delta in part["delta"].get("tool_calls", []):
                        self.assertEqual(delta["index"], 0)
                        if "id" in delta:
                            message["tool_calls"].append(delta)
                        else:
                            message["tool_calls"][0]["function"]["arguments"] += delta["function"]["arguments"]
                    message["content"] = (message["content"] or "") + (part["delta"].get("content") or "") or None
                streamed = self.check_call({"finish_reason": part["finish_reason"], "message": message})
                self.assertEqual(streamed["function"], call["function"])
        # The call and its result in a conversation.
        turn = [*QUESTION, {**whole["message"]}, {"role": "tool", "tool_call_id": call["id"], "content": "none"}]
        answer = self.chat(messages=turn, tools=fields["tools"], tool_choice="none")["choices"][0]
        self.assertNotIn("tool_calls", answer["message"])
        # What changes nothing.
        plain = content(self.chat())
        for harmless in ({"tools": []}, {"tool_choice": "none", **fields, "max_tokens": 24}, {"parallel_tool_calls": True}):
            self.assertEqual(content(self.chat(**harmless)), plain)

    def test_structured_output(self):
        schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
                                                   "b": {"enum": ["ü", None]}}, "required": ["a", "b"],
                  "additionalProperties": False}
        for effort in ("none", "low"):
            response = self.chat(response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}},
                                 temperature=1.5, seed=5, max_tokens=300, reasoning_effort=effort)
            document = json.loads(content(response))
            self.assertEqual(set(document), {"a", "b"})
            self.assertIn(document["b"], ["ü", None])
            self.assertTrue(all(isinstance(x, bool) for x in document["a"]))
        for bad in ({"$ref": "https://example.org/schema"}, {"type": "object", "minProperties": 2, "maxProperties": 1}):
            error = self.server.error(CHAT, {**GREEDY, "response_format": {
                "type": "json_schema", "json_schema": {"name": "n", "schema": bad}}})
            self.assertEqual(error["param"], "response_format")
        error = self.server.error(CHAT, {**GREEDY, "tools": [
            {"type": "function", "function": {"name": "f", "strict": True, "parameters": {"type": "string"}}}]})
        self.assertEqual(error["param"], "tools")

    def test_formats_of_other_servers(self):
        for fields, expected in (({"grammar": 'root ::= "a" [0-9]{2} "b"'}, r"a[0-9]{2}b"),
                                 ({"json_schema": {"enum": [[None, True]]}}, r'\[\s*null\s*,\s*true\s*\]'),
                                 ({"structured_outputs": {"regex": "(ab){3}"}}, "ababab"),
                                 ({"guided_choice": ["north", "süd"]}, "north|süd")):
            sampling = {"temperature": 1.5, "seed": 3, "max_tokens": 400}
            self.assertRegex(content(self.chat(**fields, **sampling, reasoning_effort="none")), f"^(?:{expected})$")
            completed = self.server.post("/v1/completions", {"prompt": "The answer is ", **fields, **sampling})
            self.assertRegex(completed["choices"][0]["text"], f"^(?:{expected})$")
        for bad in ({"grammar": "root ::= x"}, {"guided_regex": "("}, {"structured_outputs": {"regex": "a", "choice": ["b"]}},
                    {"tools": [{"type": "function", "function": {"name": "f"}}], "guided_choice": ["a"]}):
            self.server.error(CHAT, {**GREEDY, **bad})


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
