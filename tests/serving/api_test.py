#!/usr/bin/env python3
"""The OpenAI API of `chimere serve`, with the shipped model.

  api_test.py CHIMERE MODEL WRITE_TINY_MODEL [unittest arguments]
"""
import base64
import gzip
import http.client
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import unittest
import warnings

from server import HANG, Server, environment, wait_for

CHIMERE, MODEL, WRITE_TINY_MODEL = sys.argv[1:4]
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
QUESTION = [{"role": "user", "content": "What does the command ls do?"}]
GREEDY = {"messages": QUESTION, "temperature": 0, "max_tokens": 24}


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def content(response, choice=0):
    return response["choices"][choice]["message"]["content"]


class Api(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(CHIMERE, MODEL, "--max-running", 8)

    @classmethod
    def tearDownClass(cls):
        code = cls.server.close()
        assert code == 0, (code, cls.server.log())

    def chat(self, **fields):
        return self.server.post(CHAT, {**GREEDY, **fields})

    def test_routes_without_a_model(self):
        self.assertEqual(self.server.get("/health"), {"status": "ok"})
        self.assertEqual(self.server.get("/ready"), {"status": "ready"})
        status, headers, page = self.server.call("GET", "/")
        self.assertEqual(status, 200)
        self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
        self.assertIn(b"studio/studio.js", page)
        status, headers, script = self.server.call("GET", "/studio/studio.js")
        self.assertEqual((status, headers["Content-Encoding"]), (200, "gzip"))
        self.assertIn(b"v1/chat/completions", gzip.decompress(script))
        status, again, body = self.server.call("GET", "/studio/studio.js", headers={"If-None-Match": headers["ETag"]})
        self.assertEqual((status, body, again["ETag"]), (304, b"", headers["ETag"]))
        self.assertEqual(self.server.call("GET", "/studio/../models")[0], 404)
        status, headers, icon = self.server.call("GET", "/favicon.ico")
        self.assertEqual((status, headers["Content-Type"]), (200, "image/svg+xml"))
        self.assertIn(b"<svg", gzip.decompress(icon))
        self.assertEqual(self.server.call("HEAD", "/health")[2], b"")
        self.assertEqual(self.server.call("GET", "/nothing")[0], 404)
        status, headers, _ = self.server.call("GET", CHAT)
        self.assertEqual((status, headers["Allow"]), (405, "POST"))
        self.assertEqual(self.server.get("/v1/status")["model"], self.server.model)

    def test_models(self):
        listed = self.server.models()
        self.assertEqual(self.server.get("/v1/models/")["data"], self.server.get("/v1/models")["data"])
        self.assertEqual([(m["id"], m["kind"]) for m in listed], [("chimere-mini", "text")])
        self.assertEqual(self.server.get("/v1/models/chimere-mini"), listed[0])
        for path in ("/v1/models/other", "/v1/models/../../etc/passwd"):
            self.assertEqual(self.server.call("GET", path)[2]["error"]["code"], "model_not_found")
        for name in ("gpt-9", MODEL, "../" + MODEL):  # the only model is meant
            self.assertEqual(self.chat(model=name)["model"], "chimere-mini")
        self.assertEqual(self.chat(model="chimere-mini")["model"], "chimere-mini")

    def test_equals_the_command_line(self):
        done = subprocess.run([CHIMERE, "run", "--json", "-m", MODEL, "-p", QUESTION[0]["content"], "--temp", "0",
                               "-n", "24"], capture_output=True, check=True, env=environment(self.server.folder.name))
        result = json.loads(done.stdout)
        response = self.chat()
        self.assertEqual(content(response), result["text"])
        self.assertEqual(response["usage"]["prompt_tokens"], result["prompt_tokens"])
        self.assertEqual(response["usage"]["completion_tokens"], result["tokens"])
        # The number of drafts depends on timing.
        self.assertIn(response["usage"]["completion_tokens_details"]["accepted_prediction_tokens"], range(result["tokens"]))
        self.assertIn("chimere-mini+numerics-", response["system_fingerprint"])

    def test_streams_equal_documents(self):
        sampled = {"messages": QUESTION, "temperature": 3, "top_k": 0, "top_p": 1, "seed": 7, "max_tokens": 24, "n": 2}
        whole = self.server.post(CHAT, sampled)
        events = self.server.stream(CHAT, {**sampled, "stream_options": {"include_usage": True}})
        self.assertEqual(events[0]["choices"][0]["delta"], {"role": "assistant", "content": ""})
        self.assertEqual(events[-1]["choices"], [])
        self.assertEqual(events[-1]["usage"]["completion_tokens"], whole["usage"]["completion_tokens"])
        self.assertTrue(all(e["usage"] is None for e in events[:-1]))
        texts, reasons = ["", ""], [None, None]
        for choice in (e["choices"][0] for e in events[:-1]):
            texts[choice["index"]] += choice["delta"].get("content", "")
            reasons[choice["index"]] = choice["finish_reason"] or reasons[choice["index"]]
        self.assertEqual(texts, [content(whole, 0), content(whole, 1)])
        self.assertEqual(reasons, [c["finish_reason"] for c in whole["choices"]])
        self.assertNotEqual(texts[0], texts[1])
        self.assertEqual(content(self.server.post(CHAT, sampled)), texts[0])
        self.assertNotEqual(content(self.server.post(CHAT, {**sampled, "seed": 8})), texts[0])

    def test_stop_is_held_back(self):
        words = content(self.chat()).split()
        stop = " ".join(words[3:5])
        for stops in (stop, ["nowhere", stop]):
            response = self.chat(stop=stops)
            self.assertEqual(response["choices"][0]["finish_reason"], "stop")
            self.assertNotIn(stop, content(response))
            self.assertTrue(content(self.chat()).startswith(content(response) + stop))
            events = self.server.stream(CHAT, {**GREEDY, "stop": stops})
            self.assertEqual("".join(e["choices"][0]["delta"].get("content", "") for e in events), content(response))

    def test_lengths(self):
        for field in ("max_tokens", "max_completion_tokens"):
            response = self.server.post(CHAT, {"messages": QUESTION, field: 3})
            self.assertEqual(response["usage"]["completion_tokens"], 3)
            self.assertEqual(response["choices"][0]["finish_reason"], "length")

    def test_a_limit_beyond_the_context(self):
        context = self.server.announcement["context"]
        size = self.server.post("/tokenize", {"messages": QUESTION})["count"]
        for limit in (context, 2**31 - 1):
            status, headers, response = self.server.call("POST", CHAT, {**GREEDY, "max_tokens": limit, "stop": " "})
            self.assertEqual(status, 200)
            warning, = response["warnings"]
            self.assertEqual(warning["param"], "max_tokens")
            self.assertIn(f"'max_tokens' is {limit}, but a prompt of {size} tokens leaves {context - size}", warning["message"])
            self.assertEqual(headers["X-Chimere-Warning"], warning["message"])
        status, headers, _ = self.server.call("POST", TEXT, {"prompt": "a b", "max_tokens": context, "stop": " ", "stream": True})
        self.assertIn("'max_tokens' is", headers["X-Chimere-Warning"])
        status, headers, response = self.server.call("POST", CHAT, {**GREEDY, "max_tokens": context - size, "stop": " "})
        self.assertEqual((response.get("warnings"), headers["X-Chimere-Warning"]), (None, None))

    def test_logprobs_equal_the_models(self):
        response = self.chat(logprobs=True, top_logprobs=4)
        tokens = response["choices"][0]["logprobs"]["content"]
        self.assertEqual(b"".join(bytes(t["bytes"]) for t in tokens).decode(), content(response))
        for token in tokens:
            self.assertEqual(len(token["top_logprobs"]), 4)
            self.assertEqual(token["top_logprobs"][0]["logprob"], token["logprob"])  # greedy
        ids = self.server.post("/tokenize", {"messages": QUESTION})["tokens"]
        done = subprocess.run([CHIMERE, "eval", "logits", "--json", "-m", MODEL, "--tokens", ",".join(map(str, ids)),
                               "--top", "4"], capture_output=True, check=True,
                              env=environment(self.server.folder.name))
        for mine, result in zip(tokens[0]["top_logprobs"], json.loads(done.stdout)["positions"][-1]["top"]):
            self.assertAlmostEqual(mine["logprob"], result["logprob"], delta=1e-3)
        # Not the probabilities after temperature and truncation.
        hot = self.chat(logprobs=True, top_logprobs=4, temperature=2, top_k=1)
        self.assertEqual(hot["choices"][0]["logprobs"]["content"], tokens)
        events = self.server.stream(CHAT, {**GREEDY, "logprobs": True, "top_logprobs": 4})
        streamed = [t for e in events for t in (e["choices"][0]["logprobs"] or {"content": []})["content"]]
        self.assertEqual(streamed, tokens)

    def test_logit_bias(self):
        first = self.chat(max_tokens=1, logprobs=True)
        text = content(first)
        banned = self.server.post("/tokenize", {"content": text})["tokens"][0]
        self.assertNotEqual(content(self.chat(max_tokens=1, logit_bias={str(banned): -100})), text)
        self.assertEqual(self.server.error(CHAT, {**GREEDY, "logit_bias": {"99999999": 1}})["param"], "logit_bias")

    def test_content_parts_and_roles(self):
        parts = [{"type": "text", "text": "What does the "}, {"type": "text", "text": "command ls do?"}]
        self.assertEqual(content(self.chat(messages=[{"role": "user", "content": parts}])), content(self.chat()))
        system = self.chat(messages=[{"role": "system", "content": "Be short."}, *QUESTION])
        developer = self.chat(messages=[{"role": "developer", "content": "Be short."}, *QUESTION])
        self.assertEqual(content(system), content(developer))
        for response in (system, developer):
            # Cached tokens and the number of drafts depend on timing.
            del response["usage"]["prompt_tokens_details"]
            del response["usage"]["completion_tokens_details"]["accepted_prediction_tokens"]
            del response["usage"]["completion_tokens_details"]["rejected_prediction_tokens"]
        self.assertEqual(system["usage"], developer["usage"])

    def test_control_tokens_in_messages_are_text(self):
        plain = self.server.post("/tokenize", {"messages": [{"role": "user", "content": "x"}]})
        sly = self.server.post("/tokenize", {"messages": [{"role": "user", "content": "x<|im_end|>"}]})
        end = self.server.post("/tokenize", {"content": "<|im_end|>"})["tokens"]
        self.assertEqual(len(end), 1)
        self.assertEqual(sly["tokens"].count(end[0]), plain["tokens"].count(end[0]))
        self.assertGreater(sly["count"], plain["count"] + 1)

    def test_completions(self):
        ids = self.server.post("/tokenize", {"content": "The ls command", "add_special": True})["tokens"]
        fields = {"temperature": 0, "max_tokens": 8}
        by_text = self.server.post(TEXT, {"prompt": "The ls command", **fields})
        by_ids = self.server.post(TEXT, {"prompt": ids, **fields})
        text = by_text["choices"][0]["text"]
        self.assertEqual(by_ids["choices"][0]["text"], text)
        both = self.server.post(TEXT, {"prompt": ["The ls command", "The cat command"], "echo": True, **fields})
        self.assertEqual([c["index"] for c in both["choices"]], [0, 1])
        self.assertEqual(both["choices"][0]["text"], "The ls command" + text)
        self.assertTrue(both["choices"][1]["text"].startswith("The cat command"))
        events = self.server.stream(TEXT, {"prompt": "The ls command", "echo": True, **fields})
        self.assertEqual("".join(e["choices"][0]["text"] for e in events), "The ls command" + text)
        logprobs = self.server.post(TEXT, {"prompt": ids, "logprobs": 2, **fields})["choices"][0]["logprobs"]
        self.assertEqual("".join(logprobs["tokens"]), text)
        self.assertEqual(logprobs["text_offset"][:2], [0, len(logprobs["tokens"][0])])
        self.assertTrue(all(len(t) == 2 for t in logprobs["top_logprobs"]))
        self.assertEqual(self.server.error(TEXT, {"prompt": [10**6]})["param"], "prompt")

    def test_thinking_budgets(self):
        close = self.server.post("/tokenize", {"content": "</think>", "add_special": False, "parse_special": True})["tokens"]
        self.assertEqual(len(close), 1)
        for budget in (0, 16, 48):
            for seed in range(4):  # of a model that never ends its reasoning by itself
                response = self.chat(thinking_budget=budget, max_tokens=budget + 80, temperature=1.5, top_k=0, top_p=1, seed=seed,
                                     logit_bias={str(close[0]): -100}, logprobs=True)
                tokens = [t["token"] for t in response["choices"][0]["logprobs"]["content"]]
                message = response["choices"][0]["message"]
                reasoning = response["usage"]["completion_tokens_details"]["reasoning_tokens"]
                self.assertEqual(tokens.count("</think>"), 1)
                self.assertEqual(tokens.index("</think>"), reasoning)
                self.assertLessEqual(reasoning, budget)
                self.assertTrue(message["content"].strip())
                self.assertNotIn("<think>", message["content"] + message.get("reasoning_content", ""))

    def test_tokens_round_trip(self):
        text = "grüße 😀 ls -l"
        result = self.server.post("/tokenize", {"content": text, "with_pieces": True})
        self.assertEqual(result["count"], len(result["pieces"]))
        self.assertEqual(self.server.post("/detokenize", {"tokens": result["tokens"]}), {"content": text})

    def test_refusals(self):
        cases = [
            (CHAT, {"messages": []}, "messages"), (CHAT, {**GREEDY, "tools": [{}]}, "tools[0].function"),
            (CHAT, {**GREEDY, "temperature": -1}, "temperature"), (CHAT, {**GREEDY, "n": 99}, "n"),
            (TEXT, {"prompt": "x", "suffix": "y"}, "suffix"),
            (CHAT, json.dumps(GREEDY)[:-1] + ', "temperature": 1}', "temperature"), (TEXT, {"prompt": ""}, "prompt"),
            ("/tokenize", {}, "content"), ("/detokenize", {"tokens": [-1]}, "tokens"),
        ]
        for path, body, param in cases:
            self.assertEqual(self.server.error(path, body)["param"], param, body)
        self.assertEqual(self.server.error("/v1/embeddings", {"input": "x"})["code"], "model_does_not_embed")

    def test_a_prompt_beyond_the_context(self):
        result = self.server.post("/tokenize", {"content": "x " * 40000})
        context = self.server.announcement["context"]
        self.assertGreater(result["count"], context)
        error = self.server.error(TEXT, {"prompt": "x " * 40000})
        self.assertEqual(error["code"], "context_length_exceeded")
        self.assertIn(f"maximum context length is {context} tokens, and the prompt has {result['count']};",
                      error["message"])

    def test_without_a_json_content_type(self):
        for kind in ("application/x-www-form-urlencoded", "text/plain", ""):
            response = self.server.post(CHAT, {**GREEDY, "max_tokens": 2}, headers={"Content-Type": kind})
            self.assertEqual(response["usage"]["completion_tokens"], 2)

    def test_one_connection_for_many_requests(self):
        connection = self.server.connect()
        for _ in range(3):
            connection.request("POST", CHAT, json.dumps({**GREEDY, "max_tokens": 2, "stream": True}))
            response = connection.getresponse()
            self.assertIn(b"[DONE]", response.read())
            used = connection.sock
            connection.request("GET", "/health")
            self.assertEqual(connection.getresponse().read(), b'{"status":"ok"}')
            self.assertIs(connection.sock, used)
        connection.close()

    def test_a_closed_connection_cancels(self):
        for stream in (True, False):
            raw = self.server.raw()
            body = json.dumps({"prompt": "The", "stream": stream, "n": 4, "max_tokens": 5000})
            raw.sendall(f"POST {TEXT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            # It runs, or has answered already.
            wait_for(lambda: self.server.get("/v1/status")["requests"]["running"] or select.select([raw], [], [], 0)[0],
                     "a request to run")
            raw.close()
            self.server.wait_until_idle()

    def test_other_sites(self):
        self.assertEqual(self.server.call("GET", "/v1/models", headers={"Host": "evil.example.org"})[0], 403)
        self.assertEqual(self.server.call("POST", CHAT, GREEDY, {"Origin": "https://evil.example.org"})[0], 403)
        own = f"http://127.0.0.1:{self.server.port}"
        self.assertEqual(self.server.call("GET", "/v1/models", headers={"Origin": own})[0], 200)

    def test_metrics(self):
        self.chat(max_tokens=2)
        values = self.server.metrics()
        self.assertGreater(values["chimere_generation_tokens_total"], 0)
        for name in ('http_requests_total{route="/v1/chat/completions",status="200"}', "model_ready",
                     'time_to_first_token_seconds_bucket{le="+Inf"}', 'tokens_total{kind="accepted_draft"}',
                     "requests_suspended", "requests_in_flight", "requests_accepted_total", "requests_finished_total",
                     "prefix_cache_warmup_tokens_total", "prefix_cache_warmups_waiting", "prefix_cache_device_states",
                     'prefix_cache_warmups_total{result="computed"}', 'prefix_cache_warmups_total{result="cached"}',
                     'prefix_cache_warmups_total{result="dropped"}', "prefix_cache_disk_files", "prefix_cache_dropped_total",
                     "prefix_cache_rejected_files_total", "prefix_cache_failed_writes_total",
                     'memory_bytes{kind="resident"}', 'memory_bytes{kind="resident_limit"}'):
            self.assertIn("chimere_" + name, values)

    def test_metrics_of_experts(self):
        server = Server(CHIMERE, MODEL, "--expert-top-p", "0.5")  # of two experts the first has a half
        self.addCleanup(server.close)
        server.call("POST", CHAT, {**GREEDY, "max_tokens": 3})

        def counted():
            return [server.metrics()[f"chimere_{name}_total"] for name in ("expert_rows", "experts_used")]

        # Rows are counted when the step has ended, after its token was sent.
        wait_for(lambda: counted()[0] > 0, "rows of experts")
        server.wait_until_idle()
        self.assertEqual(*counted())

    def test_the_log_has_no_prompts(self):
        self.chat(messages=[{"role": "user", "content": "a secret phrase"}], max_tokens=2)
        self.assertIn("event=request status=200 method=POST path=/v1/chat/completions", self.server.log())
        self.assertNotIn("secret phrase", self.server.log())


class Operations(unittest.TestCase):
    def serve(self, *flags, **settings):
        server = Server(CHIMERE, MODEL, *flags, "--max-running", 2, **settings)
        self.addCleanup(server.close)
        return server

    def keys(self, server_folder, *args):
        done = subprocess.run([CHIMERE, "keys", *args, "--keys", server_folder, "--json"], capture_output=True,
                              check=False, text=True, env=environment("/"))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout) if done.stdout else None

    def refuses_to_start(self, *flags, status=1):
        done = subprocess.run([CHIMERE, "serve", "-m", MODEL, *flags], capture_output=True, check=False, text=True,
                              env=environment("/"), timeout=HANG)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr.splitlines()[-1]

    def test_refuses_to_start(self):
        self.assertIn("chimere keys add", self.refuses_to_start("--host", "0.0.0.0"))
        self.assertIn("/nowhere", self.refuses_to_start("--keys", "/nowhere"))
        self.assertIn("'x' of --state-memory cannot be used", self.refuses_to_start("--state-memory", "x", status=2))
        self.assertNotIn("at most 0 tokens", self.refuses_to_start("--ctx", "64", "--state-memory", "1K"))
        self.assertIn("/no/such.engr", self.refuses_to_start("--engram", "/no/such.engr"))
        self.assertIn("--tls-certificate", self.refuses_to_start("--port", "0", "--tls-certificate", "/nowhere"))
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            complaint = self.refuses_to_start("--port", str(port))
        self.assertIn(f"Port {port} of 127.0.0.1 is in use", complaint)
        self.assertIn("--port", complaint)

    def test_keys(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = folder.name + "/keys"
        ann = self.keys(path, "add", "ann", "--parallel", "1")["key"]
        ops = self.keys(path, "add", "ops", "--scopes", "metrics")["key"]
        self.assertEqual([k["name"] for k in self.keys(path, "list")], ["ann", "ops"])
        server = self.serve("--keys", path)
        bearer = lambda key: {"Authorization": "Bearer " + key}
        self.assertEqual(server.call("GET", "/health")[0], 200)
        self.assertEqual(server.error(CHAT, GREEDY, 401)["code"], "missing_api_key")
        self.assertEqual(server.error(CHAT, GREEDY, 401, bearer(ann + "x"))["code"], "invalid_api_key")
        self.assertEqual(server.error(CHAT, GREEDY, 403, bearer(ops))["code"], "insufficient_scope")
        self.assertEqual(server.call("GET", "/metrics", headers=bearer(ops))[0], 200)
        server.post(CHAT, {**GREEDY, "max_tokens": 2}, headers=bearer(ann))
        self.assertIn(" key=ann ", server.log())
        # One request at a time: a second one while a stream runs.
        connection = server.connect()
        connection.request("POST", TEXT, json.dumps({"prompt": "The", "stream": True, "max_tokens": 4000, "n": 2}),
                           bearer(ann))
        self.assertEqual(connection.getresponse().status, 200)
        status, headers, body = server.call("POST", CHAT, GREEDY, bearer(ann))
        self.assertEqual((status, body["error"]["code"]), (429, "too_many_parallel_requests"))
        self.assertGreaterEqual(int(headers["Retry-After"]), 1)
        line, = [line for line in server.log().splitlines() if " status=429 " in line]
        self.assertIn(" key=ann code=too_many_parallel_requests ", line)
        connection.close()
        # The server reloads the file when it changes.
        self.keys(path, "rm", "ann")
        wait_for(lambda: server.call("POST", CHAT, {**GREEDY, "max_tokens": 1}, bearer(ann))[0] == 401,
                 "a removed key to be refused")

    def converse(self, server, returns_reasoning):
        """Three turns with idle time between; each finds everything before the newest message in the cache."""
        messages = [{"role": "system", "content": "You answer questions about commands."},
                    {"role": "user", "content": "What does the command ls do, and how does it sort what it lists? " * 4}]
        ended, computed, prompt_tokens = 0, 0, 0
        for turn in range(3):
            response = server.post(CHAT, {"messages": messages, "thinking_budget": 48, "max_tokens": 120, "temperature": 0})
            if turn > 0:
                # Everything before the newest message, above all the last answer, which no request has computed as
                # a prompt.
                tokens = server.post("/tokenize", {"messages": messages})["tokens"]
                message_start = tokens[0]
                starts = [i for i, token in enumerate(tokens) if token == message_start]
                newest = starts[-2]  # the last one begins the answer
                self.assertGreater(newest, prompt_tokens)
                self.assertGreaterEqual(response["usage"]["prompt_tokens_details"]["cached_tokens"], newest)
            prompt_tokens = response["usage"]["prompt_tokens"]
            ended = server.wait_for_warmups(ended)
            tokens = server.metrics()["chimere_prefix_cache_warmup_tokens_total"]
            self.assertGreater(tokens, computed)
            computed = tokens
            message = response["choices"][0]["message"]
            self.assertTrue(message["reasoning_content"])
            if not returns_reasoning:
                del message["reasoning_content"]  # as most clients do
            messages += [message, {"role": "user", "content": "And what does the command cat do?"}]
        return ended

    def test_the_next_turn_of_a_reasoning_conversation(self):
        for returns_reasoning in (False, True):
            # The shipped template writes earlier answers without their reasoning.
            self.assertEqual(self.converse(self.serve("--prefix-disk", 0), returns_reasoning), 3)

    def test_the_next_turn_where_the_template_keeps_reasoning(self):
        drops = (b"{%- if message.role == 'assistant' and not loop.last %}\n"
                 b"{%- set text = text.split('</think>')[-1].lstrip('\\n') %}\n{%- endif %}")
        keeps = (b"{%- set r = message.reasoning_content %}"
                 b"{%- if r %}{%- set text = '<think>\\n' + r + '\\n</think>\\n\\n' + text %}{%- endif %}")
        file = pathlib.Path(MODEL).read_bytes()
        self.assertEqual(file.count(drops), 1)
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "keeps.gguf"
            model.write_bytes(file.replace(drops, keeps + b"\n" * (len(drops) - len(keeps))))
            for returns_reasoning in (False, True):
                server = Server(CHIMERE, model, "--max-running", 2, "--prefix-disk", 0)
                self.addCleanup(server.close)
                self.assertEqual(self.converse(server, returns_reasoning), 6)  # with and without it, each turn

    def test_context_and_state_memory(self):
        server = self.serve("--prefix-disk", 0)
        result = server.announcement
        self.assertEqual((result["context"], result["trained_context"]), (16384, 16384))
        model, = server.models()
        self.assertEqual((model["max_model_len"], model["context_length"], model["trained_context_length"]), (16384,) * 3)
        self.assertEqual((model["max_state_bytes"], model["max_kv_tokens"]), (result["max_state_bytes"], result["max_kv_tokens"]))
        line, = [line for line in server.log().splitlines() if " event=memory " in line]
        self.assertIn(f" context=16384 trained_context=16384 max_state_bytes={result['max_state_bytes']} "
                      f"max_kv_tokens={result['max_kv_tokens']} max_states={result['max_states']} ", line)
        # Only address space is reserved: the empty state, which sequences begin with, is all that takes memory.
        self.assertEqual(server.metrics()['chimere_memory_bytes{kind="kv"}'], 0)
        self.assertLess(server.metrics()['chimere_memory_bytes{kind="resident"}'], 1 << 20)
        server.close()
        # A limit below the model's context: the context is what fits, and requests that need more wait,
        # make others wait, or evict states of the prefix cache.
        limit = 8 << 20
        small = self.serve("--prefix-disk", 0, "--state-memory", f"{limit}B")
        self.assertLess(small.announcement["context"], 16384)
        self.assertGreater(small.announcement["context"], 64)
        self.assertEqual(small.announcement["max_state_bytes"], limit)
        self.assertEqual(small.get("/v1/models")["data"][0]["max_model_len"], small.announcement["context"])
        size = small.announcement["context"] - 16
        for seed in range(3):
            response = small.post(TEXT, {"prompt": [100 + (seed * 7 + i) % 1000 for i in range(size)], "max_tokens": 16, "n": 2})
            self.assertEqual(response["usage"]["completion_tokens"], 32)
        values = small.metrics()
        self.assertLessEqual(values['chimere_memory_bytes{kind="resident"}'], limit)
        self.assertEqual(values['chimere_memory_bytes{kind="resident_limit"}'], limit)
        complaint = self.refuses_to_start("--port", "0", "--ctx", "16384", "--state-memory", f"{limit}B")
        self.assertIn("A context of 16384 tokens takes", complaint)
        self.assertIn(f"ask for at most {small.announcement['context']} tokens (--ctx)", complaint)
        self.assertIn("--state-memory", complaint)

    def test_memories(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = folder.name + "/keys"
        bearer = lambda *key: {"Authorization": "Bearer " + self.keys(path, "add", *key)["key"]}
        # A key's name is not a path.
        ann = bearer("..", "--scopes", "inference,engram")
        bob = bearer("bob", "--scopes", "inference,engram")
        eve = bearer("eve")
        server = self.serve("--keys", path)
        fact = "The zebra keeps its green umbrella behind the seventh lighthouse of Atlantis."
        texts = [{"text": fact, "score": 0.9} for _ in range(4)]
        write = lambda name, texts, who, expect=200: server.post("/v1/engram/" + name, {"texts": texts}, expect, who)
        self.assertEqual(write("notes", texts, eve, 403)["error"]["code"], "insufficient_scope")
        result = write("notes", texts + [{"text": fact, "score": 0.1}, {"text": "Too short.", "score": 1},
                                       {"text": "again and " * 50, "score": 1}], ann)
        self.assertEqual((result["table"], result["written"], len(result["refused"])), ("notes", 4, 3))
        self.assertGreater(result["ngrams"], 10)
        for name in ("", "..", "a/b", "a%2fb", "x" * 65, "%2e%2e"):
            self.assertIn(write(name, texts, ann, 400)["error"]["code"], ("invalid_value",), name)
        self.assertEqual(write("notes", [{"text": fact}], ann, 400)["error"]["param"], "texts[0].score")
        asked = {"prompt": "The zebra keeps its green umbrella behind the", "temperature": 0, "max_tokens": 8,
                 "logprobs": 0}
        first = lambda who, **more: server.post(TEXT, {**asked, **more}, headers=who)["choices"][0]
        plain, known = first(ann), first(ann, engram=["notes"])
        self.assertNotIn("lighthouse", plain["text"])
        self.assertIn("seventh lighthouse", known["text"])
        self.assertGreater(known["logprobs"]["token_logprobs"][0], -1)
        self.assertEqual(first(ann), plain)
        several = server.post(TEXT, {**asked, "engram": ["notes"], "n": 8}, headers=ann)["choices"]
        self.assertEqual([c["text"] for c in several], [known["text"]] * 8)
        # Another key's memory is not accessible.
        error = server.error(TEXT, {**asked, "engram": ["notes"]}, 404, bob)
        self.assertEqual((error["code"], error["param"]), ("engram_not_found", "engram"))
        write("notes", texts, bob)
        self.assertEqual(first(bob, engram=["notes"])["text"], known["text"])
        state = os.path.join(server.folder.name, ".local/state/chimere/engram")
        self.assertEqual(os.stat(state).st_mode & 0o777, 0o700)
        self.assertEqual(sorted(os.listdir(os.path.join(state, os.listdir(state)[0]))), ["key-..", "key-bob"])

    def test_tls(self):
        if shutil.which("openssl") is None:
            self.skipTest("there is no openssl to make a certificate")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        certificate, key = folder.name + "/cert.pem", folder.name + "/key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        server = self.serve("--tls-certificate", certificate, "--tls-key", key)
        self.assertTrue(server.announcement["url"].startswith("https://"))
        trusting = ssl.create_default_context(cafile=certificate)
        connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=HANG, context=trusting)
        for _ in range(2):
            connection.request("POST", CHAT, json.dumps({**GREEDY, "stream": True}))
            self.assertIn(b"[DONE]", connection.getresponse().read())
        self.assertEqual(connection.sock.version(), "TLSv1.3")
        connection.close()
        # Plain HTTP on that port fails.
        with socket.create_connection(("127.0.0.1", server.port), timeout=HANG) as plain:
            plain.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertNotIn(b"200", plain.recv(100))
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with self.assertRaises(OSError):
            with socket.create_connection(("127.0.0.1", server.port), timeout=HANG) as raw, old.wrap_socket(raw):
                pass

    def test_a_full_queue(self):
        server = self.serve("--max-queue", 0)
        connections = []
        for _ in range(2):
            connections.append(server.connect())
            connections[-1].request("POST", TEXT, json.dumps({"prompt": "The", "stream": True, "max_tokens": 4000}))
            self.assertEqual(connections[-1].getresponse().status, 200)
        status, headers, body = server.call("POST", CHAT, GREEDY)
        if status != 200:  # else one of the two had ended
            self.assertEqual((status, body["error"]["code"]), (429, "queue_full"))
            self.assertGreaterEqual(int(headers["Retry-After"]), 1)
        for connection in connections:
            connection.close()

    def test_draining(self):
        server = self.serve("--grace", 10 * HANG)
        connection = server.connect()
        connection.request("POST", TEXT, json.dumps({"prompt": "The", "stream": True, "max_tokens": 600, "n": 8, "temperature": 2}))
        response = connection.getresponse()
        response.read(10)
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: server.call("GET", "/ready")[0] != 200, "the first signal to be noticed")
        status, _, body = server.call("GET", "/ready")
        self.assertEqual((status, body["error"]["code"]), (503, "stopping"))
        self.assertEqual(server.call("POST", CHAT, GREEDY)[0], 503)
        self.assertTrue(response.read().endswith(b"data: [DONE]\n\n"))
        self.assertEqual(server.process.wait(HANG), 0)
        self.assertIn("event=stopped", server.log())

    def test_a_second_signal_ends_at_once(self):
        server = self.serve("--grace", 10 * HANG)
        connection = server.connect()
        connection.request("POST", TEXT, json.dumps({"prompt": "The", "stream": True, "max_tokens": 8000, "n": 16,
                                                     "temperature": 2}))
        connection.getresponse().read(10)
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: server.call("GET", "/ready")[0] != 200, "the first signal to be noticed")
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(HANG), 130)

    def test_embeddings(self):
        with tempfile.TemporaryDirectory() as folder:
            embedder = folder + "/tiny.gguf"
            subprocess.run([WRITE_TINY_MODEL, embedder, "embedder"], check=True)
            server = self.serve("--embedding-model", embedder)
            self.assertEqual([m["id"] for m in server.models()], [server.model, "tiny"])
            self.assertEqual(server.get("/v1/models/tiny")["max_model_len"], 4096)
            texts = ["a list", "of texts", "<|im_end|>", "z" * 700]
            result = server.post("/v1/embeddings", {"model": "tiny", "input": texts})
            self.assertEqual([d["index"] for d in result["data"]], [0, 1, 2, 3])
            self.assertEqual(result["usage"]["prompt_tokens"], result["usage"]["total_tokens"])
            self.assertIn(f'chimere_tokens_total{{kind="embedding"}} {result["usage"]["total_tokens"]}', server.get("/metrics").decode())
            vectors = [d["embedding"] for d in result["data"]]
            for text, vector in zip(texts, vectors):
                self.assertAlmostEqual(sum(x * x for x in vector), 1, delta=1e-4)
                alone = server.post("/v1/embeddings", {"input": text})["data"][0]["embedding"]
                self.assertEqual(alone, vector)
            packed = server.post("/v1/embeddings", {"input": texts, "encoding_format": "base64", "user": "x"})
            for entry, vector in zip(packed["data"], vectors):
                bits = base64.b64decode(entry["embedding"], validate=True)
                self.assertEqual(struct.unpack(f"<{len(vector)}f", bits), tuple(map(f32, vector)))
            short = server.post("/v1/embeddings", {"input": "a list", "dimensions": 5})["data"][0]["embedding"]
            self.assertAlmostEqual(sum(x * x for x in short), 1, delta=1e-4)
            self.assertAlmostEqual(short[0] / short[1], vectors[0][0] / vectors[0][1], delta=1e-3)
            for body, param in [({"input": []}, "input"), ({}, "input"), ({"input": "x", "dimensions": 33}, "dimensions"),
                                ({"input": "x", "encoding_format": "hex"}, "encoding_format"), ({"input": [[10**6]]}, "input"),
                                ({"input": "x", "model": server.model}, "model"), ({"input": "x " * 4097}, "input")]:
                self.assertEqual(server.error("/v1/embeddings", body)["param"], param, body)
            self.assertEqual(server.post("/v1/embeddings", {"input": "x", "model": "else", "nonsense": 1})["model"], "tiny")
            self.assertEqual(server.error(CHAT, {**GREEDY, "model": "tiny"})["code"], "model_does_not_write")
            result = subprocess.run([CHIMERE, "embed", "--json", "-m", embedder, *texts], capture_output=True, check=True)
            for mine, vector in zip(json.loads(result.stdout)["embeddings"], vectors):
                self.assertEqual(list(map(f32, mine)), list(map(f32, vector)))
            refused = subprocess.run([CHIMERE, "run", "-m", embedder, "-p", "x"], capture_output=True, check=False)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn(b"--embedding-model", refused.stderr)

    def test_shipped_embedder(self):
        server = self.serve("--embedding-model", str(pathlib.Path(MODEL).parent / "chimere-embed.gguf"))
        texts = ["What does fsck do?", "fsck(8): Checks a file system for errors and repairs them.",
                 "ls(1): Lists the files of a folder, with their sizes and dates."]
        result = server.post("/v1/embeddings", {"model": "chimere-embed", "input": texts})
        question, right, wrong = (entry["embedding"] for entry in result["data"])
        nearness = [sum(x * y for x, y in zip(question, passage)) for passage in (right, wrong)]
        self.assertGreater(nearness[0], nearness[1] + 0.1)

    def test_allowed_sites(self):
        server = self.serve("--cors-origins", "https://chat.example.org", "--allowed-hosts", "box.example.org")
        origin = {"Origin": "https://chat.example.org"}
        status, headers, _ = server.call("OPTIONS", CHAT, headers={
            **origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"})
        self.assertEqual(status, 204)
        self.assertEqual(headers["Access-Control-Allow-Origin"], "https://chat.example.org")
        self.assertEqual(headers["Access-Control-Allow-Headers"], "authorization")
        self.assertEqual(server.call("GET", "/v1/models", headers=origin)[1]["Access-Control-Allow-Origin"],
                         "https://chat.example.org")
        self.assertEqual(server.call("GET", "/v1/models", headers={"Host": "box.example.org"})[0], 200)

    def test_systemd_is_told(self):
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(folder + "/notify")
            notify.settimeout(HANG)
            os.environ["NOTIFY_SOCKET"] = folder + "/notify"
            try:
                server = self.serve()
            finally:
                del os.environ["NOTIFY_SOCKET"]
            self.assertEqual(notify.recv(100), b"READY=1")
            self.assertEqual(server.close(), 0)
            self.assertEqual(notify.recv(100), b"STOPPING=1")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
