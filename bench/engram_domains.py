#!/usr/bin/python3
"""Perplexity of held-out domains with tables of each domain's other documents, and of unrelated text.

  engram_domains.py CHIMERE MODEL TEXTS EVALUATION [--bytes N] [--generations N]

TEXTS: the output of `train/corpus/domains.py TEXTS --without EVALUATION`; EVALUATION: models/evaluation. Builds a table of
each domain beside its texts, then prints a Markdown table: perplexity without a table, with Kneser-Ney weights, and gated,
of the domain's text and of heldout.docs with the same table; the first N bytes of each text.

With --generations instead: the effect of tables on reasoning. N sentences of each domain's text are asked about three times,
greedily and with reasoning: without the table, with it only outside reasoning (the default), and also inside reasoning
(--engram-thinking). Counts reasoning and answers that differ from those without the table; uses the existing tables.
"""
import argparse
import http.client
import json
import os
import re
import statistics
import subprocess
import tempfile

DOMAINS = ("sql", "building", "clusters", "erlang")


def run(*command):
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def read_documents(a, name):
    with open(os.path.join(a.evaluation, f"{name}.docs"), encoding="utf-8") as f:
        return f.read().split("\0")


def sentences(documents, wanted):
    """Sentences of the documents in turn, until there are enough."""
    found = [[s.strip() for s in re.findall(r"\b[A-Z][^.\n]{50,160}\.", d)] for d in documents]
    turns = max(map(len, found))
    return [f[i] for i in range(turns) for f in found if i < len(f)][:wanted]


def generations(a, questions, *flags):
    """(reasoning, answer, tokens of the reasoning) for each question."""
    server = subprocess.Popen([a.chimere, "serve", "--json", "--port", "0", "-m", a.model, "--backend", "cpu", "--ctx", "4096", *flags],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        port = int(json.loads(server.stdout.readline())["url"].rsplit(":", 1)[1])
        answers = []
        for question in questions:
            body = {"messages": [{"role": "user", "content": f"Please explain this: {question}"}], "temperature": 0,
                    "reasoning_effort": "low", "max_tokens": 400}
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
            connection.request("POST", "/v1/chat/completions", json.dumps(body))
            response = json.loads(connection.getresponse().read())
            connection.close()
            message = response["choices"][0]["message"]
            answers.append((message.get("reasoning_content"), message["content"],
                            response["usage"]["completion_tokens_details"]["reasoning_tokens"]))
        return answers
    finally:
        server.terminate()
        server.wait()


def compare_generations(a):
    print("| table | questions | reasoning tokens, without table | reasoning changed, off / on inside it | answers changed, off / on | "
          "reasoning tokens, on |")
    print("|---|---:|---:|---:|---:|---:|")
    for domain in DOMAINS:
        table = os.path.join(a.texts, f"{domain}.engr")
        questions = sentences(read_documents(a, domain), a.generations)
        none, off, on = (generations(a, questions, *flags) for flags in
                         ((), ("--engram", table), ("--engram", table, "--engram-thinking")))

        def changed(answers, part):
            return sum(x[part] != y[part] for x, y in zip(none, answers))

        def mean(answers):
            return statistics.mean(t[2] for t in answers)
        print(f"| {domain} | {len(questions)} | {mean(none):.1f} | {changed(off, 0)} / {changed(on, 0)} | "
              f"{changed(off, 1)} / {changed(on, 1)} | {mean(on):.1f} |", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("chimere")
    p.add_argument("model")
    p.add_argument("texts")
    p.add_argument("evaluation")
    p.add_argument("--bytes", type=int, default=36_000)
    p.add_argument("--generations", type=int, default=0)
    a = p.parse_args()
    if a.generations > 0:
        compare_generations(a)
        return
    print("| table | n-grams | built in | text | tokens | off | always (Kneser-Ney) | gated | mean weight |")
    print("|---|---:|---:|---|---:|---:|---:|---:|---:|")
    for domain in DOMAINS:
        table = os.path.join(a.texts, f"{domain}.engr")
        built = run(a.chimere, "engram", "build", "-m", a.model, "-o", table, os.path.join(a.texts, f"{domain}.docs"), "--json")
        for name in (domain, "heldout"):
            text = "\n".join(read_documents(a, name)).encode()[:a.bytes].decode(errors="ignore")
            with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as f:
                f.write(text)
                f.flush()
                r = run(a.chimere, "engram", "eval", "-m", a.model, table, "-f", f.name, "--json")
            print(f"| {domain} | {built['ngrams'] / 1e6:.1f} M | {built['seconds']:.0f} s | {name} | {r['tokens']:,} | "
                  f"{r['off']['perplexity']:.2f} | {100 * r['always']['change']:+.1f}% | {100 * r['gated']['change']:+.1f}% | "
                  f"{r['mean_weight']:.2f} |", flush=True)


if __name__ == "__main__":
    main()
