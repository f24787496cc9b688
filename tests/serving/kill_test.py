#!/usr/bin/env python3
"""Kills servers with SIGKILL while they answer and write their prefix cache: each later server on the same state folder must
start, and give the same answers as one without a cache.

  kill_test.py CHIMERE MODEL [KILLS]
"""
import json
import os
import random
import sys
import tempfile
import threading
import time

from server import Server

CHIMERE, MODEL = sys.argv[1:3]
KILLS = int(sys.argv[3]) if len(sys.argv) > 3 else 20
SEED = int(os.environ.get("TEST_SEED", random.randrange(1 << 32)))
CHAT = "/v1/chat/completions"
WORDS = "list print file folder name order time copy move link user group size mode owner".split()


def chats(rng):
    """Conversations with common prefixes, so that states are shared and diverge."""
    system = {"role": "system", "content": " ".join(rng.choice(WORDS) for _ in range(150))}
    out = []
    for _ in range(6):
        messages = [system]
        for turn in range(rng.randrange(1, 4)):
            if turn:
                messages.append({"role": "assistant", "content": " ".join(rng.choice(WORDS) for _ in range(20))})
            messages.append({"role": "user", "content": " ".join(rng.choice(WORDS) for _ in range(rng.randrange(5, 120)))})
        out.append({"messages": messages, "temperature": 1, "seed": rng.randrange(1000), "max_tokens": 12,
                    "logprobs": True})
    return out


def answer(server, chat):
    """Its choices, with their log-probabilities, and how much of the prompt was kept. Whether a token was drafted depends on
    measured times."""
    response = server.post(CHAT, chat)
    for choice in response["choices"]:
        for token in choice["logprobs"]["content"]:
            token.pop("from_draft", None)
    return response["choices"], response["usage"]["prompt_tokens_details"]["cached_tokens"]


def press(server, asked, until):
    """Sends requests until the server has exited."""
    rng = random.Random(until)
    while True:
        try:
            answer(server, rng.choice(asked))
        except (OSError, AssertionError, ValueError):
            return
        except Exception as error:  # of http.client, when the server dies in the midst of an answer
            assert type(error).__module__ == "http.client", error
            return
        time.sleep(rng.random() * 0.05)  # idle time for prefix-cache warm-ups and file writes


def main():
    print("seed", SEED)
    rng = random.Random(SEED)
    asked = chats(rng)
    cold = Server(CHIMERE, MODEL, "--prefix-states", 0)
    expected = [answer(cold, chat)[0] for chat in asked]
    assert cold.close() == 0
    kept = 0
    with tempfile.TemporaryDirectory() as folder:
        for kill in range(KILLS + 1):
            server = Server(CHIMERE, MODEL, "--state-folder", folder, "--prefix-states", 8, "--prefix-memory", 1)
            try:
                for chat, choices in zip(asked, expected):
                    got, cached = answer(server, chat)
                    kept += cached if kill else 0
                    if got != choices:
                        print(json.dumps(got), json.dumps(choices), server.log(), sep="\n")
                        raise AssertionError(f"another answer after {kill} kills")
                threads = [threading.Thread(target=press, args=(server, asked, rng.random())) for _ in range(3)]
                for thread in threads:
                    thread.start()
                time.sleep(rng.random() * 0.4)
            finally:
                server.process.kill()
                server.process.wait()
                server.process.stdout.close()
            for thread in threads:
                thread.join()
    assert kept > 0, "no cached state was ever used; this run proves nothing"
    print(f"{KILLS} kills, {kept} cached tokens")


if __name__ == "__main__":
    main()
