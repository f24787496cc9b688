"""Runs `chimere serve` as a child process of a test, with clients for it."""
import http.client
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from limits import HANG, wait_for  # noqa: E402


def environment(home):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("CHIMERE_", "HF_", "XDG_"))}
    return {**kept, "HOME": str(home)}


class Server:
    """Runs until close(); its log is in `log`. model: of -m; "" leaves it out. variables: of its environment."""

    def __init__(self, program, model, *flags, variables=None, **settings):
        self.folder = tempfile.TemporaryDirectory()
        self.log_path = pathlib.Path(self.folder.name) / "log"
        flags = [*map(str, flags)]
        for name, value in settings.items():
            flags += ["--" + name.replace("_", "-"), str(value)]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [program, "serve", "--json", "--port", "0", *(["-m", model] if model else []), *flags],
                stdout=subprocess.PIPE, stderr=log, env={**environment(self.folder.name), **(variables or {})})
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            raise AssertionError("the server did not start: " + self.log())
        self.announcement = json.loads(line)
        self.port = int(self.announcement["url"].rsplit(":", 1)[1])
        self.model = self.announcement["model"]

    def log(self):
        return self.log_path.read_text()

    def close(self):
        """Stops the server with SIGTERM; returns the exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            code = self.process.wait(HANG)
        finally:
            self.process.kill()
            self.process.stdout.close()
        return code

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANG)

    def raw(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=HANG)

    def call(self, method, path, body=None, headers=None):
        """One request on a connection of its own: status, headers, parsed or raw body."""
        connection = self.connect()
        try:
            if body is not None and not isinstance(body, (bytes, str)):
                body = json.dumps(body)
            connection.request(method, path, body, {"Content-Type": "application/json", **(headers or {})})
            response = connection.getresponse()
            data = response.read()
        finally:
            connection.close()
        if response.getheader("Content-Type", "").startswith("application/json") and data:
            data = json.loads(data)
        return response.status, response.headers, data

    def get(self, path, **headers):
        return self.call("GET", path, headers=headers)[2]

    def post(self, path, body, expect=200, headers=None):
        status, _, data = self.call("POST", path, body, headers)
        assert status == expect, (status, data)
        return data

    def models(self):
        """The entries of /v1/models that are models, without the names of the orchestrator."""
        return [m for m in self.get("/v1/models")["data"] if not m["id"].startswith("odo")]

    def error(self, path, body, expect=400, headers=None):
        return self.post(path, body, expect, headers)["error"]

    def stream(self, path, body):
        """The events of a stream, parsed; "[DONE]" must be the last one."""
        connection = self.connect()
        try:
            connection.request("POST", path, json.dumps({**body, "stream": True}))
            response = connection.getresponse()
            assert response.status == 200, response.read()
            assert response.getheader("Content-Type") == "text/event-stream"
            text = response.read().decode()
        finally:
            connection.close()
        events = [e for e in text.split("\n\n") if e and not e.startswith(":")]
        assert events.pop() == "data: [DONE]", text[-200:]
        return [json.loads(e.removeprefix("data: ")) for e in events]

    def metrics(self, model=None, **headers):
        """Values by name and labels, as in the text format; those of a model without the label `model`.
        model: default, the server's default one."""
        text = self.get("/metrics", **headers).decode()
        label = f'model="{model or self.model}"'
        values = {}
        for line in text.splitlines():
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                name = name.replace("{" + label + ",", "{").replace("{" + label + "}", "").replace("," + label, "")
                values[name] = float(value)
        return values

    def warmups(self):
        """Prefix-cache warm-ups that have ended; None while one waits or is being computed."""
        values = self.metrics()
        ended = sum(v for name, v in values.items() if name.startswith("chimere_prefix_cache_warmups_total"))
        return None if values["chimere_prefix_cache_warmups_waiting"] else ended

    def wait_for_warmups(self, more_than):
        def ended():
            count = self.warmups()
            return count if count is not None and count > more_than else None
        return wait_for(ended, "the end of a warm-up")

    def wait_until_idle(self):
        wait_for(lambda: self.get("/v1/status")["requests"] == {"running": 0, "waiting": 0}, "the end of all requests")
