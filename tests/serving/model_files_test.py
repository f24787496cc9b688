#!/usr/bin/env python3
"""Ollama's routes that change the model folder, with a hub of the test's own.

  model_files_test.py CHIMERE WRITE_TINY_MODEL [unittest arguments]
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from server import Server, environment

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from hub_server import Hub  # noqa: E402

CHIMERE, WRITE_TINY_MODEL = sys.argv[1:3]
FILE = "Tiny-Q8_0.gguf"
NAME = "acme/Tiny-GGUF:Q8_0"
GENERATE = {"prompt": "a", "raw": True, "stream": False, "options": {"num_predict": 2}}


class ModelFiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        path = pathlib.Path(cls.folder.name) / FILE
        subprocess.run([WRITE_TINY_MODEL, path], check=True)
        cls.hub = Hub()
        cls.hub.files["acme/Tiny-GGUF", FILE] = path.read_bytes()
        cls.base = path

    def start(self, *flags):
        server = Server(CHIMERE, self.base, "--strict-names", *flags, models_memory="64MiB", state_memory="8MiB", prefix_memory=0,
                        prefix_disk=0, variables={"HF_ENDPOINT": self.hub.endpoint})
        self.addCleanup(server.close)
        return server

    def lines(self, server, body):
        status, headers, text = server.call("POST", "/api/pull", body)
        self.assertEqual((status, headers["Content-Type"]), (200, "application/x-ndjson"))
        return [json.loads(line) for line in text.splitlines()]

    def test_a_model_is_pulled_copied_and_deleted(self):
        server = self.start()
        models = pathlib.Path(server.folder.name) / ".local/share/chimere/models"
        self.assertEqual(server.call("POST", "/api/generate", {**GENERATE, "model": NAME})[0], 404)
        lines = self.lines(server, {"model": "hf.co/" + NAME})
        self.assertEqual([lines[0], lines[-1]], [{"status": "pulling manifest"}, {"status": "success"}])
        size = len(self.hub.files["acme/Tiny-GGUF", FILE])
        self.assertEqual((lines[-2]["completed"], lines[-2]["total"]), (size, size))
        self.assertTrue((models / "acme/Tiny-GGUF" / FILE).exists())
        # What follows uses the model at once.
        pulled = server.post("/api/generate", {**GENERATE, "model": NAME})["response"]
        self.assertEqual(self.lines(server, {"model": NAME}), [{"status": "success"}])
        server.post("/api/copy", {"source": NAME, "destination": "mine/copy:latest"})
        self.assertEqual(server.post("/api/generate", {**GENERATE, "model": "mine/copy"})["response"], pulled)
        self.assertEqual(server.call("DELETE", "/api/delete", {"model": NAME})[0], 200)
        self.assertEqual(server.call("POST", "/api/generate", {**GENERATE, "model": NAME})[0], 404)
        self.assertEqual(server.post("/api/generate", {**GENERATE, "model": "mine/copy"})["response"], pulled)
        self.assertEqual(sorted(p.name for p in models.rglob("*.gguf")), ["copy.gguf"])

    def test_what_is_refused(self):
        server = self.start()
        for method, path, body, status in (
                ("POST", "/api/pull", {"model": "acme/None-GGUF", "stream": False}, 404),
                ("POST", "/api/pull", {"model": "../x", "stream": False}, 400),
                ("POST", "/api/pull", {}, 400),
                ("DELETE", "/api/delete", {"model": "acme/None-GGUF"}, 404),
                ("POST", "/api/copy", {"source": "none", "destination": "b"}, 404),
                ("POST", "/api/copy", {"source": "none", "destination": "../b"}, 400)):
            got, _, answer = server.call(method, path, body)
            self.assertEqual((got, [*answer]), (status, ["error"]), (path, body, answer))
        self.assertEqual([*self.lines(server, {"model": "acme/None-GGUF"})[-1]], ["error"])
        # A server of one model has no folder.
        alone = Server(CHIMERE, self.base)
        self.addCleanup(alone.close)
        self.assertIn("--models-memory", alone.call("POST", "/api/pull", {"model": NAME})[2]["error"])

    def test_keys(self):
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/keys"
            key = json.loads(subprocess.run([CHIMERE, "keys", "add", "ann", "--keys", path, "--json"], capture_output=True,
                                            check=True, env=environment(folder)).stdout)["key"]
            server = self.start("--keys", path)
            auth = {"Authorization": "Bearer " + key}
            for method, route in (("POST", "/api/pull"), ("POST", "/api/copy"), ("DELETE", "/api/delete")):
                self.assertEqual(server.call(method, route, {"model": NAME}, auth)[0], 403, route)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
