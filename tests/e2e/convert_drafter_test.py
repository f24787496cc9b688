#!/usr/bin/env python3
"""`chimere convert` makes a block drafter of a checkpoint as z-lab publishes them; with it the text is that without drafts.

  convert_drafter_test.py CHIMERE WRITE_TINY_MODEL [unittest arguments]
"""
import array
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unittest

CHIMERE, WRITER = (pathlib.Path(arg).absolute() for arg in sys.argv[1:3])
FOLDER = tempfile.TemporaryDirectory()
HOME = pathlib.Path(FOLDER.name)
MODEL = HOME / "tiny.gguf"
VOCABULARY, WIDTH, INNER, TARGET_LAYERS, LAYERS = 300, 32, 48, 4, 2  # width, vocabulary and layers of the model
HEADS, KV_HEADS, HEAD_DIM = 4, 2, 16
CONFIG = {"architectures": ["DFlashDraftModel"], "model_type": "qwen3", "vocab_size": VOCABULARY, "hidden_size": WIDTH,
          "intermediate_size": INNER, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
          "head_dim": HEAD_DIM, "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "rope_theta": 100000.0, "rope_scaling": None,
          "hidden_act": "silu", "attention_bias": False, "block_size": 4, "num_target_layers": TARGET_LAYERS, "use_sliding_window": False,
          "sliding_window": None, "layer_types": ["full_attention"] * LAYERS,
          "dflash_config": {"mask_token_id": 2, "target_layer_ids": [1, 3]}}
PLACES = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
          "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
          "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
NORMS = {"input_layernorm": WIDTH, "post_attention_layernorm": WIDTH, "self_attn.q_norm": HEAD_DIM, "self_attn.k_norm": HEAD_DIM}
MATRICES = {"self_attn.q_proj": [HEADS * HEAD_DIM, WIDTH], "self_attn.k_proj": [KV_HEADS * HEAD_DIM, WIDTH],
            "self_attn.v_proj": [KV_HEADS * HEAD_DIM, WIDTH], "self_attn.o_proj": [WIDTH, HEADS * HEAD_DIM],
            "mlp.gate_proj": [INNER, WIDTH], "mlp.up_proj": [INNER, WIDTH], "mlp.down_proj": [WIDTH, INNER]}


def tensors():
    """Name in the checkpoint, name in the file, shape."""
    yield "fc.weight", "fc.weight", [WIDTH, 2 * WIDTH]
    yield "hidden_norm.weight", "enc.output_norm.weight", [WIDTH]
    yield "norm.weight", "output_norm.weight", [WIDTH]
    for i in range(LAYERS):
        for name, to in PLACES.items():
            shape = MATRICES.get(name) or [NORMS[name]]
            yield f"layers.{i}.{name}.weight", f"blk.{i}.{to}.weight", shape


def bf16(values):
    return b"".join(struct.pack("<f", x)[2:] for x in values)


def write_checkpoint(folder, config, stored="F32"):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    header, data = {}, b""
    for name, _, shape in tensors():
        draw = random.Random(name)
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        middle = 1.0 if len(shape) == 1 else 0.0
        values = [middle + draw.uniform(-0.2, 0.2) for _ in range(count)]
        raw = bf16(values) if stored == "BF16" else array.array("f", values).tobytes()
        header[name] = {"dtype": stored, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


def chimere(*args):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("CHIMERE_")} | {"HOME": str(HOME)}
    return subprocess.run([CHIMERE, *map(str, args)], capture_output=True, text=True, check=False, env=kept, timeout=150, cwd=HOME)


class ConvertedDrafters(unittest.TestCase):
    def setUp(self):
        self.folder = HOME / self.id().rsplit(".", 1)[1]
        self.out = HOME / (self.folder.name + ".gguf")

    def convert(self, config, *flags, stored="F32"):
        write_checkpoint(self.folder, config, stored)
        done = chimere("convert", self.folder, "-o", self.out, "--json", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def inspect(self):
        done = chimere("inspect", self.out, "--tensors", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_keys_and_tensors(self):
        for name in ("tokenizer.json", "tokenizer_config.json"):
            self.folder.mkdir(exist_ok=True)
            (self.folder / name).write_text("no tokenizer")
        report = self.convert(CONFIG, stored="BF16")
        self.assertEqual((report["architecture"], report["type"], report["left_out"]), ("dflash", "bf16", []))
        said = self.inspect()
        keys = said["metadata"]
        expected = {"block_count": LAYERS, "context_length": 4096, "embedding_length": WIDTH, "feed_forward_length": INNER,
                    "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS, "attention.key_length": HEAD_DIM,
                    "attention.value_length": HEAD_DIM, "rope.freq_base": 100000.0, "vocab_size": VOCABULARY, "block_size": 4,
                    "target_layers": [2, 4]}
        self.assertEqual({name: keys.get("dflash." + name) for name in expected}, expected)
        self.assertEqual(keys["tokenizer.ggml.mask_token_id"], 2)
        self.assertEqual([key for key in keys if key.startswith("tokenizer.")], ["tokenizer.ggml.mask_token_id"])
        self.assertFalse([key for key in keys if "sliding" in key])
        self.assertEqual({t["name"]: (t["dims"], t["type"]) for t in said["tensors"]},
                         {to: (shape[::-1], "bf16" if len(shape) > 1 else "f32") for _, to, shape in tensors()})

    def test_the_text_is_that_without_drafts(self):
        windows = {"use_sliding_window": True, "sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"]}
        spread = {"dflash_config": {"mask_token_id": 2}, "num_target_layers": 5}  # layers 1 and 2
        runs = {t: ("run", "-m", MODEL, "-p", "abcabc", "-n", 24, "--seed", 3, "--temp", t, "--json", "-q") for t in (0, 1)}
        plain = {t: chimere(*run, "--speculate", "off") for t, run in runs.items()}
        for changes, flags in (({}, ()), ({}, ("--type", "q8_0")), (windows, ()), (spread, ())):
            self.convert(CONFIG | changes, *flags)
            for t, run in runs.items():
                drafted = chimere(*run, "--speculate", "dflash", "--draft-model", self.out)
                self.assertEqual((drafted.returncode, drafted.stderr), (0, plain[t].stderr))  # no warning
                self.assertEqual(json.loads(drafted.stdout)["ids"], json.loads(plain[t].stdout)["ids"])
                self.assertGreater(json.loads(drafted.stdout)["drafted"], 0)

    def test_windows_are_named(self):
        self.convert(CONFIG | {"use_sliding_window": True, "sliding_window": 64, "layer_types": ["full_attention", "sliding_attention"]})
        keys = self.inspect()["metadata"]
        self.assertEqual(keys["dflash.attention.sliding_window"], 64)
        self.assertEqual(keys["dflash.attention.sliding_window_pattern"], [False, True])

    def test_errors_name_what_is_missing(self):
        for name in ("num_key_value_heads", "rope_theta", "vocab_size", "dflash_config"):
            write_checkpoint(self.folder, {k: v for k, v in (CONFIG | {"num_target_layers": 5}).items() if k != name})
            done = chimere("convert", self.folder, "-o", self.out)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn(f"config.json has no '{name}", done.stderr)
            self.assertFalse(self.out.exists())


if __name__ == "__main__":
    subprocess.run([WRITER, MODEL, "300"], check=True)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
