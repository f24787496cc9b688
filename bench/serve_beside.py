#!/usr/bin/env python3
"""Hostile grammars, patterns, schemas and tools beside a stream and plain questions: what do these two notice?

  bench/serve_beside.py CHIMERE MODEL [--seconds 3] [--kinds NAME ...] [--threads N]

Starts `chimere serve` on MODEL. A stream and plain questions run alone first, then beside requests of each kind, which one
client sends in turn (the last kind: six clients, six kinds at once), each with a body that the server has not seen. Each kind
runs twice: with its constraint, and without it (about the same prompt and the same number of tokens); one whose requests are
all refused is compared with no other requests at all. One line for each kind:

  answers   statuses of the hostile requests, and how many streams ended with an error ("error") or were cut off by the
            bench's end ("open")
  median    median time between two pieces of the stream, in ms: without the constraint, then with it
  largest   the largest one, likewise
  first     median time to the first token of a plain question, likewise, in ms
  gap       largest with the constraint / without it
  wait      first with the constraint / without it

Exits with 1 if a kind's gap exceeds 3 or its wait 2. A stream's own median is no measure for its gaps: pieces of a small model
arrive in bundles. The hostile clients are a process of their own; as root, the client that measures has a real-time priority,
so that its times are those of the server.
"""
import argparse
import asyncio
import collections
import contextlib
import itertools
import json
import multiprocessing
import os
import pathlib
import statistics
import sys
import time

from serve_load import Client, has_text

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tests/serving"))
from server import Server  # noqa: E402

MOST_GAP, MOST_WAIT = 3, 2
SIX = "six at once"
QUESTION = "What is the capital of France?"
FILES = "Explain how files, folders and permissions work on Linux, with many examples."


def chat(question, tokens, **fields):
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": question}], "max_tokens": tokens,
                                    "temperature": 1, "reasoning_effort": "none", **fields}


def without_constraint(path, body):
    """About the same prompt and the same number of tokens; tools become a text."""
    left = {key: value for key, value in body.items()
            if key not in ("grammar", "structured_outputs", "response_format", "tools", "tool_choice")}
    if "tools" in body:
        left["messages"] = [{"role": "system", "content": "\n".join(map(json.dumps, body["tools"]))}, *body["messages"]]
    return path, left


def grammar(text):
    return lambda n: chat("Write letters.", 64, grammar=text.replace("NUMBER", str(n)))


def pattern(text):
    return lambda n: chat("Write letters.", 64, structured_outputs={"regex": text.replace("NUMBER", str(n))})


def schema(make):
    return lambda n: chat("Write a document.", 64, response_format={
        "type": "json_schema", "json_schema": {"name": f"n{n}", "schema": {"title": f"n{n}", **make()}}})


def one_of_objects():
    return {"oneOf": [{"type": "object", "properties": {f"k{i}": {"type": "string", "minLength": i}, "common": {
        "type": "integer", "multipleOf": i + 2}}, "required": [f"k{i}"]} for i in range(20)]}


def patterns_of_all():
    return {"type": "string", "allOf": [{"pattern": f"(a|b|c)*{c}(a|b|c){{{i}}}"} for i, c in enumerate("abcabcabcabc", 3)]}


def large_enum():
    return {"enum": [f"value {i * 7919 % 10007} of {i}" for i in range(10000)]}


def unique_and_contains():
    return {"type": "array", "uniqueItems": True, "minItems": 5, "items": {"enum": [*range(40)]},
            "allOf": [{"contains": {"multipleOf": i}, "minContains": 2, "maxContains": 4} for i in (2, 3, 5, 7)]}


def nested_not():
    made = {"type": "integer", "multipleOf": 7}
    for i in range(12):
        made = {"anyOf": [{"not": made}, {"not": {"anyOf": [{"required": [f"a{i}"]}, {"multipleOf": 11 + i}]}}]}
    return made


def refused_divisors():
    return {"anyOf": [{"not": {"multipleOf": d}} for d in (997, 991, 983, 977, 971, 967)],
            "allOf": [{"not": {"multipleOf": d}} for d in (953, 947, 941, 937)], "type": "integer"}


def tools(n):
    made = [{"type": "function", "function": {
        "name": f"tool_{n}_{i}", "description": "A tool.", "parameters": {
            "type": "object", "required": ["path", "mode"], "properties": {
                "path": {"type": "string", "pattern": f"^/[a-z]+/{i}"}, "mode": {"enum": ["read", "write", f"m{i}"]},
                "limits": {"type": "array", "items": {"type": "integer", "maximum": i}}}}}} for i in range(128)]
    return chat("Read a file.", 64, tools=made, tool_choice="required")


OVERLAP = 'root ::= (word | number | text)+ # NUMBER\nword ::= [a-z]+ | [a-zA-Z ]*\nnumber ::= [0-9a-f]+ "." | [0-9]*\n' \
          'text ::= [^"]* | "a" text "b"'
AMBIGUOUS = 'root ::= s # NUMBER\ns ::= s s s | s s | "a" | "b" | [a-z]'
KINDS = {
    "ambiguous grammar": grammar(AMBIGUOUS),
    "overlapping terminals": grammar(OVERLAP),
    "nested repetitions": pattern(r"(a{0,1000}){0,1000}|NUMBER"),
    "ambiguous pattern": pattern(r"(a|aa|[a-z]{2,40})+$|NUMBER"),
    "classes of Unicode": pattern(r"(\p{L}+\p{N}*|[^\p{Lu}]{3,300}\s){1,200}|NUMBER"),
    "oneOf of 20 objects": schema(one_of_objects),
    "allOf of patterns": schema(patterns_of_all),
    "enum of 10,000": schema(large_enum),
    "uniqueItems, contains": schema(unique_and_contains),
    "nested not, anyOf": schema(nested_not),
    "divisors": schema(refused_divisors),
    "128 tools": tools,
}
AT_ONCE = ("ambiguous grammar", "overlapping terminals", "classes of Unicode", "divisors", "nested not, anyOf", "128 tools")


async def post(port, path, body, answers):
    """A streamed hostile request; counts how it ends."""
    client, counted = Client(f"http://127.0.0.1:{port}", ""), "open"
    try:
        end = "200"
        async for _, event in client.stream(path, body):
            if event.startswith(b'{"error"'):
                end = "error"
        counted = end
    except RuntimeError as refused:  # "status N"
        counted = str(refused).split()[1]
    except (OSError, IndexError):
        counted = "lost"
    finally:
        answers[counted] += 1
        client.close()


async def hostile(port, make, change, numbers, answers):
    while True:
        await post(port, *change(*make(next(numbers))), answers)


def same(path, body):
    return path, body


def hostile_process(port, names, change, first, seconds, results):
    answers = collections.Counter()
    numbers = itertools.count(first)
    asyncio.run(together(seconds, *(hostile(port, KINDS[name], change, numbers, answers) for name in names)))
    results.send(answers)


async def stream(port, times):
    """One stream after the other, each of 1,000 tokens; the times of its pieces."""
    while True:
        client = Client(f"http://127.0.0.1:{port}", "")
        times.append([])
        try:
            async for at, event in client.stream("/v1/completions", {"prompt": FILES, "max_tokens": 1000, "temperature": 1,
                                                                     "logit_bias": {"0": 0}, "ignore_eos": True}):
                if has_text(event):
                    times[-1].append(at)
        finally:
            client.close()


async def questions(port, firsts):
    for n in itertools.count():
        client, begun = Client(f"http://127.0.0.1:{port}", ""), time.perf_counter()
        path, body = chat(f"{QUESTION} ({n})", 4)
        try:
            first = None
            async for at, event in client.stream(path, body):
                if first is None and has_text(event):
                    first = at - begun
            if first is not None:
                firsts.append(first)
        finally:
            client.close()
        await asyncio.sleep(0.05)


async def together(seconds, *tasks):
    running = [asyncio.create_task(task) for task in tasks]
    done, _ = await asyncio.wait(running, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    for task in done:
        task.result()  # raises what ended it


def milliseconds(times):
    gaps = [b - a for one in times for a, b in zip(one, one[1:])]
    return [1000 * value for value in (statistics.median(gaps), max(gaps))]


def beside(port, kind, change, first, seconds):
    """Statuses of the other requests, and (median, largest, first) in ms beside them."""
    times, firsts = [], []
    results, sender = multiprocessing.Pipe(False)
    others = multiprocessing.get_context("spawn").Process(target=hostile_process, args=(
        port, AT_ONCE if kind == SIX else [kind], change, first, seconds + 1, sender))
    others.start()
    asyncio.run(together(seconds + 1.5, stream(port, times), questions(port, firsts)))
    answers = " ".join(f"{count}x{status}" for status, count in sorted(results.recv().items()))
    others.join()
    return answers, (*milliseconds(times), 1000 * (statistics.median(firsts) if firsts else seconds + 1.5))


def measure(port, args):
    """The kinds that miss a target."""
    firsts, times, missed = [], [], []
    asyncio.run(together(1, questions(port, []), stream(port, [])))  # not counted
    asyncio.run(together(args.seconds, questions(port, firsts)))
    asyncio.run(together(args.seconds, stream(port, times)))
    alone = (*milliseconds(times), 1000 * statistics.median(firsts))
    print(f"each alone: median {alone[0]:.2f} ms, largest {alone[1]:.1f} ms, first {alone[2]:.1f} ms")
    print(f"{'kind':24} {'answers':>20} {'median':>13} {'largest':>15} {'first':>15} {'gap':>5} {'wait':>5}")
    for at, kind in enumerate(args.kinds or [*KINDS, SIX]):
        answers, constrained = beside(port, kind, same, 100000 * at + 50000, args.seconds)
        # Requests that are all refused are compared with none: without the constraint they would be answered.
        plain = alone if answers.endswith("x400") and " " not in answers else beside(
            port, kind, without_constraint, 100000 * at, args.seconds)[1]
        columns = [f"{a:.{digits}f} {b:.{digits}f}" for a, b, digits in zip(plain, constrained, (2, 1, 1))]
        gap, wait = constrained[1] / plain[1], constrained[2] / plain[2]
        print(f"{kind:24} {answers:>20} {columns[0]:>13} {columns[1]:>15} {columns[2]:>15} {gap:>5.1f} {wait:>5.1f}", flush=True)
        if gap > MOST_GAP or wait > MOST_WAIT:
            missed.append(kind)
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chimere")
    parser.add_argument("model")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--kinds", nargs="+", choices=[*KINDS, SIX])
    parser.add_argument("--threads", type=int)
    args = parser.parse_args()
    server = Server(args.chimere, args.model, **({"threads": args.threads} if args.threads else {}))
    try:
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
        missed = measure(server.port, args)
    finally:
        code = server.close()
    if code != 0:
        sys.exit(f"The server ended with {code}: {server.log()[-2000:]}")
    if missed:
        sys.exit("Missed: " + ", ".join(missed))


if __name__ == "__main__":
    main()
