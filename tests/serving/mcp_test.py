#!/usr/bin/env python3
"""`chimere mcp` on standard input and output and over HTTP, and a server that has its tools.

  mcp_test.py CHIMERE MODEL
"""
import http.client
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from server import Server, environment
from limits import HANG

CHIMERE, MODEL = sys.argv[1:3]
HELLO = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
         "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}
CALL = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "calculate", "arguments": {"expression": "6*7"}}}


class Mcp(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.TemporaryDirectory()
        self.addCleanup(self.home.cleanup)

    def test_lines(self):
        said = "".join(json.dumps(m) + "\n" for m in (HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"}, CALL))
        done = subprocess.run([CHIMERE, "mcp"], input=said, capture_output=True, text=True, timeout=HANG,
                              env=environment(self.home.name))
        self.assertEqual(done.returncode, 0, done.stderr)
        replies = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([r["id"] for r in replies], [1, 2])
        self.assertEqual(replies[1]["result"]["content"][0]["text"], "42")

    def start_http(self):
        process = subprocess.Popen([CHIMERE, "mcp", "--port", "0", "--json"], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, env=environment(self.home.name))
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait, HANG)
        self.addCleanup(process.terminate)
        return json.loads(process.stdout.readline())["url"]

    def test_http(self):
        url = self.start_http()
        host = url.split("/")[2]

        def post(message, **headers):
            connection = http.client.HTTPConnection(host, timeout=HANG)
            connection.request("POST", "/mcp", json.dumps(message), {"Content-Type": "application/json", **headers})
            response = connection.getresponse()
            body = response.read()
            connection.close()
            return response.status, body

        status, body = post(HELLO)
        self.assertEqual((status, json.loads(body)["result"]["protocolVersion"]), (200, "2025-06-18"))
        self.assertEqual(post({"jsonrpc": "2.0", "method": "notifications/initialized"})[0], 202)
        self.assertEqual(json.loads(post(CALL)[1])["result"]["content"][0]["text"], "42")
        self.assertEqual(post(CALL, **{"MCP-Protocol-Version": "1999-01-01"})[0], 400)
        self.assertEqual(post(CALL, Origin="http://evil.example")[0], 403)
        connection = http.client.HTTPConnection(host, timeout=HANG)
        connection.request("GET", "/mcp")
        self.assertEqual(connection.getresponse().status, 405)
        connection.close()

    def test_tools_of_other_servers(self):
        state = pathlib.Path(self.home.name) / "state"
        state.mkdir()
        (state / "mcp.json").write_text(json.dumps({"mcpServers": {
            "lines": {"command": CHIMERE, "args": ["mcp"]}, "web": {"url": self.start_http()},
            "gone": {"command": "no-such-program-here"}}}))
        server = Server(CHIMERE, MODEL, "--state-folder", state)
        self.addCleanup(server.close)
        log = server.log()
        self.assertIn("event=mcp_server server=lines tools=2", log)
        self.assertIn("event=mcp_server server=web tools=2", log)
        self.assertIn("event=mcp_server_failed server=gone", log)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
