#!/usr/bin/env python3
"""The quality gate on right answers and on broken ones: `chimere odo` in front of a server that gives the answers of a file.

  gate.py CHIMERE MODEL EVALUATION [--count 200]

EVALUATION is the folder models/evaluation: questions.jsonl has right answers; a broken one is the right answer to another
question, or a near distractor. The answers come from this script, the judge's words from the model. Prints how many of each the
gate accepts, and the AUROC of its scores. Exits with 1 if an answer that the judge has no opinion of was asked for again.
"""
import argparse
import http.client
import http.server
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "serving"))
from router import CHAT, auroc, shown  # noqa: E402
from server import HANG, Server, environment  # noqa: E402


class Answers(http.server.BaseHTTPRequestHandler):
    """An OpenAI-compatible server whose answers are `text`; what has a choice constraint goes to the model's server."""
    protocol_version = "HTTP/1.1"
    text, port, judged, answered = "", 0, 0, 0

    def log_message(self, *_):
        pass

    def reply(self, data, kind="application/json", status=200):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def pass_on(self, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", Answers.port, timeout=HANG)
        connection.request(self.command, self.path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        self.reply(response.read(), response.getheader("Content-Type"), response.status)
        connection.close()

    def do_GET(self):
        self.pass_on()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if "guided_choice" in json.loads(body):
            Answers.judged += 1
            self.pass_on(body)
            return
        Answers.answered += 1
        head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "answers"}
        events = [{**head, "choices": [{"index": 0, "delta": {"role": "assistant", "content": Answers.text}, "finish_reason": None}]},
                  {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]
        self.reply("".join(f"data: {json.dumps(e)}\n\n" for e in events).encode() + b"data: [DONE]\n\n", "text/event-stream")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("evaluation")
    parser.add_argument("--count", type=int, default=200)
    o = parser.parse_args()
    with open(pathlib.Path(o.evaluation) / "questions.jsonl", encoding="utf-8") as f:
        rows = [r for r in map(json.loads, f) if r.get("wrong")][:o.count]
    server = Server(o.program, o.model, "--prefix-disk", "0", "--threads", "1")
    Answers.port = server.port
    answers = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=answers.serve_forever, daemon=True).start()
    results = []
    with tempfile.TemporaryDirectory() as home:
        process = subprocess.Popen([o.program, "odo", "--json", "--upstream", f"http://127.0.0.1:{answers.server_port}/v1", "--port", "0",
                                    "--state-folder", home], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment(home))
        try:
            odo = Server.__new__(Server)
            odo.port = int(json.loads(process.stdout.readline())["url"].rsplit(":", 1)[1])
            for i, row in enumerate(rows):
                for kind, text in (("right", row["answer"]), ("of another question", rows[(i + 1) % len(rows)]["answer"]), ("distractor", row["wrong"][0])):
                    Answers.text, before = text, Answers.answered
                    reply = odo.post(CHAT, {"model": "odo", "messages": [{"role": "user", "content": row["question"]}],
                                            "odo": {"mode": "quality"}})
                    results.append((kind, reply["odo"]["scores"].get("gate"), Answers.answered - before))
        finally:
            process.terminate()
            process.wait(HANG)
            process.stdout.close()
            answers.shutdown()
            server.close()
    print(f"{len(rows)} questions, {Answers.judged} calls of the judge\n\n| answer | n | accepted | no opinion | mean score |\n|---|---:|---:|---:|---:|")
    for kind in dict.fromkeys(r[0] for r in results):
        some = [r for r in results if r[0] == kind]
        scored = [r[1] for r in some if r[1] is not None]
        print(f"| {kind} | {len(some)} | {statistics.mean(r[1] is None or r[1] >= 0.5 for r in some):.2f} | "
              f"{statistics.mean(r[1] is None for r in some):.2f} | {statistics.mean(scored) if scored else float('nan'):.2f} |")
    for broken in ("of another question", "distractor"):
        some = [(0.5 if r[1] is None else r[1], r[0] == "right") for r in results if r[0] in ("right", broken)]
        print(f"AUROC of the score, right against {broken}: {shown(some, auroc, draws=300)}")
    sys.exit(any(r[1] is None and r[2] > 1 for r in results))


if __name__ == "__main__":
    main()
