#!/usr/bin/env python3
"""Makes fixtures of what record.py wrote: pack.py RECORDED FOLDER [NAME ...]. Needs numpy. README.md describes the fixtures."""
import hashlib
import json
import pathlib
import struct
import sys

import numpy

TYPES = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}

# Keys that differ on purpose (docs/convert.md), by fixture; null: not needed.
OTHER_KEYS = {
    "granitemoehybrid_dense": {"granitehybrid.feed_forward_length": 64},
    "granitemoehybrid_rope": {"granitehybrid.context_length": 512, "granitehybrid.rope.scaling.finetuned": True},
    "granitemoehybrid_attention": {"granite.feed_forward_length": 64, "granite.rope.scaling.finetuned": True, "granite.context_length": 512,
                                   "granite.attention.head_count_kv": 2, "granite.ssm.conv_kernel": None, "granite.ssm.state_size": None,
                                   "granite.ssm.group_count": None, "granite.ssm.inner_size": None, "granite.ssm.time_step_rank": None},
}
# Heads that are rotated in part: llama.cpp pairs elements of the whole head.
OTHER_TENSORS = {"bamba": (".attn_q.weight", ".attn_k.weight"), "bamba_group": (".attn_q.weight", ".attn_k.weight")}
# transformers normalises over all groups of these state-space mixers, the engine each for itself; the engine has no such biases.
WITHOUT_VALUES = ("bamba", "granitemoehybrid", "mamba2_groups", "llama_bias")


def fnv(text):
    h = 0xcbf29ce484222325
    for b in text.encode():
        h = ((h ^ b) * 0x100000001b3) & 0xffffffffffffffff
    return h


def draw(name, n, offset, scale):
    """As record.py and fixture.cc draw them."""
    with numpy.errstate(over="ignore"):
        z = numpy.uint64(fnv(name)) + numpy.arange(1, n + 1, dtype=numpy.uint64) * numpy.uint64(0x9e3779b97f4a7c15)
        z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xbf58476d1ce4e5b9)
        z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94d049bb133111eb)
        z = z ^ (z >> numpy.uint64(31))
    k = (z >> numpy.uint64(40)).astype(numpy.int64) - (1 << 23)
    return (offset / 4096.0 + k.astype(numpy.float64) * (scale / 4096.0) / 8388608.0).astype(numpy.float32)


def keys_of(header):
    """The metadata of a GGUF file."""
    at = 24

    def value(kind):
        nonlocal at
        if kind == 8:
            size = struct.unpack_from("<Q", header, at)[0]
            at += 8 + size
            return header[at - size:at].decode("utf-8", "replace")
        if kind == 9:
            inner, count = struct.unpack_from("<IQ", header, at)
            at += 12
            return [value(inner) for _ in range(count)]
        out = struct.unpack_from(TYPES[kind], header, at)[0]
        at += struct.calcsize(TYPES[kind])
        return out

    out = {}
    for _ in range(struct.unpack_from("<Q", header, 16)[0]):
        name = value(8)
        kind = struct.unpack_from("<I", header, at)[0]
        at += 4
        out[name] = value(kind)
    return out


def decay_digests(source):
    """SHA-256 of each -exp(A_log) in f32, correctly rounded: torch's exp is off by one unit in the last place now and then."""
    out = {}
    for name, shape, offset, scale in source:
        if name.endswith("A_log"):
            layer = next(p for p in name.split(".") if p.isdecimal())
            x = draw(name, int(numpy.prod(shape)), offset, scale)
            out[f"blk.{layer}.ssm_a"] = hashlib.sha256((-numpy.exp(x.astype(numpy.float64))).astype("<f4").tobytes()).hexdigest()
    return out


def converted(folder, name, source):
    """What llama.cpp's converter made."""
    tiled = name.startswith("qwen3_5")  # its decay rates change places, and agree as they are
    decays = {} if tiled else decay_digests(source)
    other = OTHER_TENSORS.get(name, ())

    def tensors(file_type):
        found = json.loads((folder / f"{file_type}.json").read_text())
        return [dict(t, sha256=decays.get(t["name"], t["sha256"])) for t in found]

    out = {"tensors": {t["name"]: [t["dims"], "" if t["name"].endswith(other or ("?",)) else t["sha256"][:16]] for t in tensors("f32")},
           "keys": {k: v for k, v in keys_of((folder / "f32.head").read_bytes()).items()
                    if k == "general.architecture" or not k.startswith(("general.", "tokenizer."))}}
    if name in OTHER_KEYS:
        out["other_keys"] = OTHER_KEYS[name]
    if not other:
        out["digests"] = {}
        for file_type in ("f16", "bf16", "q8_0"):
            lines = "".join(f"{t['name']} {t['type']} {t['sha256'][:24]}\n" for t in sorted(tensors(file_type), key=lambda t: t["name"]))
            out["digests"][file_type] = hashlib.sha256(lines.encode()).hexdigest()
    return out


def answers(folder):
    """Five of each position's log-probabilities."""
    rows = numpy.load(folder / "f32.npy")
    width = rows.shape[1]
    out = {"values": [[round(float(rows[p, (7 * p + 19 * k) % width]), 5) for k in range(5)] for p in range(len(rows))]}
    if (folder / "f64.npy").exists():
        exact = numpy.load(folder / "f64.npy").astype(numpy.float64)
        out["f32_f64"] = float(f"{numpy.abs(rows - exact).max():.3g}")
    return out


def main():
    recorded, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    for folder in sorted(recorded.iterdir()):
        name = folder.name
        if not (folder / "source.json").exists() or (sys.argv[3:] and name not in sys.argv[3:]):
            continue
        source = [[t["name"], t["shape"], t["offset"], t["scale"]] for t in json.loads((folder / "source.json").read_text())]
        out = {"config": json.loads((folder / "config.json").read_text()), "source": source}
        if (folder / "f32.json").exists():
            out |= converted(folder, name, source)
        if name not in WITHOUT_VALUES and json.loads((folder / "config.json").read_text())["architectures"][0].endswith("CausalLM"):
            out |= answers(folder)
        lines = [f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}" for key, value in out.items()]
        (target / f"{name}.json").write_text("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    main()
