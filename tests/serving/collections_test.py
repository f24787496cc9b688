#!/usr/bin/env python3
"""Collections over HTTP: made, filled, searched, cited in a chat, deleted; keys see their own alone.

  collections_test.py CHIMERE MODEL
"""
import base64
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

from server import Server, environment

CHIMERE, MODEL = sys.argv[1:3]
ZORB = ("# zorb\n\nThe command zorb counts the moons of a planet.\n\n"
        "## Options\n\nThe option --rings counts the rings, too.\n")
PATH = "/v1/collections"


def documents(*rows):
    return {"documents": [dict(zip(("name", "text"), row)) for row in rows]}


class Collections(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.TemporaryDirectory()
        self.addCleanup(self.home.cleanup)
        self.folder = self.home.name + "/collections"
        self.flags = ["--collections", self.folder, "--state-folder", self.home.name + "/state"]

    def serve(self, *flags):
        server = Server(CHIMERE, MODEL, *self.flags, *flags)
        self.addCleanup(server.close)
        return server

    def run_chimere(self, *words):
        done = subprocess.run([CHIMERE, *words], capture_output=True, text=True, env=environment(self.home.name))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_documents_come_and_go(self):
        server = self.serve()
        self.assertEqual(server.get(PATH), {"object": "list", "data": []})
        made = server.post(PATH, {"name": "notes"})
        self.assertEqual((made["object"], made["name"], made["documents"]), ("collection", "notes", 0))
        page = base64.b64encode(b"<html><title>Quux</title><body><main><p>The quux sings at dawn.</p></main></body></html>")
        added = server.post(PATH + "/notes/documents", {"documents": [
            {"name": "zorb.md", "text": ZORB},
            {"name": "a/quux.html", "data": page.decode(), "type": "text/html"},
            {"name": "bin", "data": base64.b64encode(bytes(range(256))).decode()}]})
        self.assertEqual((added["added"], added["changed"], len(added["skipped"])), (2, 0, 1))
        self.assertIn("bin", added["skipped"][0])
        self.assertGreater(added["embedded"], 0)  # by the embedding model that ships with the program
        found = server.post(PATH + "/notes/search", {"query": "which option counts rings", "count": 2})
        best = found["data"][0]
        self.assertEqual((best["document"], best["title"], found["by_vectors"]), ("zorb.md", "zorb", True))
        self.assertIn("--rings", best["text"])
        self.assertIn("line", best["place"])
        self.assertIsNone(server.post(PATH + "/notes/search", {"query": "rings", "by": "words"})["data"][0]["similarity"])
        again = server.post(PATH + "/notes/documents", documents(("zorb.md", ZORB.replace("moons", "comets"))))
        self.assertEqual((again["added"], again["changed"]), (0, 1))
        self.assertIn("comets", server.post(PATH + "/notes/search", {"query": "what does zorb count"})["data"][0]["text"])
        whole = server.get(PATH + "/notes")
        self.assertEqual([d["name"] for d in whole["data"]], ["a/quux.html", "zorb.md"])
        self.assertEqual(len(server.get(PATH + "/notes?limit=1")["data"]), 1)
        # The same collection on the command line, which also removes it below the server.
        listed = json.loads(self.run_chimere("collection", "list", "--json", "--collections", self.folder))
        self.assertEqual((listed[0]["name"], listed[0]["documents"]), ("notes", 2))
        status, _, gone = server.call("DELETE", PATH + "/notes/documents?name=" + urllib.parse.quote("a/quux.html", safe=""))
        self.assertEqual((status, gone["document"], gone["deleted"]), (200, "a/quux.html", True))
        self.assertEqual(server.get(PATH + "/notes")["documents"], 1)
        self.run_chimere("collection", "rm", "notes", "--collections", self.folder)
        self.assertEqual(server.get(PATH)["data"], [])
        server.post(PATH, {"name": "notes"})
        self.assertEqual(server.post(PATH + "/notes/search", {"query": "zorb"})["data"], [])
        self.assertTrue(server.call("DELETE", PATH + "/notes")[2]["deleted"])
        self.assertEqual(server.call("GET", PATH + "/notes")[0], 404)

    def test_errors(self):
        server = self.serve()
        for path, body in [("/none/search", {"query": "a"}), ("/none/documents", documents(("a", "b")))]:
            error = server.error(PATH + path, body, 404)
            self.assertEqual((error["code"], error["param"]), ("collection_not_found", "collection"))
        self.assertEqual(server.error(PATH, {"name": "../a"})["code"], "invalid_value")
        self.assertEqual(server.error(PATH, {"name": "a", "x": 1})["code"], "unknown_parameter")
        server.post(PATH, {"name": "a"})
        for document, code in [({"name": "a"}, "missing_field"), ({"text": "a"}, "missing_field"),
                               ({"name": "a", "text": "a", "data": "YQ=="}, "conflicting_fields"),
                               ({"name": "a", "data": "*"}, "invalid_value"),
                               ({"url": "file:///etc/passwd"}, "invalid_value")]:
            self.assertEqual(server.error(PATH + "/a/documents", {"documents": [document]})["code"], code, document)
        # Addresses of this machine and of its network are not fetched.
        private = server.post(PATH + "/a/documents", {"documents": [{"url": f"http://127.0.0.1:{server.port}/health"}]})
        self.assertEqual((private["added"], len(private["skipped"])), (0, 1))
        self.assertEqual(server.error(PATH + "/a/other", {}, 404)["code"], "not_found")
        self.assertEqual(server.call("DELETE", PATH + "/a/documents")[0], 400)
        self.assertEqual(server.call("DELETE", PATH + "/a/documents?name=b")[0], 404)

    def test_keys(self):
        keys = self.home.name + "/keys.json"
        secrets = {}
        for name, scopes in [("ann", "inference,collections"), ("bob", "inference")]:
            made = self.run_chimere("keys", "add", name, "--keys", keys, "--scopes", scopes, "--json")
            secrets[name] = {"Authorization": "Bearer " + json.loads(made)["key"]}
        server = self.serve("--keys", keys)
        self.assertEqual(server.call("GET", PATH)[0], 401)
        server.post(PATH, {"name": "notes"}, headers=secrets["ann"])
        server.post(PATH + "/notes/documents", documents(("zorb.md", ZORB)), headers=secrets["ann"])
        self.assertEqual(server.get(PATH, **secrets["bob"])["data"], [])
        server.post(PATH + "/notes/search", {"query": "zorb"}, 404, secrets["bob"])
        for method, path, body in [("POST", PATH, {"name": "b"}), ("POST", PATH + "/notes/documents", documents(("a", "b"))),
                                   ("DELETE", PATH + "/notes", None)]:
            status, _, reply = server.call(method, path, body, secrets["bob"])
            self.assertEqual((status, reply["error"]["code"]), (403, "insufficient_scope"), path)
        question = {"model": "odo", "messages": [{"role": "user", "content": "What does the command zorb count?"}],
                    "odo": {"collections": ["notes"], "mode": "fast"}, "temperature": 0, "max_tokens": 32}
        self.assertEqual(server.post("/v1/chat/completions", question, 400, secrets["bob"])["error"]["param"],
                         "odo.collections")
        reply = server.post("/v1/chat/completions", question, headers=secrets["ann"])
        source = reply["odo"]["sources"][0]
        self.assertEqual((source["document"], source["collection"], source["cited"]), ("zorb.md", "notes", True))
        self.assertIn("moons", source["text"])
        # Whatever the small model says, the passage is quoted and cited.
        self.assertIn("counts the moons of a planet", reply["choices"][0]["message"]["content"])
        self.assertIn("[1]", reply["choices"][0]["message"]["content"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
