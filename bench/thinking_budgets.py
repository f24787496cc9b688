#!/usr/bin/python3
"""Checks reasoning budgets through a server: never exceeded, an answer always follows, no tag is left open.

  thinking_budgets.py CHIMERE MODEL QUESTIONS [--budgets 64,256,1024] [--prompts 100] [--running 8] [--ctx 4096] [--threads N]

QUESTIONS: models/evaluation/questions.jsonl. Each budget runs the first prompts three times: unchanged; with the end of
reasoning suppressed (logit_bias -100 on </think>); and the same at a temperature of 1.5 without top-k and top-p, for
incoherent reasoning. Prints a line for each with the lengths of the reasoning and the failures; exits with 1 if there are any.
"""
import argparse
import collections
import concurrent.futures
import http.client
import json
import subprocess
import sys

TAGS = ("<think>", "</think>")
VARIANTS = (("unchanged", {}),
            ("never ends by itself", {"bias": True}),
            ("the same, temperature 1.5", {"bias": True, "temperature": 1.5, "top_k": 0, "top_p": 1}))


def call(port, path, body):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        data = json.loads(response.read())
        if response.status != 200:
            raise SystemExit(f"status {response.status}: {data}")
        return data
    finally:
        connection.close()


def check(response, budget):
    """The number of reasoning tokens, the finish reason, and a list of failures."""
    choice = response["choices"][0]
    message = choice["message"]
    tokens = [t["token"] for t in choice["logprobs"]["content"]]
    wrong = []
    if tokens.count("</think>") != 1:
        wrong.append(f"{tokens.count('</think>')} end tags")
    reasoning = tokens.index("</think>") if "</think>" in tokens else len(tokens)
    if reasoning > budget:
        wrong.append(f"reasoning of {reasoning} tokens")
    if response["usage"]["completion_tokens_details"]["reasoning_tokens"] != reasoning:
        wrong.append("usage counts another number of tokens")
    if not (message.get("content") or "").strip():
        wrong.append("no answer")
    if any(tag in (message.get(part) or "") for tag in TAGS for part in ("content", "reasoning_content")):
        wrong.append("a tag in the text")
    return reasoning, choice["finish_reason"], wrong


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("chimere")
    p.add_argument("model")
    p.add_argument("questions")
    p.add_argument("--budgets", default="64,256,1024")
    p.add_argument("--prompts", type=int, default=100)
    p.add_argument("--running", type=int, default=8)
    p.add_argument("--ctx", type=int, default=4096)
    p.add_argument("--threads", type=int, default=0)
    a = p.parse_args()
    with open(a.questions, encoding="utf-8") as f:
        questions = [json.loads(line)["question"] for line in f][:a.prompts]
    server = subprocess.Popen([a.chimere, "serve", "--json", "--port", "0", "-m", a.model, "--backend", "cpu", "--ctx", str(a.ctx),
                               "--max-running", str(a.running), "--threads", str(a.threads)],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    broken = 0
    try:
        port = int(json.loads(server.stdout.readline())["url"].rsplit(":", 1)[1])
        close = call(port, "/tokenize", {"content": "</think>", "add_special": False, "parse_special": True})["tokens"]
        assert len(close) == 1, close
        print("| budget | variant | reasoning tokens: median, longest | at the budget | cut off by length | broken |")
        print("|---:|---|---:|---:|---:|---|")
        for budget in map(int, a.budgets.split(",")):
            for variant, fields in VARIANTS:
                fields = dict(fields)
                if fields.pop("bias", False):
                    fields["logit_bias"] = {str(close[0]): -100}

                def ask(numbered):
                    number, question = numbered
                    body = {"messages": [{"role": "user", "content": question}], "thinking_budget": budget, "logprobs": True,
                            "seed": number, "max_tokens": budget + 192, **fields}
                    return check(call(port, "/v1/chat/completions", body), budget)

                with concurrent.futures.ThreadPoolExecutor(a.running) as pool:
                    results = list(pool.map(ask, enumerate(questions)))
                lengths = sorted(t[0] for t in results)
                wrong = collections.Counter(w for t in results for w in t[2])
                broken += sum(wrong.values())
                print(f"| {budget} | {variant} | {lengths[len(lengths) // 2]}, {lengths[-1]} | {sum(n == budget for n in lengths)} | "
                      f"{sum(t[1] == 'length' for t in results)} | {dict(wrong) if wrong else 'nothing'} |", flush=True)
    finally:
        server.terminate()
        server.wait()
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
