#!/usr/bin/env python3
"""Several models in one server: models_test.py CHIMERE WRITE_TINY_MODEL SWITCHES

Five models of different weights under a budget for two. Each model's answers are compared with those of a server that has
only this model, so that an answer of another model is noticed.
"""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

from server import Server, wait_for

CHIMERE, WRITE_TINY_MODEL, SWITCHES = sys.argv[1], sys.argv[2], int(sys.argv.pop())
del sys.argv[1:]
TEXT = "/v1/completions"
NAMES = ["alpha", "beta", "gamma", "delta", "epsilon"]
STATE_BYTES = 8 << 20
FLAGS = ["--threads", "2", "--prefix-states", "4", "--prefix-memory", "0", "--prefix-disk", "0"]
PROMPTS = ["The first", "of all the th", "a b c d e f", "x"]


def request(prompt, **more):
    return {"prompt": prompt, "temperature": 0, "max_tokens": 8, **more}


class Models(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)
        for i, name in enumerate(NAMES):
            subprocess.run([WRITE_TINY_MODEL, cls.path / f"{name}.gguf", "300", str(100 + i)], check=True)
        subprocess.run([WRITE_TINY_MODEL, cls.path / "vectors.gguf", "embedder"], check=True)
        cls.file_bytes = (cls.path / "alpha.gguf").stat().st_size
        cls.expected = {}
        for name in NAMES:
            server = Server(CHIMERE, cls.path / f"{name}.gguf", *FLAGS, state_memory=f"{STATE_BYTES}B")
            try:
                for prompt in PROMPTS:
                    cls.expected[name, prompt] = server.post(TEXT, request(prompt))["choices"][0]["text"]
            finally:
                server.close()
        for prompt in PROMPTS:
            assert len({cls.expected[name, prompt] for name in NAMES}) == len(NAMES), "models that answer alike"

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def write(self, models, **more):
        path = self.path / "models.json"
        other = self.path / "models.json.new"
        other.write_text(json.dumps({"models": models, **more}))
        other.replace(path)
        return path

    def rows(self, *names):
        return [{"name": name, "model": f"{name}.gguf", "aliases": [f"gpt-{name}"],
                 "settings": {"state-memory": f"{STATE_BYTES}B"}} for name in names]

    def serve(self, models, *flags, budget=2.5, **settings):
        path = self.write(models)
        server = Server(CHIMERE, "", *FLAGS, *flags, models_file=path,
                        models_memory=f"{int(budget * (self.file_bytes + STATE_BYTES))}B", **settings)
        self.addCleanup(server.close)
        return server

    def text(self, server, model, prompt=PROMPTS[0], **more):
        answer = server.post(TEXT, request(prompt, model=model, **more))
        return answer["model"], answer["choices"][0]["text"]

    def states(self, server):
        return {m["id"]: m["state"] for m in server.get("/v1/status")["models"]}

    def test_models_are_loaded_when_requests_name_them(self):
        server = self.serve(self.rows(*NAMES))
        self.assertEqual(server.announcement["models"], NAMES)
        listed = server.models()
        self.assertEqual([m["id"] for m in listed], NAMES)
        self.assertEqual({m["state"] for m in listed}, {"absent"})
        self.assertEqual(listed[1]["aliases"], ["gpt-beta"])
        self.assertEqual(server.call("GET", "/ready")[0], 200)
        self.assertEqual(server.call("GET", "/ready?model=beta")[0], 503)
        for asked in ("beta", "gpt-beta", "beta:latest"):
            self.assertEqual(self.text(server, asked), ("beta", self.expected["beta", PROMPTS[0]]))
        self.assertEqual(server.call("GET", "/ready?model=gpt%2dbeta")[2], {"status": "ready"})
        self.assertEqual(self.text(server, ""), ("alpha", self.expected["alpha", PROMPTS[0]]))  # the default
        # A response may arrive a moment before its request has left the model.
        wait_for(lambda: not any(m["requests"] for m in server.get("/v1/status")["models"]), "the end of all requests")
        self.text(server, "gamma")
        self.assertEqual([self.states(server)[n] for n in NAMES], ["ready", "absent", "ready", "absent", "absent"])
        self.assertEqual(server.get("/v1/models/gpt-gamma")["state"], "ready")
        self.assertEqual(server.metrics("beta")["chimere_model_evictions_total"], 1)
        self.assertGreater(server.metrics("gamma")["chimere_generation_tokens_total"], 0)
        for name in ("../alpha", "/etc/passwd", str(self.path / "alpha.gguf"), "alpha.gguf", "omega", "alpha/"):
            error = server.error(TEXT, request("x", model=name), 404)
            self.assertEqual((error["code"], error["param"]), ("model_not_found", "model"))
            self.assertNotIn(str(self.path), error["message"].replace(name, ""))
        self.assertEqual(server.call("GET", "/ready?model=omega")[0], 404)
        self.assertEqual(server.error(TEXT, b'{"model": "beta", ')["code"], "invalid_json")
        self.assertEqual(server.error(TEXT, request("x", model=3))["param"], "model")
        self.assertEqual(server.error("/v1/embeddings", {"input": "x", "model": "beta"})["code"], "model_does_not_embed")

    def test_kinds_settings_and_preload(self):
        rows = self.rows("alpha", "beta")
        rows[1].update(preload=True, settings={"max-tokens": 3, "ctx": 256, "state-memory": f"{STATE_BYTES}B"})
        server = self.serve([*rows, {"name": "vectors", "model": "vectors.gguf", "keep_alive": 0}], budget=100)
        self.assertEqual(self.states(server), {"alpha": "absent", "beta": "ready", "vectors": "absent"})
        self.assertEqual({m["id"]: m["kind"] for m in server.models()}, {"alpha": "text", "beta": "text", "vectors": "embedding"})
        self.assertEqual(server.post(TEXT, {"prompt": "x", "model": "beta", "temperature": 0})["usage"]["completion_tokens"], 3)
        self.assertEqual(server.get("/v1/models/beta")["context_length"], 256)
        self.assertEqual(len(server.post("/v1/embeddings", {"input": "x"})["data"]), 1)
        wait_for(lambda: self.states(server)["vectors"] == "absent", "the eviction of an unused model")
        self.assertEqual(server.error(TEXT, request("x", model="vectors"))["code"], "model_does_not_write")

    def test_the_file_is_read_again(self):
        server = self.serve(self.rows("alpha", "beta"), budget=10)
        self.text(server, "alpha")
        rows = self.rows("gamma", "alpha")
        self.write(rows)
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: [m["id"] for m in server.models()] == ["gamma", "alpha"], "a reload")
        self.assertEqual(self.states(server), {"gamma": "absent", "alpha": "ready"})
        self.assertEqual(server.error(TEXT, request("x", model="beta"), 404)["code"], "model_not_found")
        self.assertEqual(self.text(server, "gamma")[1], self.expected["gamma", PROMPTS[0]])
        # A changed model is replaced; requests that run get their answers.
        events = iter_stream(server, request("x", model="alpha", max_tokens=300, stream=True))
        first = next(events)
        rows[1]["model"] = "delta.gguf"
        self.write(rows)  # noticed without a signal
        wait_for(lambda: self.text(server, "alpha")[1] == self.expected["delta", PROMPTS[0]], "the other file")
        rest = [*events]
        self.assertEqual({e["id"] for e in [first, *rest]}, {first["id"]})
        self.assertIn(rest[-1]["choices"][0]["finish_reason"], ("stop", "length"))
        # A mistake changes nothing.
        self.write([{"name": "../x"}])
        wait_for(lambda: "models_not_reloaded" in server.log(), "a message")
        self.assertIn("models[0].name", server.log())
        self.assertEqual(self.text(server, "gamma")[1], self.expected["gamma", PROMPTS[0]])

    def test_a_model_that_cannot_be_loaded(self):
        damaged = self.path / "damaged.gguf"
        damaged.write_bytes((self.path / "alpha.gguf").read_bytes())
        server = self.serve([*self.rows("beta"), {"name": "damaged", "model": "damaged.gguf", "settings": {"ctx": 100000}}])
        error = server.error(TEXT, request("x", model="damaged"), 503)
        self.assertEqual(error["code"], "model_unavailable")
        self.assertNotIn(str(self.path), error["message"])
        damaged.write_bytes(b"no model")
        self.assertEqual(server.error(TEXT, request("x", model="damaged"), 503)["code"], "model_unavailable")
        self.assertEqual(self.text(server, "beta")[1], self.expected["beta", PROMPTS[0]])
        self.assertEqual(server.metrics("damaged")["chimere_model_load_failures_total"], 2)

    def test_a_folder(self):
        server = Server(CHIMERE, self.path / "alpha.gguf", *FLAGS, models=self.path, state_memory=f"{STATE_BYTES}B",
                        models_memory=f"{3 * (self.file_bytes + STATE_BYTES)}B")
        self.addCleanup(server.close)
        self.assertEqual(server.model, "alpha")
        self.assertEqual(self.states(server)["alpha"], "ready")
        self.assertEqual(self.text(server, "delta"), ("delta", self.expected["delta", PROMPTS[0]]))
        self.assertEqual(self.text(server, ""), ("alpha", self.expected["alpha", PROMPTS[0]]))
        # A new file is noticed without a signal, and a removed one is no model any more.
        late = self.path / "late.gguf"
        self.addCleanup(lambda: late.unlink(missing_ok=True))
        self.assertEqual(server.error(TEXT, request("x", model="late"), 404)["code"], "model_not_found")
        late.write_bytes((self.path / "delta.gguf").read_bytes())
        wait_for(lambda: "late" in self.states(server), "the new file")
        self.assertEqual(self.text(server, "late"), ("late", self.expected["delta", PROMPTS[0]]))
        late.unlink()
        wait_for(lambda: "late" not in self.states(server), "the file's removal")

    def test_mistakes_at_the_start(self):
        for models, message in (([{"name": "a b"}], "models[0].name"), (self.rows("omega"), "models[0].model")):
            path = self.write(models)
            done = subprocess.run([CHIMERE, "serve", "--port", "0", "--models-file", path], capture_output=True, text=True,
                                  env={"HOME": str(self.path)})
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(message, done.stderr)

    def test_random_switches_under_load(self):
        server = self.serve(self.rows(*NAMES), max_queue=1000)
        limit = server.get("/v1/status")["memory"]["models_limit"]
        resident = []  # kB, by the number of loads
        ended = threading.Event()
        problems = []

        def client(seed):
            draw = random.Random(seed)
            try:
                while not ended.is_set():
                    name, prompt = draw.choice(NAMES), draw.choice(PROMPTS)
                    body = request(prompt, model=draw.choice([name, f"gpt-{name}"]))
                    if draw.random() < 0.1:  # a client that leaves
                        raw = server.raw()
                        text = json.dumps({**body, "stream": True, "max_tokens": 50})
                        raw.sendall(f"POST {TEXT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
                        raw.close()
                        continue
                    if draw.random() < 0.5:
                        events = server.stream(TEXT, body)
                        models = {e["model"] for e in events}
                        text = "".join(e["choices"][0]["text"] for e in events)
                    else:
                        answer = server.post(TEXT, body)
                        models, text = {answer["model"]}, answer["choices"][0]["text"]
                    if (models, text) != ({name}, self.expected[name, prompt]):
                        problems.append((name, prompt, models, text))
            except Exception as e:  # noqa: BLE001: the test reports it
                problems.append(e)

        seed = int(os.environ.get("TEST_SEED", random.randrange(1 << 32)))
        print(f"TEST_SEED={seed}")
        threads = [threading.Thread(target=client, args=(seed + i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        largest = loads = 0
        while loads < SWITCHES and not problems:
            status = server.get("/v1/status")
            largest = max(largest, sum(m["bytes"] for m in status["models"]))
            loads = sum(m["loads"] for m in status["models"])
            for line in pathlib.Path(f"/proc/{server.process.pid}/status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    resident.append(int(line.split()[1]))
        ended.set()
        for thread in threads:
            thread.join()
        self.assertEqual(problems, [])
        self.assertLessEqual(largest, limit)
        # Models that are gone take no memory.
        early = max(resident[: 1 + len(resident) // 2])
        late = max(resident)
        self.assertLess(late, early + 65536, f"{early} kB, then {late} kB")
        server.wait_until_idle()
        requests = sum(v for k, v in server.metrics().items() if k.startswith('chimere_http_requests_total{route="/v1/completions"'))
        failed = {k: v for k, v in server.metrics().items() if "/v1/completions" in k and 'status="200"' not in k and 'status="499"' not in k}
        self.assertEqual(failed, {})
        print(f"{loads} loads, {requests:.0f} requests, at most {largest} of {limit} bytes, {early} to {late} kB resident")
        self.assertEqual(server.close(), 0)


def iter_stream(server, body):
    """The events of a stream, one at a time; "[DONE]" must be the last one."""
    connection = server.connect()
    connection.request("POST", TEXT, json.dumps(body))
    response = connection.getresponse()
    assert response.status == 200, response.read()
    while True:
        line = response.readline().decode().strip()
        if line == "data: [DONE]":
            connection.close()
            return
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


if __name__ == "__main__":
    unittest.main(verbosity=2)
