#!/usr/bin/env python3
"""`chimere pull`, `list` and `rm` with a host that misbehaves (hub_server.py).

  pull_test.py CHIMERE WRITE_TINY_MODEL [unittest arguments]
"""
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

from hub_server import Hub

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from limits import HANG, wait_for  # noqa: E402

CHIMERE, WRITER = (pathlib.Path(arg).absolute() for arg in sys.argv[1:3])
SEED = int(os.environ.get("TEST_SEED", random.randrange(1 << 32)))
FOLDER = tempfile.TemporaryDirectory()
HOME = pathlib.Path(FOLDER.name)
MODELS = HOME / ".local/share/chimere/models"
TOKEN = "hf_secret"


class Pull(unittest.TestCase):
    def setUp(self):
        self.hub = Hub()
        self.draw = random.Random(SEED)
        shutil.rmtree(MODELS, ignore_errors=True)
        self.big = self.draw.randbytes(3_000_000)
        self.put("some/Model-GGUF", "Model-8B-Q4_K_M.gguf", self.big)
        self.put("some/Model-GGUF", "Model-8B-Q8_0.gguf", b"eight")

    def put(self, repository, path, data):
        self.hub.files[repository, path] = data

    def environment(self, **extra):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("CHIMERE_", "HF_", "XDG_", "http_", "HTTP_"))}
        return {**kept, "HOME": str(HOME), "HF_ENDPOINT": self.hub.endpoint, **extra}

    def chimere(self, *args, **extra):
        done = subprocess.run([CHIMERE, *map(str, args)], capture_output=True, check=False, text=True,
                              env=self.environment(**extra), timeout=HANG)
        return done

    def pull(self, name, *args, **extra):
        done = self.chimere("pull", name, "--json", *args, **extra)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def refused(self, name, *says, args=(), **extra):
        done = self.chimere("pull", name, *args, **extra)
        self.assertEqual(done.returncode, 1, f"{name}: {done.stdout}{done.stderr}")
        complaint = [line for line in done.stderr.splitlines() if line.startswith("chimere: ")]
        self.assertEqual(len(complaint), 1, done.stderr)
        for part in says:
            self.assertIn(part, complaint[0])
        self.assertEqual(done.stdout, "")
        return complaint[0]

    def cut(self, size):
        """A download that ends after some bytes."""
        self.hub.cut_after = [size]
        self.hub.refuses_after_cut = True
        self.refused("some/Model-GGUF", "403")
        self.assertEqual(self.hub.cut_after, [])
        self.hub.refuses_after_cut = False

    def whole_files(self):
        return sorted(str(p.relative_to(MODELS)) for p in MODELS.rglob("*.gguf"))

    def partial_files(self):
        return sorted(p.name for p in MODELS.rglob(".*.part"))

    def check(self, result, data):
        path = pathlib.Path(result["path"])
        self.assertEqual(path.read_bytes(), data)
        self.assertEqual(subprocess.run(["sha256sum", "-c", path.name + ".sha256"], cwd=path.parent, check=False,
                                        capture_output=True).returncode, 0)
        self.assertEqual(self.partial_files(), [])
        self.assertEqual([p for p in MODELS.rglob("*.etag")], [])

    def test_a_model_is_downloaded_completely_and_once(self):
        result = self.pull("some/Model-GGUF:q4_k_m")
        self.assertEqual((result["name"], result["bytes"], result["downloaded"]), ("some/Model-GGUF/Model-8B-Q4_K_M", 3_000_000, 3_000_000))
        self.check(result, self.big)
        again = self.pull("some/Model-GGUF:Q4_K_M")
        self.assertEqual(again["downloaded"], 0)
        self.assertEqual(self.hub.count("store"), 1)
        # One that was put there by hand is recognised by its contents; a damaged one is replaced.
        path = pathlib.Path(result["path"])
        (path.parent / (path.name + ".sha256")).unlink()
        self.assertEqual(self.pull("some/Model-GGUF")["downloaded"], 0)
        (path.parent / (path.name + ".sha256")).unlink()
        path.write_bytes(b"x" * 3_000_000)
        self.check(self.pull("some/Model-GGUF"), self.big)

    def test_names_of_pulled_models_run(self):
        tiny = HOME / "tiny.gguf"
        subprocess.run([WRITER, tiny, "300"], check=True)
        self.put("own/Tiny", "Tiny-F32.gguf", tiny.read_bytes())
        missing = self.chimere("run", "-m", "own/Tiny", "-p", "x", "-n", 1)
        self.assertEqual(missing.returncode, 1)
        self.assertIn("`chimere pull own/Tiny` downloads it", missing.stderr)
        self.pull("own/Tiny:f32")
        self.assertRegex(self.chimere("list").stdout, r"(?m)^own/Tiny/Tiny-F32 +\S+ [kM]B$")
        for name in ("own/Tiny", "own/Tiny:F32", "own/Tiny/Tiny-F32", "Tiny-F32", "Tiny-F32.gguf"):
            done = self.chimere("run", "-m", name, "-p", "x", "-n", 1, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_list_and_rm(self):
        self.assertIn("chimere pull", self.chimere("list").stderr)
        self.pull("some/Model-GGUF:Q8_0")
        self.pull("some/Model-GGUF:Q4_K_M")
        rows = json.loads(self.chimere("list", "--json").stdout)
        self.assertEqual([(r["name"], r["bytes"], r["partial"]) for r in rows],
                         [("some/Model-GGUF/Model-8B-Q4_K_M", 3_000_000, False), ("some/Model-GGUF/Model-8B-Q8_0", 5, False)])
        self.assertEqual([r["kind"] for r in rows], ["unreadable", "unreadable"])
        self.assertRegex(self.chimere("list").stdout, r"(?m)Model-8B-Q8_0 .*  unreadable$")
        self.assertEqual(self.chimere("rm", "some/Model-GGUF:Q8_0").returncode, 0)
        self.assertEqual(self.chimere("rm", "Model-8B-Q8_0").returncode, 1)
        self.assertEqual(self.chimere("rm", "../../../../etc/passwd").returncode, 1)
        done = self.chimere("rm", "--json", "Model-8B-Q4_K_M")
        self.assertEqual(json.loads(done.stdout)["removed"][0]["bytes"], 3_000_000)
        self.assertEqual(list(MODELS.iterdir()), [])

    def test_the_folder_can_be_elsewhere(self):
        with tempfile.TemporaryDirectory() as elsewhere:
            result = self.pull("some/Model-GGUF:Q8_0", CHIMERE_MODELS=elsewhere)
            self.assertTrue(result["path"].startswith(elsewhere))
            result = self.pull("some/Model-GGUF:Q8_0", XDG_DATA_HOME=elsewhere)
            self.assertTrue(result["path"].startswith(elsewhere + "/chimere/models/"))

    def test_broken_connections_are_resumed(self):
        self.hub.cut_after = [1_000_000, 500_000, 0, 0, 200_000]
        result = self.pull("some/Model-GGUF")
        self.check(result, self.big)
        self.assertEqual(result["downloaded"], 3_000_000)
        ranges = [headers["range"] for server, _, headers in self.hub.requests if server == "store" and "range" in headers]
        self.assertEqual(ranges[0], "bytes=1000000-")
        self.assertTrue(all(headers.get("if-range") == '"one"' for server, _, headers in self.hub.requests
                            if server == "store" and "range" in headers))

    def test_a_later_call_resumes(self):
        self.cut(1_200_000)
        self.assertEqual(self.whole_files(), [])
        self.assertEqual(len(self.partial_files()), 1)
        rows = json.loads(self.chimere("list", "--json").stdout)
        self.assertEqual([(r["bytes"], r["partial"]) for r in rows], [(1_200_000, True)])
        result = self.pull("some/Model-GGUF")
        self.assertEqual(result["downloaded"], 1_800_000)
        self.check(result, self.big)

    def test_control_c_keeps_what_has_come(self):
        self.hub.hold(200_000)
        words = [CHIMERE, "pull", "some/Model-GGUF"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment()) as process:
            wait_for(lambda: any(p.stat().st_size > 100_000 for p in MODELS.rglob(".*.part")), "bytes on the disk")
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=HANG)
        self.assertEqual(process.returncode, 130, err)
        self.assertIn(b"run the same command again", err)
        self.hub.release()
        result = self.pull("some/Model-GGUF")
        self.assertLess(result["downloaded"], 3_000_000)
        self.check(result, self.big)

    def test_a_file_that_changed_starts_over(self):
        self.cut(1_200_000)
        self.hub.etag = '"two"'
        result = self.pull("some/Model-GGUF")
        self.assertEqual(result["downloaded"], 3_000_000)
        self.check(result, self.big)

    def test_a_host_without_ranges(self):
        self.hub.ranges = False
        self.hub.cut_after = [1_000_000]
        result = self.pull("some/Model-GGUF")
        self.check(result, self.big)
        self.assertEqual(result["downloaded"], 4_000_000)

    def test_a_wrong_checksum_is_never_kept(self):
        self.hub.wrong_checksums = True
        self.refused("some/Model-GGUF", "SHA-256 is wrong", "deleted")
        self.assertEqual((self.whole_files(), self.partial_files()), ([], []))

    def test_damage_on_the_disk_is_found(self):
        self.cut(1_000_000)
        part = next(MODELS.rglob(".*.part"))
        part.write_bytes(b"?" + part.read_bytes()[1:])
        self.refused("some/Model-GGUF", "SHA-256 is wrong")
        self.check(self.pull("some/Model-GGUF"), self.big)

    def test_checksums_may_come_with_the_file(self):
        self.hub.checksums_in_list = False
        self.check(self.pull("some/Model-GGUF"), self.big)

    def test_split_models_are_downloaded_completely(self):
        parts = [self.draw.randbytes(200_000) for _ in range(3)]
        for i, data in enumerate(parts, 1):
            self.put("some/Split", f"Q2_K/S-Q2_K-{i:05}-of-00003.gguf", data)
        self.hub.cut_after = [None, 150_000]
        self.hub.refuses_after_cut = True
        self.refused("some/Split:q2_k")
        self.assertNotIn("Q2_K/S-Q2_K-00001-of-00003.gguf", " ".join(self.whole_files()))
        self.assertFalse(any(not r["partial"] for r in json.loads(self.chimere("list", "--json").stdout)))
        result = self.pull("some/Split:q2_k")
        self.assertEqual((result["files"], result["bytes"], result["downloaded"]), (3, 600_000, 250_000))
        for i, data in enumerate(parts, 1):
            self.assertEqual((MODELS / f"some/Split/Q2_K/S-Q2_K-{i:05}-of-00003.gguf").read_bytes(), data)
        self.assertEqual(len(json.loads(self.chimere("list", "--json").stdout)), 1)

    def test_paginated_lists(self):
        self.hub.page = 1
        self.assertEqual(self.pull("some/Model-GGUF:Q8_0")["bytes"], 5)
        self.assertEqual(self.hub.count("endpoint", "cursor=1"), 1)

    def test_an_unknown_quant_lists_the_available_ones(self):
        self.refused("some/Model-GGUF:Q2_K", "It has no Q2_K", "Q4_K_M, Q8_0")
        self.refused("some/Nothing", "no repository some/Nothing", "404")
        self.refused("not-a-name", "OWNER/NAME")

    def test_the_token_stays_at_the_endpoint(self):
        self.hub.token = TOKEN
        self.refused("some/Model-GGUF:Q8_0", "HF_TOKEN")
        self.refused("some/Model-GGUF:Q8_0", "HF_TOKEN", HF_TOKEN="wrong")
        self.pull("some/Model-GGUF:Q8_0", HF_TOKEN=TOKEN)
        self.assertGreater(self.hub.count("store"), 0)
        for server, _, headers in self.hub.requests:
            if server == "store":
                self.assertNotIn("authorization", headers)
        self.refused("some/Model-GGUF:Q8_0", "HF_TOKEN contains characters", HF_TOKEN="a\nX-Evil: 1")

    def test_redirects_lead_to_http_only(self):
        for address in ("file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/"):
            self.hub.redirect = address
            self.refused("some/Model-GGUF:Q8_0", "not allowed")
        self.hub.redirect = f"{self.hub.endpoint}/some/Model-GGUF/resolve/main/Model-8B-Q8_0.gguf"
        self.refused("some/Model-GGUF:Q8_0", "too often")
        self.assertEqual(self.whole_files(), [])

    def test_a_busy_host_is_asked_again(self):
        self.hub.status = {"endpoint": [(429, {"Retry-After": "1"}), (503, {})], "store": [(500, {})]}
        self.check(self.pull("some/Model-GGUF"), self.big)
        self.hub.status = {"endpoint": [(429, {"Retry-After": "3600"})]}
        self.refused("some/Model-GGUF:Q8_0", "limits the rate", "3600 seconds")

    def test_offline(self):
        self.refused("some/Model-GGUF:Q8_0", "--offline", args=("--offline",))
        self.refused("some/Model-GGUF:Q8_0", "--offline", HF_HUB_OFFLINE="1")
        self.assertEqual(self.hub.requests, [])
        self.pull("some/Model-GGUF:Q8_0")
        before = len(self.hub.requests)
        self.assertEqual(self.pull("some/Model-GGUF:q8_0", "--offline")["downloaded"], 0)
        self.assertEqual(len(self.hub.requests), before)

    def test_unreachable_hosts(self):
        self.refused("some/Model-GGUF", "connection", HF_ENDPOINT="http://127.0.0.1:1")
        self.refused("some/Model-GGUF", "address of a model hub", HF_ENDPOINT="nonsense://x")

    def test_hostile_lists_leave_no_files(self):
        def entry(**fields):
            return {"type": "file", "path": "m-Q4_0.gguf", "size": 5, "lfs": {"oid": "0" * 64, "size": 5}, **fields}

        hostile = [b"", b"[", b"null", b'{"error": "x"}', b"[" * 100_000, b"\xff\xfe", b'[{"type": "file"}]',
                   b'[{"type":"file","path":"m.gguf","size":1e99}]']
        for path in ("../../../evil.gguf", "/tmp/evil.gguf", "a/../../evil.gguf", ".evil.gguf", "a\\..\\evil.gguf", "a\u0000b.gguf",
                     "a\nb.gguf", "x" * 300 + ".gguf", "C:evil.gguf"):
            hostile.append(json.dumps([entry(path=path)]).encode())
        for size in (-1, 2**70, "5", None, 2**60):
            hostile.append(json.dumps([entry(size=size, lfs=None)]).encode())
        for i, tree in enumerate(hostile):
            self.hub.trees["some/Evil"] = tree
            self.refused("some/Evil")
            self.assertEqual(self.whole_files(), [], i)
        self.assertEqual(list(HOME.rglob("*evil*")), [])
        # More bytes than the list announced, and less room than it asks for.
        self.put("some/Evil", "m-Q4_0.gguf", b"123456789")
        self.hub.trees["some/Evil"] = json.dumps([entry()]).encode()
        self.refused("some/Evil", "more")
        self.hub.trees["some/Evil"] = json.dumps([entry(size=2**49, lfs={"oid": "1" * 64, "size": 2**49})]).encode()
        self.refused("some/Evil", "too little space", "CHIMERE_MODELS")
        self.assertEqual(self.whole_files(), [])

    def test_two_at_once(self):
        self.hub.hold(200_000)
        with subprocess.Popen([CHIMERE, "pull", "some/Model-GGUF"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=self.environment()) as process:
            wait_for(self.partial_files, "the first one's file")
            self.refused("some/Model-GGUF", "Another program")
            self.hub.release()
            process.communicate(timeout=HANG)
        self.assertEqual(process.returncode, 0)
        self.check(self.pull("some/Model-GGUF"), self.big)

    def test_a_disk_that_becomes_full(self):
        # In a mount namespace of its own: a disk of 4 MB that another process fills during the download.
        self.hub.hold(200_000)
        disk, full = HOME / "disk", HOME / "full"
        disk.mkdir(exist_ok=True)
        script = (f'mount -t tmpfs -o size=4m none {disk} || {{ touch {full}; exit 77; }}; "$0" pull some/Model-GGUF & '
                  f"until find {disk} -name '.*.part' -size +100k | grep -q .; do sleep 0.02; done; "
                  f"head -c 4000000 /dev/zero >{disk}/fill; touch {full}; wait $!; status=$?; rm {disk}/fill; "
                  '[ $status = 1 ] || exit 3; "$0" pull some/Model-GGUF')
        ended = threading.Event()

        def go_on():
            while not full.exists() and not ended.wait(0.02):
                pass
            self.hub.release()

        watcher = threading.Thread(target=go_on)
        watcher.start()
        self.addCleanup(watcher.join)
        self.addCleanup(ended.set)
        done = subprocess.run(["unshare", "-rm", "sh", "-c", script, str(CHIMERE)], capture_output=True, text=True, check=False,
                              env=self.environment(CHIMERE_MODELS=str(disk)), timeout=HANG)
        if done.returncode in (1, 77) and "unshare" in done.stderr + "mount" * (done.returncode == 77):
            self.skipTest("mount namespaces are not allowed here")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("too little space", done.stderr)
        self.assertIn("the received part is kept", done.stderr)
        self.assertIn("Use it with -m", done.stdout)


if __name__ == "__main__":
    print(f"seed {SEED}")
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
