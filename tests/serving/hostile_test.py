#!/usr/bin/env python3
"""Clients that misbehave: none of them may harm the server or other clients.

  hostile_test.py CHIMERE WRITE_TINY_MODEL [unittest arguments]
"""
import http.client
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import unittest

from server import HANG, Server, wait_for

CHIMERE, WRITER = (pathlib.Path(arg).absolute() for arg in sys.argv[1:3])
SEED = int(os.environ.get("TEST_SEED", random.randrange(1 << 32)))
TEXT = "/v1/completions"
GREEDY = {"prompt": "ab", "temperature": 0, "max_tokens": 8}


def request(body, path=TEXT, **headers):
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: localhost"]
    lines += [f"{k.replace('_', '-')}: {v}" for k, v in {"Content_Length": len(body), **headers}.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Clients(unittest.TestCase):
    """Starts a server with `settings`; checks after each case that it still gives the same answer."""
    settings = {}

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        model = cls.folder.name + "/tiny.gguf"
        subprocess.run([WRITER, model, "320"], check=True)
        cls.server = Server(CHIMERE, model, max_body=1, **cls.settings)
        cls.answer = cls.server.post(TEXT, GREEDY)["choices"]

    @classmethod
    def tearDownClass(cls):
        code = cls.server.close()
        assert code == 0, (code, cls.server.log()[-2000:])

    def tearDown(self):
        # No other client is affected: the server gives the same answer as before.
        self.server.wait_until_idle()
        self.assertEqual(self.server.post(TEXT, GREEDY)["choices"], self.answer, f"seed {SEED}")

    def talk(self, data, end=False):
        """Sends bytes and returns everything that the server sends until it closes the connection."""
        with self.server.raw() as raw:
            try:
                raw.sendall(data)
                if end:
                    raw.shutdown(socket.SHUT_WR)
                answer = b""
                while piece := raw.recv(65536):
                    answer += piece
            except (ConnectionResetError, BrokenPipeError):
                pass
            return answer

    def refused(self, data, status):
        answer = self.talk(data)
        self.assertTrue(answer.startswith(f"HTTP/1.1 {status} ".encode()), (data[:200], answer[:300]))
        return answer


class Hostile(Clients):
    settings = {"header_timeout": HANG, "idle_timeout": HANG, "max_connections": 200}

    def test_json_that_is_none(self):
        bodies = [b"", b"{", b"[]", b"nul", b'{"prompt":"\xff\xfe"}', b'{"prompt":1e999}',
                  b'{"prompt":' + b"[" * 300000, b'{"a":' * 50000, b"\0" * 100, b'{"prompt":"x"}{"prompt":"x"}',
                  b"[" + b"0," * 400000 + b"0]"]
        for body in bodies:
            status, _, result = self.server.call("POST", TEXT, body)
            self.assertEqual((status, result["error"]["code"]), (400, "invalid_json"), body[:50])

    def test_invalid_values(self):
        draw = random.Random(SEED)
        values = [None, True, -1, 0, 1.5, 1e308, 2**63, 2**64 - 1, "", "x", [], {}, [[]], [None], {"x": 1}]
        names = ["prompt", "max_tokens", "n", "stop", "seed", "temperature", "top_p", "top_k", "logit_bias", "logprobs",
                 "stream_options", "model", "echo", "best_of", "samplers", "mirostat", "dry_sequence_breakers",
                 "repeat_last_n", "xtc_probability", "user", "metadata"]
        for _ in range(300):
            body = {**GREEDY, **{draw.choice(names): draw.choice(values) for _ in range(draw.randint(1, 3))}}
            status, _, result = self.server.call("POST", TEXT, body)
            self.assertIn(status, (200, 400, 404), (body, result))
            if status != 200:
                self.assertTrue(result["error"]["message"] and result["error"]["param"], (body, result))

    def test_bodies_that_are_too_large(self):
        self.refused(request(b"", Content_Length=2 << 20), 413)
        self.refused(request(b"", Content_Length=10**30), 400)
        chunked = request(b"", Transfer_Encoding="chunked").replace(b"Content-Length: 0\r\n", b"")
        self.refused(chunked + (b"ffff\r\n" + b"x" * 0xffff + b"\r\n") * 20, 413)
        self.refused(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100000, 431)
        self.refused(b"GET /" + b"x" * 100000, 431)

    def test_smuggling(self):
        inner = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
        both = request(inner, Transfer_Encoding="chunked")
        for data in (both, both.replace(b"chunked", b"xchunked"), both.replace(b"chunked", b"chunked, identity"),
                     request(inner).replace(b"Content-Length", b"Content-Length: 3\r\nContent-Length"),
                     request(inner).replace(b"Content-Length: ", b"Content-Length: +"),
                     request(inner).replace(b"Host:", b"Host :"),
                     request(inner).replace(b"\r\nContent", b"\r\n Content"),
                     request(inner).replace(b"\r\n", b"\n"),
                     request(inner).replace(b"Host: localhost", b"Host: localhost\r\nHost: localhost")):
            answer = self.refused(data, 400)
            self.assertEqual(answer.count(b"HTTP/1.1 "), 1, data)
        self.assertNotIn("smuggled", self.server.log())

    def test_pipelined_requests(self):
        answer = self.talk(request(GREEDY) + request(GREEDY) + b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
                           b"Connection: close\r\n\r\n")
        self.assertEqual(answer.count(b"HTTP/1.1 200 OK"), 3)
        self.assertLess(answer.rfind(b"text_completion"), answer.rfind(b'{"status":"ok"}'))

    def test_expect_continue(self):
        head, body = request(GREEDY, Expect="100-continue", Connection="close").split(b"\r\n\r\n")
        with self.server.raw() as raw:
            raw.sendall(head + b"\r\n\r\n")
            self.assertEqual(raw.recv(100), b"HTTP/1.1 100 Continue\r\n\r\n")
            raw.sendall(body)
            self.assertTrue(raw.recv(100000).startswith(b"HTTP/1.1 200 OK"))
        # No 100 Continue for a body that is refused anyway.
        self.refused(request(b"", Expect="100-continue", Content_Length=2 << 20), 413)

    def test_clients_that_go(self):
        whole = request({**GREEDY, "stream": True, "max_tokens": 200})
        draw = random.Random(SEED)
        for cut in sorted({0, 1, len(whole), *(draw.randrange(len(whole)) for _ in range(20))}):
            with self.server.raw() as raw:
                raw.sendall(whole[:cut])
                if draw.random() < 0.5:
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset
        for read in (1, 100, 2000):
            with self.server.raw() as raw:
                raw.sendall(whole)
                raw.recv(read)

    def test_readers_that_do_not_read(self):
        # The response of 16 choices with log-probabilities may or may not exceed the limit of unread bytes.
        body = {**GREEDY, "n": 16, "stream": True, "logprobs": 20, "max_tokens": 100, "temperature": 1}
        with socket.socket() as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            raw.connect(("127.0.0.1", self.server.port))
            raw.sendall(request(body))
            self.server.wait_until_idle()

    def test_more_connections_than_allowed(self):
        held = [self.server.raw() for _ in range(190)]
        self.assertEqual(self.server.get("/health"), {"status": "ok"})
        more = [self.server.raw() for _ in range(20)]
        self.assertEqual(more[-1].recv(1), b"")
        for raw in held + more:
            raw.close()
        wait_for(self.accepts, "a free connection")

    def accepts(self):
        """Whether the server accepts a connection again, after it has processed the closed ones."""
        try:
            return self.server.get("/health") == {"status": "ok"}
        except (OSError, http.client.HTTPException):
            return False

    def test_any_bytes(self):
        draw = random.Random(SEED)
        whole = request(GREEDY, Connection="close")
        for _ in range(150):
            data = bytearray(whole)
            for _ in range(draw.randint(1, 6)):
                at = draw.randrange(len(data))
                data[at:at + draw.randint(0, 3)] = draw.randbytes(draw.randint(0, 3))
            self.talk(bytes(data), end=True)


class Slow(Clients):
    settings = {"header_timeout": 1, "idle_timeout": 2}

    def test_clients_that_are_slow(self):
        whole = request(GREEDY)
        with self.server.raw() as raw:
            # An endless request head, one byte at a time: the server must close the connection.
            raw.sendall(whole[:20])
            raw.setblocking(False)

            def ended():
                try:
                    raw.send(b"x")
                    return raw.recv(1) is not None
                except BlockingIOError:
                    return False
                except (BrokenPipeError, ConnectionResetError):
                    return True

            wait_for(ended, "the end of a head that never ends")
        self.refused(whole[:40], 408)
        self.refused(whole[:-3], 408)
        self.assertEqual(self.talk(b""), b"")  # idle


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
