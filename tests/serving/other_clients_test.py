#!/usr/bin/env python3
"""What clients written for other servers send: none of it is refused.

  other_clients_test.py CHIMERE MODEL [unittest arguments]
"""
import json
import sys
import unittest

from server import Server

CHIMERE, MODEL = sys.argv[1:3]
CHAT = "/v1/chat/completions"
QUESTION = {"role": "user", "content": "What does ls do?"}
TOOL = {"type": "function", "function": {
    "name": "read_file", "description": "Reads a file",
    "parameters": {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": False,
                   "properties": {"path": {"type": "string", "description": "Absolute"}}, "required": ["path"]}}}
CALL = {"id": "call_1", "type": "function", "index": 0, "function": {"name": "read_file", "arguments": '{"path":"/a"}'}}

FIELDS = """repetition_penalty 1.1; min_tokens 0; cache_prompt true; id_slot -1; timings_per_token true; n_predict 4
enable_thinking false; think false; thinking {"type":"disabled"}; reasoning {"effort":"low"}; reasoning_format "auto"
skip_special_tokens true; ignore_eos false; stop_token_ids []; best_of 1; add_generation_prompt true; echo false
continue_final_message false; keep_alive "5m"; usage {"include":true}; verbosity "low"; functions []; top_logprobs 0
stream_options {"include_usage":true}; logit_bias [[15,-100],[16,false]]; samplers "edkypmxt"; mirostat 1
max_tokens -1; top_k -1; temperature 1e-8; temperature 1000000; seed 18446744073709551615; seed -5; max_tokens 4.0
reasoning_effort "xhigh"; reasoning_effort ""; tool_choice "auto"; stop ""; function_call "none"; prediction {"type":"content","content":"x"}
web_search_options {}; provider {"order":["a"]}; transforms []; top_a 0; tfs_z 1; mirostat_tau 5.0; grammar ""; n_probs 0
include_reasoning true; safe_prompt false; extra_body {"a":1}; frequency_penalty 0; logprobs false; response_format {"type":"text"}"""

# What an assistant's message has when a client sends it back as it came.
SENT_BACK = [{"parsed": None}, {"parsed": {"a": 1}}, {"annotations": []}, {"reasoning": "r"}, {"reasoning_details": []},
             {"finish_reason": "stop"}, {"id": "m1"}, {"thinking": "r"}, {"refusal": None}, {"audio": None}, {"function_call": None},
             {"tool_calls": []}, {"name": None}, {"reasoning_content": None}, {"provider_specific_fields": {}}]

CONVERSATIONS = {
    "parsed arguments": [QUESTION, {"role": "assistant", "content": None, "tool_calls": [
        {**CALL, "function": {**CALL["function"], "parsed_arguments": {}}}]}, {"role": "tool", "tool_call_id": "call_1", "content": "r"}],
    "cache control": [{"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]}],
    "null content": [{"role": "user", "content": None}],
    "empty parts": [{"role": "user", "content": []}],
    "blank content": [QUESTION, {"role": "assistant", "content": ""}, {"role": "user", "content": " \n"}],
    "the old role of functions": [QUESTION, {"role": "function", "name": "f", "content": "r"}, QUESTION],
    "to continue": [QUESTION, {"role": "assistant", "content": "ls lists"}],
    "to continue behind reasoning": [QUESTION, {"role": "assistant", "content": "<think>\nIt lists.\n</think>\n\n"}],
    "empty at the end": [QUESTION, {"role": "assistant", "content": ""}],
    "calls at the end": [QUESTION, {"role": "assistant", "content": None, "tool_calls": [CALL]}],
    "the assistant alone": [{"role": "assistant", "content": "ls lists"}],
}

OLD_FORM = [{"role": "system", "content": "You are opencode."}, {"role": "system", "content": "cwd: /"}, QUESTION,
            {"role": "assistant", "content": "", "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "call_1", "content": ""},
            {"role": "user", "content": [{"type": "text", "text": "go on"}, {"type": "text", "text": "<environment/>"}]}]
CLIENTS = [  # name, path, body; as recorded, but for their texts
    ("Claude Code", "/v1/messages?beta=true", {
        "model": "claude-sonnet-4-5", "max_tokens": 32000, "stream": True, "temperature": 1,
        "system": [{"type": "text", "text": "You are Claude Code.", "cache_control": {"type": "ephemeral"}}],
        "metadata": {"user_id": "user_1_account__session_2"}, "thinking": {"type": "enabled", "budget_tokens": 8},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "tools": [{"name": "Read", "description": "Reads", "input_schema": TOOL["function"]["parameters"], "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "<system-reminder>\nx\n</system-reminder>"},
                                                  {"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]},
                     {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "s"},
                                                       {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"path": "/a"}}]},
                     {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "r", "is_error": False}]}]}),
    ("opencode", CHAT, {"model": "local/model", "max_tokens": 32000, "temperature": 0.55, "top_p": 1, "messages": OLD_FORM, "tools": [TOOL],
                        "tool_choice": "auto", "stream": True, "stream_options": {"include_usage": True}, "reasoningEffort": "medium"}),
    ("Cline", CHAT, {"model": "gpt-4o", "messages": [{"role": "system", "content": "You are Cline."}, *OLD_FORM[2:3], OLD_FORM[5]],
                     "temperature": 0, "stream": True, "stream_options": {"include_usage": True}, "max_tokens": -1, "reasoning_effort": "medium"}),
    ("Open WebUI", "/v1/chat/completions", {
        "stream": True, "model": "chimere-mini", "messages": [{"role": "user", "content": "hi", "id": "1", "timestamp": 1, "files": []}],
        "params": {}, "features": {"web_search": False}, "variables": {"{{USER_NAME}}": "a"}, "session_id": "s", "chat_id": "c", "id": "i",
        "background_tasks": {"title_generation": True}, "tool_servers": [], "stream_options": {"include_usage": True}}),
    ("Open WebUI on Ollama's API", "/api/chat", {"model": "chimere-mini:latest", "messages": [{"role": "user", "content": "hi", "images": []}],
                                                 "options": {"num_ctx": 4096, "mirostat_tau": 5.0, "num_gpu": 99}, "stream": True, "keep_alive": "5m",
                                                 "format": None, "think": False, "truncate": True}),
    ("LibreChat", CHAT, {"model": "gpt-3.5-turbo", "user": "66f", "temperature": 1, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0,
                         "stream": True, "stop": ["", "||>"], "include_reasoning": True, "reasoning_effort": "", "max_tokens": None,
                         "messages": [{"role": "system", "content": ""}, {"role": "user", "name": "Ann", "content": "hi"}]}),
    ("LangChain", CHAT, {"model": "gpt-4o-mini", "n": 1, "stream": False, "temperature": 0.7, "max_completion_tokens": 4, "logprobs": False,
                         "messages": [{"content": "be brief", "role": "system"}, {"content": "hi", "role": "user", "name": None},
                                      {"content": None, "role": "assistant", "tool_calls": [CALL], "refusal": None},
                                      {"content": [{"type": "text", "text": "r"}], "role": "tool", "tool_call_id": "call_1"}],
                         "tools": [{**TOOL, "function": {**TOOL["function"], "strict": None}}], "tool_choice": "any", "parallel_tool_calls": False}),
    ("AI SDK", "/v1/responses", {
        "model": "gpt-5-mini", "input": [{"role": "developer", "content": "be brief"}, {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
                                         {"type": "function_call", "call_id": "call_1", "name": "read_file", "arguments": "{}", "id": "fc_1"},
                                         {"type": "function_call_output", "call_id": "call_1", "output": "r"}],
        "max_output_tokens": 4, "store": False, "include": ["reasoning.encrypted_content"], "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"verbosity": "low"}, "stream": True, "tool_choice": "auto",
        "tools": [{"type": "function", **{k: TOOL["function"][k] for k in ("name", "description", "parameters")}, "strict": False}]}),
]


class OtherClients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(CHIMERE, MODEL, "--alias", "acme/Mini-GGUF:Q4_0", "--max-tokens", 4)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.close() == 0, cls.server.log()

    def accepted(self, body, name=None):
        status, _, answer = self.server.call("POST", CHAT, {"max_tokens": 4, **body})
        self.assertEqual(status, 200, (name or body, answer))

    def test_fields_and_values(self):
        for row in FIELDS.replace("\n", "; ").split("; "):
            name, value = row.split(" ", 1)
            body = {"messages": [QUESTION], name: json.loads(value)}
            if name not in ("n_predict", "max_tokens"):
                body["max_tokens"] = 4
            status, headers, answer = self.server.call("POST", CHAT, body)
            self.assertEqual(status, 200, (row, answer))
            if name in ("timings_per_token", "provider", "verbosity"):
                self.assertIn(name, headers["X-Chimere-Warning"], row)

    def test_messages_that_come_back(self):
        for fields in SENT_BACK:
            self.accepted({"messages": [QUESTION, {"role": "assistant", "content": "b", **fields}, QUESTION]})
        for name, messages in CONVERSATIONS.items():
            self.accepted({"messages": messages}, name=name)

    def test_halves_of_characters(self):
        for text in (r"cut \ud83d", r"\ude00 cut"):
            body = '{"messages":[{"role":"user","content":"%s"}],"max_tokens":4}' % text
            self.assertEqual(self.server.call("POST", CHAT, body.encode())[0], 200, text)
        call = {**CALL, "function": {"name": "f", "arguments": r'{"a":"\ud83d"}'}}
        self.accepted({"messages": [QUESTION, {"role": "assistant", "content": None, "tool_calls": [call]},
                                    {"role": "tool", "tool_call_id": "call_1", "content": "x"}]})

    def test_names_of_the_model(self):
        for name in ("gpt-4o-mini", "default", "acme/Mini-GGUF:Q4_0", ""):
            status, headers, answer = self.server.call("POST", CHAT, {"model": name, "messages": [QUESTION], "max_tokens": 4})
            self.assertEqual((status, answer["model"]), (200, self.server.model), name)
            self.assertEqual("X-Chimere-Warning" in headers, name in ("gpt-4o-mini", "default"), name)
        self.assertEqual(self.server.get("/v1/models/acme%2FMini-GGUF%3AQ4_0")["id"], self.server.model)
        self.assertEqual(self.server.call("GET", "/v1/models/acme%2FOther")[0], 404)

    def test_paths(self):
        for path in (CHAT + "/", "//v1//chat/completions", "/chat/completions", "/v1/v1/chat/completions", CHAT + "?api-version=1"):
            self.assertEqual(self.server.post(path, {"messages": [QUESTION], "max_tokens": 4})["object"], "chat.completion", path)
        for path in ("/models", "/v1/models/", "/v1/api/tags", "/api/tags/"):
            self.assertEqual(self.server.call("GET", path)[0], 200, path)
        # What is not for clients has one name.
        for path in ("/v1/nothing", "/v1/metrics", "/requests", "//v1/requests"):
            self.assertEqual(self.server.call("GET", path)[0], 404, path)

    def test_bodies_of_clients(self):
        for name, path, body in CLIENTS:
            for limit in ("max_tokens", "max_completion_tokens"):
                if body.get(limit):
                    body = {**body, limit: 4}
            status, _, answer = self.server.call("POST", path, body)
            self.assertEqual(status, 200, (name, answer))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
