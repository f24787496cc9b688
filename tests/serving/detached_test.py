#!/usr/bin/env python3
"""Generations that continue without their client: what clients read of them, and what a killed server keeps.

  detached_test.py CHIMERE MODEL
"""
import http.client
import json
import subprocess
import sys
import tempfile
import unittest

from server import Server, environment, wait_for

CHIMERE, MODEL = sys.argv[1:3]
CHAT = "/v1/chat/completions"
QUESTION = [{"role": "user", "content": "Name many commands and say what each of them is for."}]
SPACE = ["--ctx", 100000, "--rope-scaling", "none", "--prefix-states", 0]  # generations of 100,000 tokens end when a test says so
# The model cannot end it.
LONG = {"messages": QUESTION, "stream": True, "seed": 7, "temperature": 1, "ignore_eos": True, "max_tokens": 400}


class Stream:
    """The events of a response: [(number, data)]; data is parsed, or "[DONE]"."""

    def __init__(self, server, method, path, body=None, headers=None):
        self.connection = server.connect()
        self.connection.request(method, path, body and json.dumps(body), headers or {})
        self.response = self.connection.getresponse()
        self.events = []

    def next(self):
        number, data = None, None
        while True:
            line = self.response.readline().decode()
            if not line:
                return None
            line = line.rstrip("\n")
            if line.startswith("id: "):
                number = int(line[4:])
            elif line.startswith("data: "):
                data = line[6:]
            elif not line and data is not None:
                self.events.append((number, data if data == "[DONE]" else json.loads(data)))
                return self.events[-1]

    def read(self, until=None):
        """To the end, or until an event of which `until` says so."""
        while (event := self.next()) is not None:
            if event[1] == "[DONE]" or (until and until(event)):
                return self
        raise AssertionError("the stream ended without its last event")

    def close(self):
        self.response.close()
        self.connection.close()
        return self

    def text(self):
        return "".join(text_of(data) for _, data in self.events)


def text_of(data):
    if data == "[DONE]":
        return ""
    return "".join(c["delta"].get("content") or "" for c in data.get("choices", []))


class Detached(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.server = Server(CHIMERE, MODEL, *SPACE, "--state-folder", cls.folder.name + "/state")
        cls.count = 0

    @classmethod
    def tearDownClass(cls):
        assert cls.server.close() == 0
        cls.folder.cleanup()

    def place(self, server=None, headers=None):
        """A new conversation with a question and an empty answer; and the path of the answer."""
        Detached.count += 1
        server = server or self.server
        name = f"c{Detached.count}"
        server.post(f"/v1/conversations/{name}", {"title": name}, headers=headers)
        server.post(f"/v1/conversations/{name}/messages", {"messages": [
            {"id": "q", "role": "user", "content": QUESTION[0]["content"]},
            {"id": "a", "parent": "q", "role": "assistant", "complete": False}]}, headers=headers)
        return {"id": name, "message": "a"}, f"/v1/conversations/{name}/messages/a"

    def stored(self, conversation, server=None):
        return (server or self.server).get(f"/v1/conversations/{conversation['id']}")["messages"][-1]

    @classmethod
    def whole(cls):
        """The text that the request gives."""
        if not hasattr(cls, "text"):
            cls.text = "".join(text_of(event) for event in cls.server.stream(CHAT, LONG))
        return cls.text

    def test_continues_and_is_read_again(self):
        conversation, path = self.place()
        first = Stream(self.server, "POST", CHAT, {**LONG, "conversation": conversation})
        self.assertEqual(first.response.status, 200)
        first.read(lambda event: len(first.text()) > 60).close()
        numbers = [number for number, _ in first.events]
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)))
        # One reader by the query, one by the header that browsers send, one from the message on.
        second = Stream(self.server, "GET", f"{path}/events?after={numbers[-1]}").read()
        self.assertEqual(second.events[0][0], numbers[-1] + 1)
        self.assertEqual(first.text() + second.text(), self.whole())
        third = Stream(self.server, "GET", f"{path}/events", headers={"Last-Event-ID": str(numbers[2])}).read()
        self.assertEqual(third.events, (first.events + second.events)[3:])
        fourth = Stream(self.server, "GET", f"{path}/events").read()
        self.assertEqual(fourth.events[0][1]["message"]["content"] + fourth.text(), self.whole())
        message = self.stored(conversation)
        self.assertEqual(message["content"], self.whole())
        self.assertTrue(message.get("complete", True))
        self.assertEqual(message["parent"], "q")
        data = message["data"]
        self.assertEqual(data["finish"], "length")
        self.assertEqual(data["usage"]["completion"], 400)
        self.assertEqual(data["model"], self.server.model)
        self.server.wait_until_idle()

    def test_a_reader_joins_in_the_midst(self):
        conversation, path = self.place()
        first = Stream(self.server, "POST", CHAT, {**LONG, "conversation": conversation})
        first.read(lambda event: len(first.text()) > 60)
        second = Stream(self.server, "GET", f"{path}/events")
        second.next()
        self.assertEqual(second.events[0][1]["object"], "conversation.message")
        before = second.events[0][1]["message"]["content"]
        self.assertTrue(self.whole().startswith(before))
        first.read()
        second.read()
        self.assertEqual(before + second.text(), self.whole())
        self.assertEqual(first.text(), self.whole())

    def test_stops(self):
        conversation, path = self.place()
        endless = {**LONG, "max_tokens": 100000, "conversation": conversation}
        first = Stream(self.server, "POST", CHAT, endless)
        first.read(lambda event: len(first.text()) > 60)
        error = self.server.error(CHAT, endless, 409)
        self.assertEqual(error["code"], "generation_running")
        message = self.server.post(path + "/stop", {})["message"]
        first.read()
        self.assertEqual(first.events[-2][1]["error"]["code"], "cancelled")
        self.assertEqual(message["content"], first.text())
        self.assertEqual(message["data"]["finish"], "stopped")
        self.assertEqual(self.stored(conversation), message)
        self.server.wait_until_idle()
        # Continued where it ended.
        more = {**LONG, "max_tokens": 8, "conversation": conversation,
                "messages": [*QUESTION, {"role": "assistant", "content": message["content"]}]}
        second = Stream(self.server, "POST", CHAT, more).read()
        self.assertEqual(self.stored(conversation)["content"], message["content"] + second.text())
        self.assertEqual(self.stored(conversation)["data"]["finish"], "length")

    def test_refusals(self):
        conversation, path = self.place()
        ask = {**LONG, "max_tokens": 4}
        for wrong, status, code in [
                ({"conversation": {"id": "none", "message": "a"}}, 404, "conversation_not_found"),
                ({"conversation": {**conversation, "message": "none"}}, 404, "conversation_not_found"),
                ({"conversation": conversation, "stream": False}, 400, "invalid_value"),
                ({"conversation": conversation, "n": 2}, 400, "unsupported_value"),
                ({"conversation": conversation, "messages": [{"role": "user", "content": "a " * 100000}]}, 400,
                 "context_length_exceeded")]:
            self.assertEqual(self.server.error(CHAT, {**ask, **wrong}, status)["code"], code)
        for method, action in [("GET", "events"), ("POST", "stop")]:
            status, _, data = self.server.call(method, f"{path}/{action}", "{}")
            self.assertEqual((status, data["error"]["code"]), (404, "generation_not_found"))
        self.assertEqual(self.server.call("GET", path + "/other")[0], 404)
        Stream(self.server, "POST", CHAT, {**ask, "conversation": conversation}).read()  # it is not in use

    def test_a_deleted_conversation_ends_its_generation(self):
        conversation, _ = self.place()
        first = Stream(self.server, "POST", CHAT, {**LONG, "max_tokens": 100000, "conversation": conversation})
        first.read(lambda event: len(first.text()) > 10).close()
        self.server.call("DELETE", f"/v1/conversations/{conversation['id']}")
        self.server.wait_until_idle()
        self.assertEqual(self.server.call("GET", f"/v1/conversations/{conversation['id']}")[0], 404)

    def test_keys(self):
        with tempfile.TemporaryDirectory() as folder:
            def add(name, *more):
                return subprocess.run([CHIMERE, "keys", "add", name, "--keys", folder + "/keys.json", *more], check=True,
                                      capture_output=True, text=True, env=environment(folder)).stdout.strip()
            ada, bob = [{"Authorization": "Bearer " + add(name, "--parallel", "1")} for name in ("ada", "bob")]
            server = Server(CHIMERE, MODEL, *SPACE, "--state-folder", folder + "/state", "--keys", folder + "/keys.json")
            try:
                conversation, path = self.place(server, ada)
                first = Stream(server, "POST", CHAT, {**LONG, "max_tokens": 100000, "conversation": conversation}, ada)
                first.read(lambda event: len(first.text()) > 10).close()
                for method, action in [("GET", "events"), ("POST", "stop")]:
                    status, _, data = server.call(method, f"{path}/{action}", "{}", bob)
                    self.assertEqual((status, data["error"]["code"]), (404, "generation_not_found"))
                status, _, data = server.call("POST", CHAT, {**LONG, "conversation": conversation}, bob)
                self.assertEqual((status, data["error"]["code"]), (404, "conversation_not_found"))
                # It counts among the requests of its key.
                status, _, data = server.call("POST", CHAT, {**LONG, "max_tokens": 1}, ada)
                self.assertEqual((status, data["error"]["code"]), (429, "too_many_parallel_requests"))
                server.post(path + "/stop", {}, headers=ada)
                server.post(CHAT, {**LONG, "stream": False, "max_tokens": 1}, headers=ada)
            finally:
                self.assertEqual(server.close(), 0)

    def test_a_server_that_stops_stores_what_it_generated(self):
        with tempfile.TemporaryDirectory() as folder:
            flags = [*SPACE, "--state-folder", folder + "/state", "--grace", 0]
            server = Server(CHIMERE, MODEL, *flags)
            conversation, _ = self.place(server)
            first = Stream(server, "POST", CHAT, {**LONG, "max_tokens": 100000, "conversation": conversation})
            first.read(lambda event: len(first.text()) > 60).close()
            self.assertEqual(server.close(), 0)
            server = Server(CHIMERE, MODEL, *flags)
            message = self.stored(conversation, server)
            self.assertTrue(message["content"].startswith(first.text()))
            self.assertEqual(message["data"]["finish"], "stopped")
            self.assertEqual(server.close(), 0)

    def test_a_killed_server_keeps_what_it_had_stored(self):
        """What a client has seen is stored soon afterwards, without any client, and survives the kill."""
        with tempfile.TemporaryDirectory() as folder:
            flags = [*SPACE, "--state-folder", folder + "/state"]
            server = Server(CHIMERE, MODEL, *flags)
            conversation, path = self.place(server)
            whole = {**LONG, "max_tokens": 100000, "conversation": conversation}
            first = Stream(server, "POST", CHAT, whole)
            first.read(lambda event: len(first.text()) > 60).close()
            seen = first.text()
            wait_for(lambda: len(self.stored(conversation, server)["content"]) >= len(seen), "the text in the history")
            server.process.kill()
            server.close()
            server = Server(CHIMERE, MODEL, *flags)
            message = self.stored(conversation, server)
            self.assertTrue(message["content"].startswith(seen))
            self.assertFalse(message["complete"])
            self.assertEqual(server.call("GET", path + "/events")[0], 404)
            # It is a prefix of what the request gives, and can be continued.
            again = Stream(server, "POST", CHAT, {k: v for k, v in whole.items() if k != "conversation"})
            again.read(lambda event: len(again.text()) >= len(message["content"])).close()
            self.assertTrue(again.text().startswith(message["content"]))
            self.assertEqual(server.close(), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
