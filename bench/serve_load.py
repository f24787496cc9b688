#!/usr/bin/env python3
"""Load on a server that speaks OpenAI's API, from one process (asyncio, no packages).

  bench/serve_load.py http://127.0.0.1:8080 [http://127.0.0.1:8081 ...]
      [--clients 1,8,32] [--tokens 128] [--turns 4] [--long 4096] [--idle 1000] [--streams 64] [--seconds 600]
      [--parts decode,turns,gap,idle] [--pid PID]

Prints one JSON document for each address: several servers (ours, llama-server) run in turn, in the same run, on the same
file. Parts:
  decode  tokens a second in all, with 1, 8 and 32 clients that each stream one reply
  turns   time to the first token of each turn of one growing chat
  gap     the worst and the median time between tokens of 8 streams while a prompt of --long tokens arrives
  idle    --idle connections that say nothing and --streams that stream for --seconds; errors, and the process's memory
          (--pid, Linux)
"""
import argparse
import asyncio
import json
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
        """Sends a request; yields the time and the parsed event of each piece."""
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
                    yield time.perf_counter(), json.loads(event[6:])
        await self.reader.readline()


def has_text(event):
    choice = (event.get("choices") or [{}])[0]
    delta = choice.get("delta", choice)
    return bool(delta.get("content") or delta.get("reasoning_content") or delta.get("text"))


def completion(tokens, words=16):
    return {"prompt": " ".join(WORDS[i % len(WORDS)] for i in range(words)), "max_tokens": tokens, "temperature": 1,
            "stream_options": {"include_usage": True}}


async def run_one(address, key, body):
    """Times of the pieces with text, and the tokens that the server counted."""
    client = Client(address, key)
    times, tokens = [], 0
    async for at, event in client.stream("/v1/completions", body):
        if has_text(event):
            times.append(at)
        tokens = (event.get("usage") or {}).get("completion_tokens", tokens)
    client.close()
    return times, tokens


async def decode(address, args):
    out = []
    for clients in args.clients:
        start = time.perf_counter()
        results = await asyncio.gather(*(run_one(address, args.key, completion(args.tokens)) for _ in range(clients)))
        seconds = time.perf_counter() - start
        tokens = sum(t for _, t in results)
        first = statistics.median(times[0] - start for times, _ in results if times)
        out.append({"clients": clients, "tokens": tokens, "tok_s": round(tokens / seconds, 1),
                    "median_first_ms": round(first * 1000, 1)})
    return out


async def turns(address, args):
    client = Client(address, args.key)
    messages, out = [], []
    for turn in range(args.turns):
        words = args.long if turn == 0 else 16
        messages.append({"role": "user", "content": completion(1, words)["prompt"]})
        start, first, text, usage = time.perf_counter(), None, "", {}
        body = {"messages": messages, "max_tokens": 32, "temperature": 0, "stream_options": {"include_usage": True}}
        async for at, event in client.stream("/v1/chat/completions", body):
            if has_text(event):
                first = first or at
                text += event["choices"][0]["delta"].get("content") or ""
            usage = event.get("usage") or usage
        messages.append({"role": "assistant", "content": text or "."})
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        out.append({"prompt_tokens": usage.get("prompt_tokens"), "cached_tokens": cached,
                    "first_ms": round(((first or time.perf_counter()) - start) * 1000, 1)})
    client.close()
    return out


async def gap(address, args):
    streams = [asyncio.create_task(run_one(address, args.key, completion(4 * args.tokens))) for _ in range(8)]
    await asyncio.sleep(1)
    arrived = time.perf_counter()
    await run_one(address, args.key, completion(1, args.long))
    answered = time.perf_counter()
    before, during = [], []
    for times, _ in await asyncio.gather(*streams):
        for a, b in zip(times, times[1:]):
            (during if b > arrived and a < answered else before).append(b - a)
    if not before or not during:
        return {"note": "the streams ended before the prompt came: raise --tokens"}
    return {"median_ms": round(statistics.median(before) * 1000, 2), "worst_ms": round(max(during) * 1000, 2),
            "ratio": round(max(during) / statistics.median(before), 2)}


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
    end, errors, memory = time.monotonic() + args.seconds, [], []

    async def keep_streaming():
        while time.monotonic() < end:
            try:
                await run_one(address, args.key, completion(args.tokens))
            except Exception as error:  # any failure counts
                errors.append(repr(error))
                await asyncio.sleep(1)

    async def watch():
        while args.pid and time.monotonic() < end:
            memory.append(resident_bytes(args.pid))
            await asyncio.sleep(min(10, args.seconds / 10))

    await asyncio.gather(watch(), *(keep_streaming() for _ in range(args.streams)))
    for client in held:
        client.close()
    return {"errors": len(errors), "first_errors": errors[:3], "resident_bytes": memory}


async def main():
    numbers = lambda text: [int(n) for n in text.split(",")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("addresses", nargs="+")
    parser.add_argument("--clients", type=numbers, default=[1, 8, 32])
    for name, value in (("tokens", 128), ("turns", 4), ("long", 4096), ("idle", 1000), ("streams", 64),
                        ("seconds", 600), ("pid", 0)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--key", default="")
    parser.add_argument("--parts", default="decode,turns,gap")
    args = parser.parse_args()
    parts = {"decode": decode, "turns": turns, "gap": gap, "idle": idle}
    for address in args.addresses:
        out = {"address": address}
        for part in args.parts.split(","):
            out[part] = await parts[part](address, args)
        print(json.dumps(out), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
