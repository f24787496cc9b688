#!/usr/bin/env python3
"""Load on a server that speaks OpenAI's API, from one process (asyncio, no packages).

  bench/serve_load.py http://127.0.0.1:8080 [http://127.0.0.1:8081 ...]
      [--clients 1,8,32] [--tokens 128] [--rounds 4] [--turns 4] [--long 4096] [--pause 1] [--chat FILE]
      [--idle 1000] [--streams 64] [--seconds 600] [--parts decode,turns,gap,idle,resume] [--pid PID]

Prints one JSON document for each address: several servers (ours, llama-server) run in turn, in the same run, on the same
file. Parts:
  decode  total tokens a second with 1, 8 and 32 clients that each stream --rounds generations; and of one stream between its
          first and its last piece
  turns   TTFT of each turn of one growing chat that begins with --long tokens, --pause seconds apart, and the time that
          the uncached tokens take at the first turn's rate; the chat is saved in --chat
  resume  the next turn of the chat in --chat after a restart of the server
  gap     the worst and the median time between tokens of 8 streams while a prompt of --long tokens arrives
  idle    --idle silent connections and --streams that stream for --seconds; errors, and the process's memory
          (--pid, Linux)
"""
import argparse
import asyncio
import json
import re
import statistics
import time
import urllib.parse

WORDS = "The list command prints names of files and folders in the order of their letters or times . ".split()


class Client:
    """One connection; one request at a time."""

    def __init__(self, address, key):
        self.url = urllib.parse.urlsplit(address)
        self.key = key
        self.reader = self.writer = None

    async def open(self):
        self.reader, self.writer = await asyncio.open_connection(self.url.hostname, self.url.port)

    def close(self):
        if self.writer:
            self.writer.close()

    async def stream(self, path, body):
        """Sends a request; yields the time and the bytes of each event."""
        if self.writer is None:
            await self.open()
        data = json.dumps({**body, "stream": True}).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {self.url.netloc}\r\nContent-Type: application/json\r\n"
        if self.key:
            head += f"Authorization: Bearer {self.key}\r\n"
        self.writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        await self.writer.drain()
        status = (await self.reader.readline()).split()[1]
        while (await self.reader.readline()).strip():
            pass
        if status != b"200":
            raise RuntimeError(f"status {status.decode()}")
        held = b""
        while size := int((await self.reader.readline()).strip(), 16):
            held += (await self.reader.readexactly(size + 2))[:-2]
            *whole, held = held.split(b"\n\n")
            for event in whole:
                if event.startswith(b"data: ") and event != b"data: [DONE]":
                    yield time.perf_counter(), event[6:]
        await self.reader.readline()


# Parsing every event would make this client the bottleneck.
TEXT = re.compile(rb'"(?:content|reasoning_content|text)": ?"[^"]')


def has_text(event):
    return TEXT.search(event) is not None


def usage_of(event):
    return (json.loads(event).get("usage") or {}) if b'"usage":' in event and b'"usage":null' not in event else {}


def words(n):
    return " ".join(WORDS[i % len(WORDS)] for i in range(n))


def completion(tokens, prompt=None):
    return {"prompt": prompt or words(16), "max_tokens": tokens, "temperature": 1,
            "stream_options": {"include_usage": True}}


async def run_one(address, key, body):
    """Times of the pieces with text, and the tokens that the server counted."""
    client = Client(address, key)
    times, tokens = [], 0
    try:
        async for at, event in client.stream("/v1/completions", body):
            if has_text(event):
                times.append(at)
            tokens = usage_of(event).get("completion_tokens", tokens)
    finally:
        client.close()
    return times, tokens


async def decode(address, args):
    out = []

    async def client(number):
        tokens, first, rates = 0, [], []
        for i in range(args.rounds):
            begun = time.perf_counter()
            body = {**completion(args.tokens), "seed": 1000 * number + i}
            times, n = await run_one(address, args.key, body)
            tokens += n
            first += [at - begun for at in times[:1]]
            if len(times) > 8:
                rates.append((len(times) - 1) / (times[-1] - times[0]))
        return tokens, first, rates

    await client(0)  # not counted
    for clients in args.clients:
        start = time.perf_counter()
        results = await asyncio.gather(*(client(i) for i in range(clients)))
        seconds = time.perf_counter() - start
        tokens = sum(t for t, _, _ in results)
        first = statistics.median(at for _, firsts, _ in results for at in firsts)
        rates = [rate for _, _, of_client in results for rate in of_client]
        out.append({"clients": clients, "tokens": tokens, "tok_s": round(tokens / seconds, 1),
                    "stream_tok_s": round(statistics.median(rates), 1) if rates else None,
                    "median_first_ms": round(first * 1000, 1)})
    return out


async def ask(client, messages):
    """One turn: its time to the first token in ms, its text and its usage."""
    start, first, text, usage = time.perf_counter(), None, "", {}
    body = {"messages": messages, "max_tokens": 32, "temperature": 0, "stream_options": {"include_usage": True}}
    async for at, event in client.stream("/v1/chat/completions", body):
        if has_text(event):
            first = first or at
            text += json.loads(event)["choices"][0]["delta"].get("content") or ""
        usage = usage_of(event) or usage
    return ((first or time.perf_counter()) - start) * 1000, text, usage


def turn_report(first_ms, usage, token_ms, allowance_ms):
    """`token_ms`: milliseconds of a prompt token; None: this turn measures it."""
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
    uncached = usage["prompt_tokens"] - cached
    out = {"prompt_tokens": usage["prompt_tokens"], "cached_tokens": cached, "first_ms": round(first_ms, 1)}
    if token_ms is not None:
        out["uncached_cost_ms"] = round(uncached * token_ms, 1)
        out["target_ms"] = round(1.2 * uncached * token_ms + allowance_ms, 1)
    return out


async def turns(address, args):
    client = Client(address, args.key)
    messages, out, token_ms = [], [], None
    for turn in range(args.turns):
        text = words(16)
        if turn == 0:
            text = words(args.long - 64)  # about a token each; the rest is the template's
        elif args.pause:
            await asyncio.sleep(args.pause)
        messages.append({"role": "user", "content": text})
        first_ms, text, usage = await ask(client, messages)
        messages.append({"role": "assistant", "content": text or "."})
        out.append(turn_report(first_ms, usage, token_ms, 20))
        if turn == 0:
            token_ms = first_ms / usage["prompt_tokens"]
    client.close()
    if args.chat:
        await asyncio.sleep(args.pause)
        with open(args.chat, "w", encoding="utf-8") as file:
            json.dump({"messages": messages, "token_ms": token_ms}, file)
    return out


async def resume(address, args):
    with open(args.chat, encoding="utf-8") as file:
        chat = json.load(file)
    client = Client(address, args.key)
    messages = [*chat["messages"], {"role": "user", "content": words(16)}]
    first_ms, _, usage = await ask(client, messages)
    client.close()
    return turn_report(first_ms, usage, chat["token_ms"], 170)


async def gap(address, args):
    """Streams are read until the prompt is answered, then left."""
    times = [[] for _ in range(8)]

    async def stream(number):
        client = Client(address, args.key)
        try:
            body = {**completion(32 * args.tokens), "seed": number}
            async for at, event in client.stream("/v1/completions", body):
                if has_text(event):
                    times[number].append(at)
        finally:
            client.close()

    streams = [asyncio.create_task(stream(i)) for i in range(8)]
    await asyncio.sleep(1)
    arrived = time.perf_counter()
    salt = time.time_ns() // 1000  # a prompt that no cache has
    prompt = [300 + (i * 7919 + salt) % 3000 for i in range(args.long)]
    await run_one(address, args.key, completion(1, prompt))
    answered = time.perf_counter()
    alive = sum(not s.done() for s in streams)
    for task in streams:
        task.cancel()
    await asyncio.gather(*streams, return_exceptions=True)
    before, during = [], []
    for one in times:
        for a, b in zip(one, one[1:]):
            if b < arrived:
                before.append(b - a)
            elif a < answered:
                during.append(b - a)
    if not before or not during:
        return {"note": "the streams ended before the prompt came"}
    ms = lambda seconds: round(seconds * 1000, 2)
    middle = statistics.median(before)
    during.sort()
    return {"median_ms": ms(middle), "worst_before_ms": ms(max(before)), "median_during_ms": ms(statistics.median(during)),
            "p99_during_ms": ms(during[len(during) * 99 // 100]), "worst_ms": ms(during[-1]),
            "ratio": round(during[-1] / middle, 2), "prompt_ms": ms(answered - arrived), "alive": alive}


def resident_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return None


async def idle(address, args):
    held = [Client(address, args.key) for _ in range(args.idle)]
    for client in held:
        await client.open()
    end, errors, memory, generations = time.monotonic() + args.seconds, [], [], []

    async def keep_streaming():
        while time.monotonic() < end:
            try:
                times, _ = await run_one(address, args.key, completion(args.tokens))
                generations.append(len(times))
            except Exception as error:  # any failure counts
                errors.append(repr(error))
                await asyncio.sleep(1)

    async def watch():
        while args.pid and time.monotonic() < end:
            memory.append(resident_bytes(args.pid))
            await asyncio.sleep(min(10, args.seconds / 10))

    await asyncio.gather(watch(), *(keep_streaming() for _ in range(args.streams)))
    lost = 0
    for client in held:  # one that the server has closed is at its end
        lost += client.reader.at_eof()
        client.close()
    return {"generations": len(generations), "tokens": sum(generations), "idle_closed": lost, "errors": len(errors), "first_errors": errors[:3], "resident_bytes": memory}


async def main():
    numbers = lambda text: [int(n) for n in text.split(",")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("addresses", nargs="+")
    parser.add_argument("--clients", type=numbers, default=[1, 8, 32])
    for name, value in (("tokens", 128), ("rounds", 4), ("turns", 4), ("long", 4096), ("idle", 1000), ("streams", 64),
                        ("seconds", 600), ("pid", 0)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--pause", type=float, default=1)
    parser.add_argument("--chat", default="")
    parser.add_argument("--key", default="")
    parser.add_argument("--parts", default="decode,turns,gap")
    args = parser.parse_args()
    parts = {"decode": decode, "turns": turns, "resume": resume, "gap": gap, "idle": idle}
    for address in args.addresses:
        out = {"address": address}
        for part in args.parts.split(","):
            out[part] = await parts[part](address, args)
        print(json.dumps(out), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
