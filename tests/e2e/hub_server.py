"""A Hugging-Face-compatible host for tests, with all faults that a download must survive.

Two servers: the endpoint (lists of files, redirects) and a store at another port (the bytes). Both remember every
request. Faults are attributes of Hub; a test sets them before a request.
"""
import hashlib
import http.server
import json
import re
import threading
import urllib.parse


class Hub:
    def __init__(self):
        self.files = {}  # (repository, path) -> bytes
        self.requests = []  # (server, method and path, headers)
        self.trees = {}  # repository -> raw answer instead of the list
        self.token = None  # what private repositories ask for
        self.cut_after = []  # bytes after which the next answers of the store break off
        self.refuses_after_cut = False  # the next answer is no: the download ends at once
        self.status = {}  # server -> [(status, headers)] of the next answers
        self.hold_at = None  # the store stops here in a file, until release()
        self.held = threading.Event()
        self.ranges = True  # the store knows ranges
        self.wrong_checksums = False
        self.checksums_in_list = True
        self.page = 1000
        self.redirect = None  # an address instead of the store's
        self.etag = '"one"'
        self.endpoint = self.serve("endpoint")
        self.store = self.serve("store")

    def serve(self, name):
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                hub.requests.append((name, self.path, {k.lower(): v for k, v in self.headers.items()}))
                if hub.status.get(name):
                    status, headers = hub.status[name].pop(0)
                    return self.answer(status, b"no", headers)
                try:
                    getattr(hub, "answer_" + name)(self)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            def answer(self, status, body, headers=()):
                self.send_response(status)
                for key, value in dict(headers).items():
                    self.send_header(key, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        server.handle_error = lambda *_: None  # clients that leave are part of the test
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_address[1]}"

    def sha256(self, data):
        return hashlib.sha256(data + (b"x" if self.wrong_checksums else b"")).hexdigest()

    def answer_endpoint(self, request):
        url = urllib.parse.urlsplit(request.path)
        listing = re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/main", url.path)
        resolving = re.fullmatch(r"/([^/]+/[^/]+)/resolve/main/(.+)", url.path)
        repository = (listing or resolving).group(1)
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return request.answer(401, b"{}")
        if listing:
            if repository in self.trees:
                return request.answer(200, self.trees[repository])
            paths = sorted(path for owner, path in self.files if owner == repository)
            if not paths:
                return request.answer(404, b"{}")
            first = int(urllib.parse.parse_qs(url.query).get("cursor", ["0"])[0])
            entries = [{"type": "directory", "path": "some"}, {"type": "file", "path": "README.md", "size": 2}]
            for path in paths[first:first + self.page]:
                data = self.files[repository, path]
                entry = {"type": "file", "path": path, "size": len(data), "oid": "0" * 40}
                if self.checksums_in_list:
                    entry["lfs"] = {"oid": self.sha256(data), "size": len(data), "pointerSize": 134}
                entries.append(entry)
            headers = {}
            if first + self.page < len(paths):
                headers["Link"] = f'<{self.endpoint}{url.path}?recursive=true&cursor={first + self.page}>; rel="next"'
            return request.answer(200, json.dumps(entries).encode(), headers)
        path = urllib.parse.unquote(resolving.group(2))
        if (repository, path) not in self.files:
            return request.answer(404, b"no")
        data = self.files[repository, path]
        target = self.redirect or f"{self.store}/{repository}/{urllib.parse.quote(path)}?signature=1"
        return request.answer(302, b"elsewhere", {"Location": target, "X-Linked-ETag": f'"{self.sha256(data)}"',
                                                  "X-Linked-Size": str(len(data))})

    def answer_store(self, request):
        owner, name, path = urllib.parse.unquote(urllib.parse.urlsplit(request.path).path)[1:].split("/", 2)
        data = self.files[f"{owner}/{name}", path]
        first = 0
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("Range", ""))
        fresh = request.headers.get("If-Range") in (None, self.etag)
        if asked and self.ranges and fresh:
            first = int(asked.group(1))
            if first >= len(data):
                return request.answer(416, b"", {"Content-Range": f"bytes */{len(data)}"})
            request.send_response(206)
            request.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
        else:
            request.send_response(200)
        request.send_header("ETag", self.etag)
        request.send_header("Content-Length", str(len(data) - first))
        request.end_headers()
        end = len(data)
        cut = self.cut_after.pop(0) if self.cut_after else None
        if cut is not None:
            end = min(end, first + cut)
            request.close_connection = True
            if self.refuses_after_cut:
                self.status["store"] = [(403, {})]
        if self.hold_at is not None and first < self.hold_at < end:
            request.wfile.write(data[first:self.hold_at])
            request.wfile.flush()
            first = self.hold_at
            self.held.wait()
        for at in range(first, end, 16384):
            request.wfile.write(data[at:min(end, at + 16384)])

    def hold(self, at):
        """From now on files stop after so many bytes."""
        self.held.clear()
        self.hold_at = at

    def release(self):
        """Lets files that stopped, and those that are asked for from now on, run to their end."""
        self.hold_at = None
        self.held.set()

    def count(self, server, part=""):
        return sum(1 for name, path, _ in self.requests if name == server and part in path)
