"""LoRA adapters in `chimere serve`, `run` and `inspect`.
lora_test.py CHIMERE WRITE_TINY_MODEL WRITE_TINY_ADAPTER"""
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from server import Server, environment

CHIMERE, WRITE_MODEL, WRITE_ADAPTER = sys.argv[1:4]
PROMPT = "The quick brown fox jumps over the lazy dog, again and again and again." * 3


def chimere(*args, ok=True):
    done = subprocess.run([CHIMERE, *map(str, args)], capture_output=True, text=True,
                          env=environment(tempfile.gettempdir()))
    assert (done.returncode == 0) == ok, done.stderr
    return done.stdout if ok else done.stderr


class LoraTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        root = pathlib.Path(cls.folder.name)
        cls.model = root / "base.gguf"
        subprocess.run([WRITE_MODEL, cls.model, "300", "7"], check=True)
        cls.adapters = []
        for i in range(8):
            cls.adapters.append(root / f"a{i}.gguf")
            subprocess.run([WRITE_ADAPTER, cls.model, cls.adapters[-1], str(i), str(2 + i)], check=True)
        cls.other = root / "other.gguf"
        subprocess.run([WRITE_MODEL, root / "llama.gguf", "llama", "1"], check=True)
        subprocess.run([WRITE_ADAPTER, root / "llama.gguf", cls.other, "1"], check=True)
        lora = ",".join(f"{a}=0" if i > 0 else str(a) for i, a in enumerate(cls.adapters))
        cls.server = Server(CHIMERE, cls.model, "--lora", lora, backend="cpu")
        cls.plain = Server(CHIMERE, cls.model, backend="cpu")

    @classmethod
    def tearDownClass(cls):
        cls.server.close()
        cls.plain.close()
        cls.folder.cleanup()

    def ask(self, server=None, status=200, path="/v1/completions", method="POST", body=None, **more):
        connection = (server or self.server).connect()
        if body is None:
            body = {"prompt": PROMPT, "max_tokens": 12, "temperature": 0, "logprobs": 1, **more}
        connection.request(method, path, json.dumps(body) if method == "POST" else None)
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        self.assertEqual(response.status, status, text)
        return json.loads(text)

    def text(self, server=None, **more):
        """The tokens' log-probabilities, in which all bits of the logits show."""
        choice = self.ask(server, **more)["choices"][0]
        return choice["text"], choice["logprobs"]["token_logprobs"]

    def test_requests_choose_adapters(self):
        base = self.text(self.plain)
        self.assertEqual(self.text(lora=[]), base)
        first = self.text()  # the server's default
        self.assertNotEqual(first, base)
        for same in ({"lora": [{"id": 0, "scale": 1}]}, {"lora": ["a0"]}, {"model": "a0"},
                     {"model": "base:a0"}, {"model": "base"}, {"lora": [{"name": "a0"}]}):
            self.assertEqual(self.text(**same), first, same)
        second = self.text(model="base:a1")
        self.assertEqual(self.text(lora=[{"id": 1}]), second)
        self.assertEqual(self.text(lora=[{"id": 1}, {"id": 0, "scale": 0}]), second)
        self.assertNotIn(second, (base, first))
        for name in ("base:a1", "a1", "base"):
            self.assertEqual(self.ask(model=name)["model"], name)
        both = self.text(lora=[{"id": 0, "scale": 0.5}, {"id": 1, "scale": 2}])
        self.assertEqual(self.text(lora=[{"id": 1, "scale": 2}, {"id": 0, "scale": 0.5}]), both)
        self.assertNotIn(both, (base, first, second))

    def test_eight_adapters_in_a_batch(self):
        asked = [{"lora": [f"a{i}"], "use_cache": False} for i in range(8)] + [{"lora": []}]
        for more in asked:
            more["prompt"] = PROMPT + str(more["lora"])
        alone = [self.text(**{k: v for k, v in more.items() if k != "use_cache"}) for more in asked]
        with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
            for more in asked:
                more["cache_prompt"] = False
                more.pop("use_cache", None)
            together = list(pool.map(lambda more: self.text(**more), asked))
        self.assertEqual(together, alone)

    def test_adapters_share_no_cache_entry(self):
        prompt = "A prompt of its own, long enough to fill more than one chunk of rows. " * 4

        def cached(**more):
            return self.ask(prompt=prompt, **more)["usage"]["prompt_tokens_details"]["cached_tokens"]

        self.assertEqual(cached(lora=["a2"]), 0)
        self.assertGreater(cached(lora=["a2"]), 0)
        self.assertEqual(cached(lora=["a3"]), 0)
        self.assertEqual(cached(lora=[{"name": "a2", "scale": 0.5}]), 0)
        self.assertEqual(cached(lora=[]), 0)
        self.assertGreater(cached(model="a2"), 0)

    def test_lists_and_scales(self):
        names = {m["id"]: m for m in self.ask(path="/v1/models", method="GET")["data"]}
        self.assertEqual(names["base:a3"]["parent"], "base")
        one = self.ask(path="/v1/models/a3", method="GET")
        self.assertEqual(one["id"], "base:a3")
        listed = self.ask(path="/lora-adapters", method="GET")
        self.assertEqual([a["id"] for a in listed], list(range(8)))
        self.assertEqual([a["scale"] for a in listed], [1] + 7 * [0])
        self.assertEqual(listed[2]["name"], "a2")
        with Setting(self):
            self.ask(path="/lora-adapters", body=[{"id": 2, "scale": 0.5}])
            self.assertEqual([a["scale"] for a in self.ask(path="/lora-adapters", method="GET")],
                             [0, 0, 0.5] + 5 * [0])
            self.assertEqual(self.text(), self.text(lora=[{"id": 2, "scale": 0.5}]))

    def test_mistakes(self):
        for lora in ([{"id": 8}], ["none"], ["a0", {"id": 0}], "a0", [{"scale": 1}], [1], {}):
            error = self.ask(status=400, lora=lora)["error"]
            self.assertEqual(error["param"], "lora", lora)
        self.assertEqual(self.ask(status=400, model="a0", lora=["a1"])["error"]["param"], "lora")
        self.ask(status=404, model="base:none")
        self.ask(status=400, path="/lora-adapters", body=[{"id": 99, "scale": 1}])
        self.ask(status=400, path="/lora-adapters", body={"id": 0})
        self.assertIn("--lora", self.ask(self.plain, status=400, lora=["a0"])["error"]["message"])

    def test_commands(self):
        common = ("run", "-m", self.model, "--raw", "-p", PROMPT, "--temp", "0", "--max-tokens", "12",
                  "--json", "--backend", "cpu")
        base = json.loads(chimere(*common))["ids"]
        one = json.loads(chimere(*common, "--lora", self.adapters[1]))["ids"]
        both = json.loads(chimere(*common, "--lora", f"{self.adapters[1]}=0.5", "--lora", self.adapters[2]))["ids"]
        none = json.loads(chimere(*common, "--lora", f"{self.adapters[1]}=0"))["ids"]
        self.assertEqual(none, base)
        self.assertNotEqual(one, base)
        self.assertNotEqual(both, one)
        self.assertIn("architecture", chimere(*common, "--lora", self.other, ok=False))
        self.assertIn("not an adapter", chimere(*common, "--lora", self.model, ok=False))
        self.assertIn("adapter", chimere("run", "-m", self.adapters[0], "-p", "a", ok=False))
        told = json.loads(chimere("inspect", "--json", self.adapters[3]))["adapter"]
        self.assertEqual((told["least_rank"], told["most_rank"], told["alpha"]), (5, 5, 8))
        self.assertIn("LoRA adapter", chimere("inspect", self.adapters[3]))


class Setting:
    """Restores the server's scales."""

    def __init__(self, test):
        self.test = test

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.test.ask(path="/lora-adapters", body=[{"id": 0, "scale": 1}])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
