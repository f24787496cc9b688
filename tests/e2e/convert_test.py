#!/usr/bin/env python3
"""`chimere convert`: a folder becomes a file that runs; folders that lie and full disks become one sentence.

  convert_test.py CHIMERE FOLDER_OF_TOKENIZERS [unittest arguments]
"""
import array
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

CHIMERE, TOKENIZERS = (pathlib.Path(arg).absolute() for arg in sys.argv[1:3])
FOLDER = tempfile.TemporaryDirectory()
HOME = pathlib.Path(FOLDER.name)
VOCABULARY, WIDTH, INNER, HEADS, LAYERS = 416, 64, 96, 4, 2
CONFIG = {"architectures": ["Qwen3ForCausalLM"], "vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": INNER,
          "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 512,
          "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": True, "eos_token_id": 402}


def shapes():
    yield "model.embed_tokens.weight", [VOCABULARY, WIDTH]
    yield "model.norm.weight", [WIDTH]
    for i in range(LAYERS):
        b = f"model.layers.{i}."
        yield b + "input_layernorm.weight", [WIDTH]
        yield b + "post_attention_layernorm.weight", [WIDTH]
        for name, rows in (("q", 128), ("k", 64), ("v", 64)):
            yield b + f"self_attn.{name}_proj.weight", [rows, WIDTH]
        yield b + "self_attn.o_proj.weight", [WIDTH, 128]
        yield b + "self_attn.q_norm.weight", [32]
        yield b + "self_attn.k_norm.weight", [32]
        yield b + "mlp.gate_proj.weight", [INNER, WIDTH]
        yield b + "mlp.up_proj.weight", [INNER, WIDTH]
        yield b + "mlp.down_proj.weight", [WIDTH, INNER]


def write_weights(path, names):
    header, data = {}, b""
    for name, shape in names:
        draw = random.Random(name)
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        raw = array.array("f", (draw.uniform(-0.2, 0.2) for _ in range(count))).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_model(folder, shards=1):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copy(TOKENIZERS / "qwen2" / name, folder / name)
    names = list(shapes())
    if shards == 1:
        write_weights(folder / "model.safetensors", names)
        return folder
    index = {}
    for i in range(shards):
        file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        write_weights(folder / file, names[i::shards])
        index |= {name: file for name, _ in names[i::shards]}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    return folder


def chimere(*args, **kwargs):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CHIMERE_")} | {"HOME": str(HOME)}
    return subprocess.run([CHIMERE, *map(str, args)], capture_output=True, text=True, check=False, env=environment, timeout=100, cwd=HOME, **kwargs)


def limit_files():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (32768, 32768))


class Convert(unittest.TestCase):
    def setUp(self):
        self.folder = HOME / self.id().rsplit(".", 1)[1]
        self.out = HOME / (self.folder.name + ".gguf")

    def converted(self, *args):
        done = chimere("convert", self.folder, "-o", self.out, "--json", *args)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def refused(self, *args, says, **kwargs):
        done = chimere("convert", self.folder, "-o", self.out, *args, **kwargs)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn(says, done.stderr)
        self.assertEqual([p.name for p in HOME.glob(self.out.name + "*")], [])

    def test_a_folder_becomes_a_file_that_runs(self):
        write_model(self.folder)
        for kind, name in (("f32", "f32"), ("bf16", "bf16"), ("q8_0", "q8_0")):
            report = self.converted("--type", kind)
            self.assertEqual((report["architecture"], report["type"], report["left_out"]), ("qwen3", name, []))
            self.assertEqual(report["tensors"], len(list(shapes())))
            answer = chimere("run", "-m", self.out, "-p", "the fox", "-n", 4, "--temp", 0, "--json")
            self.assertEqual(answer.returncode, 0, answer.stderr)
        said = json.loads(chimere("inspect", self.out, "--json").stdout)["metadata"]
        self.assertEqual((said["general.name"], said["tokenizer.ggml.eos_token_id"], said["tokenizer.ggml.eot_token_id"]), (self.folder.name, 402, 400))
        self.assertIn("im_start", said["tokenizer.chat_template"])

    def test_shards_give_the_same_file(self):
        write_model(self.folder)
        self.converted()
        whole = self.out.read_bytes()
        shutil.rmtree(self.folder)
        write_model(self.folder, shards=3)
        self.converted()
        self.assertEqual(self.out.read_bytes(), whole)

    def test_lying_folders_are_refused(self):
        write_model(self.folder)
        weights = self.folder / "model.safetensors"
        good = weights.read_bytes()
        weights.write_bytes(good[:-4])
        self.refused(says="lies outside the file")
        weights.write_bytes(struct.pack("<Q", 1 << 40) + good[8:])
        self.refused(says="cannot be")
        weights.write_bytes(good)
        (self.folder / "config.json").write_text(json.dumps(CONFIG | {"num_attention_heads": "many"}))
        self.refused(says="'num_attention_heads' or 'n_head' must be an integer")
        (self.folder / "config.json").write_text(json.dumps(CONFIG | {"architectures": ["OtherForCausalLM"]}))
        self.refused(says="these can be converted")
        (self.folder / "config.json").write_text(json.dumps(CONFIG))
        write_weights(weights, [*shapes(), ("model.layers.0.other.weight", [4])])
        self.refused(says="'model.layers.0.other.weight' is no part of a Qwen3ForCausalLM")
        (self.folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../b.safetensors"}}))
        self.refused(says="not beside it")

    def test_folders_without_their_parts_are_refused(self):
        write_model(self.folder)
        (self.folder / "tokenizer.json").unlink()
        self.refused(says="no tokenizer.json")
        self.assertEqual(self.converted("--without-tokenizer")["architecture"], "qwen3")
        self.out.unlink()
        (self.folder / "model.safetensors").unlink()
        self.refused(says="no model.safetensors")
        (self.folder / "config.json").unlink()
        self.refused(says="no config.json")

    def test_a_full_disk_leaves_nothing(self):
        write_model(self.folder)
        self.refused(says="disk is full", preexec_fn=limit_files)

    def test_wrong_use(self):
        for arguments in ((), ("x",), ("x", "-o", "y", "--type", "q4_0")):
            done = chimere("convert", *arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
