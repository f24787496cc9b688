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
ID = "acme/Tiny-GGUF/Tiny-Q8_0"
GENERATE = {"prompt": "The first", "raw": True, "stream": False, "options": {"num_predict": 2, "temperature": 0}}


class ModelFiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        path = pathlib.Path(cls.folder.name) / FILE
        subprocess.run([WRITE_TINY_MODEL, path, "300"], check=True)
        cls.hub = Hub()
        cls.hub.files["acme/Tiny-GGUF", FILE] = path.read_bytes()
        cls.base = path

    def start(self, *flags, model=None):
        several = {} if "--models-file" in flags else {"models_memory": "64MiB"}
        server = Server(CHIMERE, self.base if model is None else model, "--strict-names", *flags, **several, state_memory="8MiB",
                        prefix_memory=0, prefix_disk=0, variables={"HF_ENDPOINT": self.hub.endpoint})
        self.addCleanup(server.close)
        return server

    def models(self, *names):
        """A model folder with a copy of the model for each name."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name in names:
            path = pathlib.Path(folder.name) / (name + ".gguf")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.base.read_bytes())
        return pathlib.Path(folder.name)

    def names(self, models):
        return sorted(str(p.relative_to(models)).removesuffix(".gguf") for p in models.rglob("*.gguf"))

    def refuses(self, server, method, path, body, expect):
        """The message, which names no file of the server's."""
        status, _, answer = server.call(method, path, body)
        self.assertEqual((status, [*answer]), (expect, ["error"]), (path, body, answer))
        self.assertNotIn(tempfile.gettempdir(), answer["error"])
        return answer["error"]

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
        # Every route knows the name with the hub's host.
        long = "hf.co/" + NAME
        self.assertEqual(server.post("/api/generate", {**GENERATE, "model": long})["response"], pulled)
        self.assertEqual(server.post("/api/show", {"model": long})["details"], server.post("/api/show", {"model": NAME})["details"])
        server.post("/api/copy", {"source": long, "destination": "mine/copy:latest"})
        self.assertEqual(server.post("/api/generate", {**GENERATE, "model": "mine/copy"})["response"], pulled)
        self.assertEqual(server.call("DELETE", "/api/delete", {"model": long})[0], 200)
        self.assertEqual(server.call("POST", "/api/generate", {**GENERATE, "model": NAME})[0], 404)
        self.assertEqual(server.post("/api/generate", {**GENERATE, "model": "mine/copy"})["response"], pulled)
        self.assertEqual(self.names(models), ["mine/copy"])
        self.assertEqual(server.call("DELETE", "/api/delete", {"name": "mine/copy"})[0], 200)
        self.assertEqual(self.names(models), [])

    def test_names_that_only_the_hub_knows(self):
        for quant in ("Q4_K_M", "Q8_0"):
            self.hub.files["acme/Two-GGUF", f"Two-{quant}.gguf"] = self.base.read_bytes()
        models = self.models()
        server = self.start("--models", models)
        for name in ("acme/Tiny-GGUF:q8_0", "acme/Tiny-GGUF:Tiny-Q8_0.gguf", "acme/Two-GGUF", "acme/Two-GGUF:q8_0", "acme/Two-GGUF"):
            self.assertEqual(self.lines(server, {"model": name})[-1], {"status": "success"}, name)
        both = ["acme/Two-GGUF/Two-Q4_K_M", "acme/Two-GGUF/Two-Q8_0"]
        self.assertEqual(self.names(models), [ID, *both])
        # With two quantisations the repository names neither.
        self.refuses(server, "DELETE", "/api/delete", {"model": "acme/Two-GGUF"}, 404)
        self.refuses(server, "POST", "/api/copy", {"source": "acme/Two-GGUF", "destination": "two"}, 404)
        self.assertEqual(self.names(models), [ID, *both])
        self.assertEqual(server.call("DELETE", "/api/delete", {"model": "acme/Two-GGUF:Q4_K_M"})[0], 200)
        self.assertEqual(self.names(models), [ID, both[1]])
        self.assertEqual(server.call("DELETE", "/api/delete", {"model": "acme/Two-GGUF"})[0], 200)
        self.assertEqual(self.names(models), [ID])

    def test_models_that_the_server_was_started_with(self):
        models = self.models("acme/Tiny-GGUF/Tiny-Q8_0")
        for name, arguments in (("embed", ["embedder"]), ("rank", ["bert-rank", "3"])):
            subprocess.run([WRITE_TINY_MODEL, models / (name + ".gguf"), *arguments], check=True)
        before = self.names(models)
        server = self.start("--models", models, "--embedding-model", "embed", "--rerank-model", "rank", model=NAME)
        for name in (NAME, "hf.co/" + NAME, ID, "embed", "rank"):
            self.assertIn("flags", self.refuses(server, "DELETE", "/api/delete", {"model": name}, 409))
        self.assertEqual(self.names(models), before)
        # The server still reads the folder, and a further name of the model is not the model of the flag.
        server.post("/api/copy", {"source": NAME, "destination": "a"})
        self.assertEqual(server.post("/api/generate", {**GENERATE, "model": "a"})["model"], "a")
        self.refuses(server, "DELETE", "/api/delete", {"model": NAME}, 409)
        self.assertEqual(server.call("DELETE", "/api/delete", {"model": "a"})[0], 200)
        self.assertEqual(self.names(models), before)
        self.assertNotIn("models_not_reloaded", server.log())

    def test_models_file(self):
        models = self.models("acme/Tiny-GGUF/Tiny-Q8_0", "other")
        path = models / "models.json"
        listed = [{"name": "small", "model": NAME}]
        path.write_text(json.dumps({"models": listed, "folder": True}))
        server = self.start("--models", models, "--models-file", path, model="")
        for name in ("small", NAME, ID):
            self.assertIn("models file", self.refuses(server, "DELETE", "/api/delete", {"model": name}, 409))
        self.assertEqual(server.call("DELETE", "/api/delete", {"model": "other"})[0], 200)
        self.assertEqual(self.names(models), [ID])
        # Without the folder nothing changes it.
        path.write_text(json.dumps({"models": listed}))
        server = self.start("--models", models, "--models-file", path, model="")
        for method, route, body in (("POST", "/api/pull", {"model": "acme/None-GGUF"}), ("DELETE", "/api/delete", {"model": "small"}),
                                    ("POST", "/api/copy", {"source": "small", "destination": "b"})):
            self.assertIn("folder", self.refuses(server, method, route, body, 400))

    def test_destinations(self):
        models = self.models("m")
        server = self.start("--models", models)
        for name in ("../b", "mine/mmproj-x", "mine/x.imatrix", "x-00001-of-00002", "x-00001-of-00001", "1/2/3/4/5/6/7/x", "m",
                     server.model):
            self.refuses(server, "POST", "/api/copy", {"source": "m", "destination": name}, 400)
        self.assertEqual([p.name for p in models.iterdir()], ["m.gguf"])
        # The model of -m is elsewhere.
        self.refuses(server, "POST", "/api/copy", {"source": server.model, "destination": "b"}, 404)
        server.post("/api/copy", {"source": "m", "destination": "1/2/3/4/5/6/x"})
        self.assertEqual(self.names(models), ["1/2/3/4/5/6/x", "m"])

    def test_what_is_refused(self):
        server = self.start()
        for method, path, body, status in (
                ("POST", "/api/pull", {"model": "acme/None-GGUF", "stream": False}, 404),
                ("POST", "/api/pull", {"model": "../x", "stream": False}, 400),
                ("POST", "/api/pull", {}, 400),
                ("DELETE", "/api/delete", {"model": "acme/None-GGUF"}, 404),
                ("DELETE", "/api/delete", {"model": "../x"}, 404),
                ("DELETE", "/api/delete", {"model": ""}, 400),
                ("DELETE", "/api/delete", {}, 400),
                ("DELETE", "/api/delete", None, 400),
                ("POST", "/api/copy", {"source": "none", "destination": "b"}, 404),
                ("POST", "/api/copy", {"source": "none"}, 400)):
            self.refuses(server, method, path, body, status)
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
