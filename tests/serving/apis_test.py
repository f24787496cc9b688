#!/usr/bin/env python3
"""What the APIs of `chimere serve` have beside the published clients' tests: continued messages, cache scopes, memories,
llama.cpp's routes, errors in each API's form, request ids, JSON logs and budgets of tokens.

  apis_test.py CHIMERE MODEL WRITE_TINY_MODEL [unittest arguments]
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from server import Server, environment, wait_for

CHIMERE, MODEL, WRITE_TINY_MODEL = sys.argv[1:4]
CHAT = "/v1/chat/completions"
QUESTION = [{"role": "user", "content": "What does the command ls do?"}]
GREEDY = {"messages": QUESTION, "temperature": 0, "max_tokens": 24, "reasoning_effort": "none"}
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def content(response):
    return response["choices"][0]["message"]["content"]


class Apis(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(CHIMERE, MODEL, "--log-format", "json", "--response-store", 1)

    @classmethod
    def tearDownClass(cls):
        code = cls.server.close()
        assert code == 0, (code, cls.server.log())

    def chat(self, **fields):
        return self.server.post(CHAT, {**GREEDY, **fields})

    def test_requests_and_keys_of_an_admin(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = folder.name + "/keys"
        add = lambda *args: json.loads(subprocess.run(
            [CHIMERE, "keys", "add", *args, "--keys", path, "--json"], capture_output=True, check=True,
            env=environment(folder.name)).stdout)["key"]
        bearer = lambda key: {"Authorization": "Bearer " + key}
        root, ann = bearer(add("root", "--scopes", "admin")), bearer(add("ann"))
        server = Server(CHIMERE, MODEL, "--keys", path)
        self.addCleanup(server.close)
        for method, route, body in (("GET", "/v1/requests", None), ("GET", "/v1/keys", None), ("POST", "/v1/keys", {"name": "eve"}),
                                    ("DELETE", "/v1/keys/root", None)):
            self.assertEqual(server.call(method, route, body, ann)[0], 403, route)
        # A request is listed while its stream is open, and not afterwards.
        connection = server.connect()
        connection.request("POST", CHAT, json.dumps({**GREEDY, "stream": True, "max_tokens": 4000, "ignore_eos": True}),
                           {**ann, "X-Request-Id": "long-one"})
        response = connection.getresponse()
        self.assertEqual(response.status, 200)
        response.readline()
        listed, = server.get("/v1/requests", **root)["data"]
        self.assertEqual((listed["id"], listed["key"], listed["route"]), ("long-one", "ann", CHAT))
        self.assertGreater(listed["seconds"], 0)
        self.assertGreater(listed["bytes"], 50)
        connection.close()
        wait_for(lambda: not server.get("/v1/requests", **root)["data"], "the end of the request")
        # A key that is made works at once; one that is deleted does not.
        made = server.post("/v1/keys", {"name": "bob", "scopes": ["inference"], "tokens_per_day": 1000}, 200, root)
        bob = bearer(made["key"])
        server.post(CHAT, {**GREEDY, "max_tokens": 1}, 200, bob)
        keys = {k["name"]: k for k in server.get("/v1/keys", **root)["data"]}
        self.assertEqual(sorted(keys), ["ann", "bob", "root"])
        self.assertEqual((keys["bob"]["scopes"], keys["bob"]["tokens_per_day"]), (["inference"], 1000))
        self.assertGreater(keys["bob"]["tokens_today"], 1)
        self.assertNotIn(made["key"], pathlib.Path(path).read_text())
        for body, code in (({"name": "bob"}, "invalid_value"), ({"name": "a b"}, "invalid_value"), ({}, "missing_field"),
                           ({"name": "eve", "scopes": ["nothing"]}, "invalid_value"), ({"name": "eve", "parallel": -1}, "invalid_value")):
            self.assertEqual(server.error("/v1/keys", body, 400, root)["code"], code, body)
        self.assertEqual(server.call("DELETE", "/v1/keys/bob", headers=root)[0], 200)
        self.assertEqual(server.error(CHAT, GREEDY, 401, bob)["code"], "invalid_api_key")
        self.assertEqual(server.call("DELETE", "/v1/keys/bob", headers=root)[0], 404)
        self.assertEqual(server.call("DELETE", "/v1/keys/root", headers=root)[0], 400)  # itself
        self.assertEqual(self.server.call("GET", "/v1/keys")[0], 404)  # a server without keys
        self.assertEqual(self.server.call("GET", "/v1/requests")[0], 200)

    def test_tokens_that_came_from_drafts_are_marked(self):
        # What the prompt has is looked up in it; the constraint makes the model say it.
        words = "ls lists files and cp copies files and mv moves files and rm removes files "
        server = Server(CHIMERE, MODEL, "--speculate", "ngram")
        self.addCleanup(server.close)
        answer = server.post(CHAT, {
            "messages": [{"role": "user", "content": words * 4}], "temperature": 0, "logprobs": True,
            "reasoning_effort": "none", "guided_regex": f"({words})" + "{3}"})
        self.assertEqual(content(answer), words * 3)
        marks = [t.get("from_draft", False) for t in answer["choices"][0]["logprobs"]["content"]]
        self.assertEqual(sum(marks), answer["usage"]["completion_tokens_details"]["accepted_prediction_tokens"])
        self.assertGreater(sum(marks), 0)
        self.assertFalse(marks[0])  # the first token comes from the prompt

    def test_a_drafter_is_shown(self):
        drafter = pathlib.Path(MODEL).with_name("chimere-mini-dflash.gguf")
        server = Server(CHIMERE, MODEL, backend="cpu", speculate="dflash", draft_model=drafter, log_format="json")
        self.addCleanup(server.close)
        props = server.get("/props")
        self.assertEqual(props["speculate"], "dflash")
        self.assertEqual(props["draft_model"], {"name": "chimere-mini-dflash", "bytes": drafter.stat().st_size,
                                                "block_size": 16, "backend": "cpu"})
        notice, = self.logged(server, "model_notice", "Draft")
        self.assertEqual(notice["model"], server.model)
        self.assertRegex(notice["what"], r"^Drafting with chimere-mini-dflash: \S+ MB, blocks of 16 tokens, on the CPU$")
        usage = server.post(CHAT, GREEDY)["usage"]["completion_tokens_details"]
        accepted = usage["accepted_prediction_tokens"]
        verified = accepted + usage["rejected_prediction_tokens"]
        self.assertGreater(verified, 0)
        wait_for(lambda: server.metrics().get('chimere_drafts_verified_total{source="dflash"}') == verified, "the count of drafts")
        self.assertEqual(server.metrics()['chimere_drafts_accepted_total{source="dflash"}'], accepted)
        self.assertEqual(server.metrics()["chimere_draft_memory_shortages_total"], 0)
        timings = server.post("/completion", {"prompt": "ls lists", "temperature": 0, "n_predict": 20})["timings"]
        self.assertGreater(timings["draft_n"], 0)
        self.assertLessEqual(timings["draft_n_accepted"], min(timings["draft_n"], 19))

    def logged(self, server, event, begin):
        """The events of this kind that say what begins with `begin`; every line of the log is one."""
        lines = [json.loads(line) for line in server.log().splitlines()]
        return [line for line in lines if line["event"] == event and line["what"].startswith(begin)]

    def test_what_loading_says_is_logged(self):
        drafter = pathlib.Path(MODEL).with_name("chimere-mini-dflash.gguf")
        other = pathlib.Path(self.server.folder.name) / "other.gguf"
        subprocess.run([WRITE_TINY_MODEL, other, "drafter", "9"], check=True)
        for model, used, event, says in (("", drafter, "model_notice", "Drafter chimere-mini-dflash: "),
                                         (MODEL, other, "model_warning", "The drafter is left out: ")):
            server = Server(CHIMERE, model, backend="cpu", draft_model=used, log_format="json")
            self.addCleanup(server.close)
            line, = self.logged(server, event, says)
            self.assertEqual(line["model"], server.model)
            shipped = self.logged(server, "model_notice", "Using the shipped model ")
            self.assertEqual(len(shipped), 0 if model else 1)

    def test_requests_without_memory_for_drafts_are_counted(self):
        drafter = pathlib.Path(MODEL).with_name("chimere-mini-dflash.gguf")
        # The drafter has an eighth of the limit, and keys and values of 1,200 tokens take more at once.
        server = Server(CHIMERE, MODEL, "--prefix-states", 0, backend="cpu", speculate="dflash", draft_model=drafter,
                        state_memory="5MiB", log_format="json")
        self.addCleanup(server.close)

        def ask(size):
            server.post("/v1/completions", {"prompt": [100 + i % 1000 for i in range(size)], "max_tokens": 24,
                                            "ignore_eos": True, "temperature": 0})

        def shortages():
            return server.metrics()["chimere_draft_memory_shortages_total"]

        ask(40)
        self.assertEqual((shortages(), self.logged(server, "model_warning", "")), (0, []))
        for count in (1, 2):
            ask(1200)
            wait_for(lambda: shortages() == count, "the count of requests")
            warning, = self.logged(server, "model_warning", "Some requests go without the drafter's drafts")
            self.assertIn("A larger --state-memory", warning["what"])

    def test_a_message_of_the_assistant_is_continued(self):
        whole = content(self.chat())
        half = whole[:len(whole) // 2]
        messages = [*QUESTION, {"role": "assistant", "content": half}]
        template = self.server.post("/apply-template", {"messages": messages})["prompt"]
        self.assertTrue(template.endswith(half), template)
        plain = self.server.post("/apply-template", {"messages": QUESTION, "reasoning_effort": "none"})["prompt"]
        self.assertEqual(template, plain + half)
        continued = self.server.post("/v1/completions", {"prompt": template, "temperature": 0, "max_tokens": 12})
        self.assertEqual(content(self.chat(messages=messages, max_tokens=12)), continued["choices"][0]["text"])
        thought = [*QUESTION, {"role": "assistant", "content": half, "reasoning_content": "Easy."}]
        text = self.server.post("/apply-template", {"messages": thought})["prompt"]
        self.assertIn("<think>\nEasy.\n</think>", text)
        for refused in ({"response_format": {"type": "json_object"}},):
            self.server.error(CHAT, {**GREEDY, "messages": messages, **refused})

    def test_fields_of_other_servers(self):
        plain = self.chat()
        self.assertEqual(content(self.chat(repetition_penalty=1, cache_prompt=False, think=False, reasoning_effort=None)),
                         content(plain))
        self.assertEqual(content(self.chat(repetition_penalty=1.3)), content(self.chat(repeat_penalty=1.3)))
        long = self.chat(min_tokens=60, max_tokens=60, temperature=1, seed=4)
        self.assertEqual(long["usage"]["completion_tokens"], 60)
        self.assertEqual(long["choices"][0]["finish_reason"], "length")
        self.server.error(CHAT, {**GREEDY, "min_tokens": 5, "response_format": {"type": "json_object"}})
        self.server.error(CHAT, {**GREEDY, "think": True, "thinking_budget": 5, "reasoning_effort": None})

    def test_scopes_of_the_prefix_cache(self):
        prompt = [{"role": "user", "content": "What does the command cat do? " * 40}]

        def cached(**scope):
            return self.chat(messages=prompt, max_tokens=2, **scope)["usage"]["prompt_tokens_details"]["cached_tokens"]

        self.assertEqual(cached(prompt_cache_key="a"), 0)
        self.assertGreater(cached(prompt_cache_key="a"), 0)
        self.assertEqual(cached(prompt_cache_key="b"), 0)
        self.assertEqual(cached(), 0)
        self.assertEqual(cached(user="c"), 0)
        self.assertGreater(cached(user="c"), 0)
        self.assertGreater(cached(prompt_cache_key="a", user="c"), 0)
        self.assertEqual(cached(prompt_cache_key="a", cache_prompt=False), 0)

    def test_requests_of_one_api_sent_to_another(self):
        bodies = {
            CHAT: GREEDY,
            "/v1/messages": {"messages": QUESTION, "max_tokens": 4, "system": "x", "stop_sequences": ["a"]},
            "/v1/responses": {"input": "x", "max_output_tokens": 4},
            "/api/generate": {"prompt": "x", "options": {"num_predict": 4}, "stream": False},
            "/infill": {"input_prefix": "a", "input_suffix": "b"},
        }
        for path in bodies:
            for other, body in bodies.items():
                if path == other or path == "/api/generate" or {path, other} == {"/v1/messages", CHAT}:
                    continue  # what they do not know is ignored
                status, headers, answer = self.server.call("POST", path, body)
                self.assertEqual(status, 400, (path, other))
                if path == "/v1/messages":
                    self.assertEqual((answer["type"], answer["error"]["type"]), ("error", "invalid_request_error"))
                    self.assertEqual(headers["request-id"], headers["X-Request-Id"])
                else:
                    self.assertEqual(answer["error"]["type"], "invalid_request_error", (path, other))
        for path, form in (("/v1/messages", dict), ("/api/chat", str), ("/v1/responses", dict)):
            for half in (b"{", b"", b'{"messages": [', b"[]", b'{"model": 1}'):
                status, _, answer = self.server.call("POST", path, half)
                self.assertIn(status, (400, 404), (path, half))
                self.assertIsInstance(answer["error"], form)
        self.assertEqual(self.server.call("DELETE", "/v1/messages")[1]["Allow"], "POST")

    def test_a_store_that_overflows(self):
        def create(**fields):
            return self.server.post("/v1/responses", {
                "input": "a", "metadata": {"note": "a" * 100_000}, "max_output_tokens": 2, **fields})

        first = create()
        self.assertEqual(self.server.get("/v1/responses/" + first["id"])["id"], first["id"])
        for _ in range(12):
            last = create()
        self.assertEqual(self.server.call("GET", "/v1/responses/" + first["id"])[0], 404)
        self.assertEqual(self.server.get("/v1/responses/" + last["id"])["output"], last["output"])
        error = self.server.error("/v1/responses", {"input": "b", "previous_response_id": first["id"]})
        self.assertEqual((error["code"], error["param"]), ("previous_response_not_found", "previous_response_id"))

    def test_routes_of_llama_cpp(self):
        props = self.server.get("/props")
        self.assertEqual(props["total_slots"], len(self.server.get("/slots")))
        self.assertGreater(props["default_generation_settings"]["n_ctx"], 0)
        self.assertIn("messages", props["chat_template"])
        self.assertEqual((props["speculate"], props["draft_model"]), ("auto", None))
        error = self.server.error("/infill", {"input_prefix": "def f(", "input_suffix": ")"})
        self.assertEqual(error["code"], "unsupported_value")

    def test_completions_of_llama_cpp(self):
        request = {"prompt": "ls lists", "temperature": 0, "n_predict": 6}
        status, headers, answer = self.server.call("POST", "/completion", {**request, "id_slot": 3, "n_probs": 2})
        self.assertEqual(status, 200, answer)
        self.assertIn("id_slot", headers["X-Chimere-Warning"])
        same = self.server.post("/v1/completions", {"prompt": "ls lists", "temperature": 0, "max_tokens": 6})
        self.assertEqual(answer["content"], same["choices"][0]["text"])
        self.assertEqual((answer["stop"], answer["stop_type"], answer["tokens_predicted"]), (True, "limit", 6))
        self.assertEqual(len(answer["completion_probabilities"]), 6)
        self.assertEqual(len(answer["completion_probabilities"][0]["top_logprobs"]), 2)
        timings = answer["timings"]
        self.assertEqual((timings["prompt_n"] + timings["cache_n"], timings["predicted_n"]),
                         (same["usage"]["prompt_tokens"], 6))
        self.assertGreater(timings["predicted_per_second"], 0)
        tokens = self.server.post("/tokenize", {"content": "ls lists", "add_special": False})["tokens"]
        ids = self.server.call("POST", "/completion", {**request, "prompt": tokens, "id_slot": -1, "cache_prompt": False})
        self.assertEqual((ids[2]["content"], ids[2]["timings"]["cache_n"]), (answer["content"], 0))
        self.assertNotIn("X-Chimere-Warning", ids[1])
        _, _, text = self.server.call("POST", "/completion", {**request, "stream": True})
        events = [json.loads(e.removeprefix("data: ")) for e in text.decode().split("\n\n") if e]
        self.assertEqual("".join(e["content"] for e in events), answer["content"])
        self.assertEqual([e["stop"] for e in events], [False] * (len(events) - 1) + [True])
        whole = self.server.post("/completion", {**request, "json_schema": {"enum": ["é"]}, "n_predict": 40})
        self.assertEqual((json.loads(whole["content"]), whole["stop_type"]), ("é", "eos"))
        for wrong in ({}, {"prompt": ""}, {"prompt": ["a", "b"]}, {"prompt": "a", "n_probs": 99}):
            self.assertEqual(self.server.error("/completion", wrong)["type"], "invalid_request_error", wrong)

    def test_infill(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "fim.gguf"
            subprocess.run([WRITE_TINY_MODEL, path, "fim"], check=True)
            server = Server(CHIMERE, path, backend="cpu")
            self.addCleanup(server.close)
            prefix, suffix = "def f(", "):\n  return x"
            request = {"input_prefix": prefix, "input_suffix": suffix, "temperature": 0, "n_predict": 8}
            filled = server.post("/infill", request)
            tokens = [server.post("/tokenize", {"content": t, "add_special": False})["tokens"] for t in (prefix, suffix)]
            prompt = [257, *tokens[0], 258, *tokens[1], 259]
            same = server.post("/v1/completions", {"prompt": prompt, "temperature": 0, "max_tokens": 8})
            self.assertEqual(filled["content"], same["choices"][0]["text"])
            self.assertEqual(same["usage"]["prompt_tokens"], len(prompt))
            # Names of these tokens in the client's text are text.
            named = server.post("/infill", {**request, "input_prefix": "<|fim_middle|>"})
            self.assertGreater(named["tokens_evaluated"], 3 + len(tokens[1]) + 1)

    def test_memories(self):
        text = "The zebra keeps its green umbrella behind the seventh lighthouse of Atlantis."
        path = "/v1/engram/notes"
        self.server.post(path, {"texts": [{"text": text, "score": 0.9}], "source": "handbook"})
        [entry] = self.server.get("/v1/engram")["data"]
        self.assertEqual((entry["name"], entry["sources"]), ("notes", ["handbook"]))
        self.assertEqual(self.server.get(path), entry)
        found = self.server.post(path + "/search", {"text": "I know: its green umbrella behind the wall."})
        self.assertTrue(any("umbrella behind the" in m["text"] for m in found["matches"]), found)
        self.assertEqual(self.server.post(path + "/search", {"text": "Nothing of it."})["matches"], [])
        first, *_ = self.server.post(path + "/predict", {"text": "The zebra keeps its green umbrella behind the seventh"})["predictions"]
        self.assertTrue(" lighthouse".startswith(first["text"]), first)
        self.assertGreater(first["probability"], 0.1)
        self.assertEqual(self.server.post(path + "/decay", {})["name"], "notes")
        self.assertEqual(self.server.call("DELETE", path)[0], 200)
        self.assertEqual(self.server.call("DELETE", path)[0], 404)
        self.assertEqual(self.server.get("/v1/engram")["data"], [])
        self.assertEqual(self.server.error("/v1/engram/notes/search", {"text": "a"}, 404)["code"], "engram_not_found")

    def test_request_ids_and_traces(self):
        headers = self.server.call("POST", CHAT, GREEDY, {"X-Request-Id": "my-id.1", "traceparent": TRACE, "tracestate": "a=1,b=2"})[1]
        self.assertEqual((headers["X-Request-Id"], headers["traceparent"], headers["tracestate"]), ("my-id.1", TRACE, "a=1,b=2"))
        lines = [json.loads(line) for line in self.server.log().splitlines()]
        [line] = [line for line in lines if line.get("request_id") == "my-id.1"]
        self.assertEqual((line["event"], line["status"], line["trace_id"]), ("request", 200, TRACE[3:35]))
        self.assertGreater(line["prompt_tokens"], 0)
        headers = self.server.call("POST", CHAT, GREEDY, {"X-Request-Id": "a b", "traceparent": "00-x", "tracestate": "a=1"})[1]
        self.assertRegex(headers["X-Request-Id"], "^req_[A-Za-z0-9]{24}$")
        self.assertEqual((headers["traceparent"], headers["tracestate"]), (None, None))
        self.assertRegex(self.server.call("GET", "/nothing")[1]["X-Request-Id"], "^req_")

    def test_readiness_of_a_model(self):
        self.assertEqual(self.server.get("/ready/" + self.server.model), {"status": "ready"})
        self.assertEqual(self.server.call("GET", "/ready/none")[0], 404)


# A generation that does not end by itself, in each API that streams.
ENDLESS = {
    CHAT: {**GREEDY, "max_tokens": 16000, "ignore_eos": True},
    "/v1/completions": {"prompt": "ls", "max_tokens": 16000, "ignore_eos": True},
    "/v1/responses": {"input": "ls", "max_output_tokens": 16000, "reasoning": {"effort": "none"}, "logit_bias": None},
    "/v1/messages": {"messages": QUESTION, "max_tokens": 16000},
    "/api/chat": {"messages": QUESTION, "think": False, "options": {"num_predict": 16000}},
    "/api/generate": {"prompt": "ls", "raw": True, "options": {"num_predict": 16000}},
    "/completion": {"prompt": "ls", "n_predict": 16000, "ignore_eos": True},
}
# What can end by itself repeats this text for longer than the test runs.
LONG = {"type": "string", "minLength": 6000, "maxLength": 6000}
FORMS = {"/v1/responses": {"text": {"format": {"type": "json_schema", "name": "n", "schema": LONG}}},
         "/v1/messages": {"output_config": {"format": {"type": "json_schema", "schema": LONG}}},
         "/api/chat": {"format": LONG}, "/api/generate": {"format": LONG}}


class HalfStreams(unittest.TestCase):
    """Streams that break: each ends in its API's own form, and costs no other client anything."""

    def test_bodies_that_break(self):
        server = Server(CHIMERE, MODEL)
        self.addCleanup(server.close)
        for path, keys in ((CHAT, ["message", "type", "param", "code"]), ("/v1/responses", ["message", "type", "param", "code"]),
                           ("/v1/messages", ["type", "message"]), ("/api/chat", None), ("/completion", ["message", "type", "param", "code"]),
                           ("/api/nothing", None), ("/v1/nothing", ["message", "type", "param", "code"])):
            raw = server.raw()
            raw.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {1 << 40}\r\n\r\n".encode())
            head, _, body = b"".join(iter(lambda: raw.recv(65536), b"")).partition(b"\r\n\r\n")
            raw.close()
            self.assertRegex(head, rb"^HTTP/1.1 4(13|04) ", path)
            self.assertRegex(head, rb"\r\nX-Request-Id: req_", path)
            error = json.loads(body)["error"]
            self.assertEqual([*error] if keys else type(error), keys or str, path)

    def open(self, server, path):
        connection = server.connect()
        body = {**ENDLESS[path], **FORMS.get(path, {}), "stream": True}
        connection.request("POST", path, json.dumps({k: v for k, v in body.items() if v is not None}))
        response = connection.getresponse()
        self.assertEqual(response.status, 200, (path, response.status))
        first = b"".join(response.readline() for _ in range(3))
        self.assertTrue(first, path)
        return connection, response

    def test_a_server_that_stops(self):
        server = Server(CHIMERE, MODEL, "--grace", 0)
        streams = {path: self.open(server, path) for path in ENDLESS}
        server.process.terminate()
        for path, (connection, response) in streams.items():
            lines = [line for line in response.read().decode().splitlines() if line not in ("", "data: [DONE]")]
            connection.close()
            last = json.loads(lines[-1].removeprefix("data: "))
            if path == "/v1/messages":
                self.assertEqual(lines[-2], "event: error")
                self.assertEqual((last["type"], last["error"]["type"]), ("error", "overloaded_error"))
            elif path == "/v1/responses":
                self.assertEqual((lines[-2], last["response"]["status"]), ("event: response.failed", "cancelled"))
                self.assertEqual(last["response"]["output"][0]["status"], "incomplete")
            elif path.startswith("/api/"):
                self.assertEqual([*last], ["error"], path)
                self.assertIsInstance(last["error"], str)
            else:
                self.assertEqual((last["error"]["code"], last["error"]["type"]), ("cancelled", "service_unavailable_error"), path)
        wait_for(lambda: server.process.poll() is not None, "the end of the server")  # a second signal would cut it short
        self.assertEqual(server.close(), 0)

    def test_clients_that_leave(self):
        server = Server(CHIMERE, MODEL)
        self.addCleanup(server.close)
        alone = server.post(CHAT, GREEDY)
        streams = [self.open(server, path) for path in ENDLESS]
        self.assertEqual(content(server.post(CHAT, {**GREEDY, "cache_prompt": False})), content(alone))
        for connection, response in streams:
            response.close()
            connection.close()
        server.wait_until_idle()
        self.assertEqual(content(server.post(CHAT, {**GREEDY, "cache_prompt": False})), content(alone))


class Keys(unittest.TestCase):
    def test_responses_of_another_key(self):
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/keys"
            ann, bob = ({"Authorization": "Bearer " + json.loads(subprocess.run(
                [CHIMERE, "keys", "add", name, "--keys", path, "--json"], capture_output=True, check=True,
                env=environment(folder)).stdout)["key"]} for name in ("ann", "bob"))
            server = Server(CHIMERE, MODEL, "--keys", path, "--response-store", 1)
            self.addCleanup(server.close)
            create = lambda auth, **fields: server.call("POST", "/v1/responses", {
                "input": "ls", "max_output_tokens": 2, **fields}, auth)[2]
            kept = create(ann)
            route = "/v1/responses/" + kept["id"]
            for method, suffix in (("GET", ""), ("GET", "/input_items"), ("DELETE", ""), ("POST", "/cancel")):
                status, _, answer = server.call(method, route + suffix, headers=bob)
                self.assertEqual((status, answer["error"]["code"]), (404, "response_not_found"), (method, suffix))
            answer = create(bob, previous_response_id=kept["id"])
            self.assertEqual(answer["error"]["code"], "previous_response_not_found")
            # A key that fills the store displaces its own responses.
            large = {"metadata": {"note": "a" * 100_000}}  # is part of the stored response
            first = create(bob, **large)
            for _ in range(14):
                create(bob, **large)
            self.assertEqual(server.call("GET", "/v1/responses/" + first["id"], headers=bob)[0], 404)
            self.assertEqual(server.call("GET", route, headers=ann)[2], kept)
            self.assertEqual(create(ann, previous_response_id=kept["id"])["status"], "incomplete")
            # A running response is cancelled by its own key only.
            connection = server.connect()
            connection.request("POST", "/v1/responses", json.dumps({
                **ENDLESS["/v1/responses"], **FORMS["/v1/responses"], "logit_bias": {}, "stream": True}), ann)
            response = connection.getresponse()
            running = json.loads([response.readline(), response.readline()][1].removeprefix(b"data: "))["response"]["id"]
            self.assertEqual(server.call("POST", f"/v1/responses/{running}/cancel", headers=bob)[0], 404)
            self.assertEqual(server.call("POST", f"/v1/responses/{running}/cancel", headers=ann)[2]["status"], "cancelled")
            self.assertIn(b"event: response.failed", response.read())
            connection.close()


class Budgets(unittest.TestCase):
    def test_tokens_a_day(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = pathlib.Path(folder) / "keys.json"
            key = json.loads(subprocess.run([CHIMERE, "keys", "add", "ann", "--keys", keys, "--tokens-per-day", "20", "--json"],
                                            env=environment(folder), capture_output=True, check=True).stdout)["key"]
            server = Server(CHIMERE, MODEL, keys=keys)
            try:
                auth = {"Authorization": "Bearer " + key}
                server.post(CHAT, {**GREEDY, "max_tokens": 30}, headers=auth)
                status, headers, answer = server.call("POST", CHAT, GREEDY, auth)
                self.assertEqual((status, answer["error"]["code"]), (429, "token_budget_exceeded"))
                self.assertLessEqual(int(headers["Retry-After"]), 86400)
                status, _, answer = server.call("POST", "/v1/messages", {"messages": QUESTION, "max_tokens": 4}, {"x-api-key": key})
                self.assertEqual((status, answer["error"]["type"]), (429, "rate_limit_error"))
            finally:
                server.close()

    def test_unknown_fields(self):
        body = {**GREEDY, "unheard_of": 1, "messages": [{**GREEDY["messages"][0], "colour": "red"}]}
        server = Server(CHIMERE, MODEL)
        try:
            _, headers, answer = server.call("POST", CHAT, body)
            self.assertIn("'messages[0].colour', 'unheard_of'", headers["X-Chimere-Warning"])
            self.assertEqual(answer["warnings"][0]["param"], "messages[0].colour")
        finally:
            server.close()
        self.assertIn("ignored=messages[0].colour,unheard_of", server.log())
        server = Server(CHIMERE, MODEL, "--strict-fields", "--strict-names")
        try:
            self.assertEqual(server.error(CHAT, body)["code"], "unknown_parameter")
            self.assertEqual(server.error(CHAT, {**GREEDY, "model": "gpt-4o"}, 404)["code"], "model_not_found")
            self.assertEqual(server.call("POST", CHAT, GREEDY)[0], 200)
        finally:
            server.close()


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
