#!/usr/bin/python3
"""Write a GGUF with the exact shapes of a hybrid model and random, valid weights.

Decode speed does not depend on the values of the weights, so such a file replaces the released one
where speed, memory or loading is measured and the released one is not available.

  bench/synth_gguf.py OUT.gguf --arch qwen35moe --size 35b-a3b --mix ramp [--mtp] [--pooling last] [--seed 1] [--layers N]

Architectures: qwen35moe, qwen35 (a dense network instead of experts), qwen3next (value heads grouped by key head, fused ssm_ba),
qwen3moe and qwen3 (transformers: every layer attends; the latter with dense networks), gpt-oss (sinks, windows, biases; --mix mxfp4).
Sizes: 35b-a3b (the released Qwen3.5-35B-A3B shapes), 30b-a3b (Qwen3-30B-A3B's, for qwen3moe), gpt-oss-20b (the
released shapes; --layers N writes the first N), 1.6b-a0.4b (the first one's topology in about 0.8 GB), mini (a few MB, the only one for qwen35 and qwen3).
nemotron-3-nano and granite-4-h-tiny are sizes of nemotron_h_moe and granitehybrid (synth_families.py), where --layers N writes the
first N layers only; dflash-35b-a3b is a drafter (dflash) for 35b-a3b.
Mixes: q4_0 (everything, the head Q6_K or Q8_0), ramp (experts IQ3_S, attention Q5_K/Q6_K, gates Q8_0), q4_k, q8_0, mxfp4 (experts;
the rest Q8_0), f32.
Needs numpy only (Debian: python3-numpy, for /usr/bin/python3). Values are drawn so that each weight has a standard deviation near
1/sqrt(fan-in); scale fields are finite; nearly everything else in a block is random bits.
"""
import argparse, struct, sys
import numpy as np

import synth_families as families

ARCHITECTURES = ("qwen35moe", "qwen35", "qwen3next", "qwen3moe", "qwen3", "gpt-oss") + families.ARCHITECTURES
TRANSFORMERS = ("qwen3moe", "qwen3", "gpt-oss")
POOLING = {"mean": 1, "last": 3}
F32, F16, Q4_0, Q8_0, Q4_K, Q5_K, Q6_K, IQ3_S, MXFP4 = 0, 1, 2, 8, 12, 13, 14, 21, 39
# type: (weights per block, bytes per block, [(byte offset of an fp16 scale, std of a weight per unit scale)])
BLOCK = {
    Q4_0: (32, 18, [(0, 4.61)]),
    Q8_0: (32, 34, [(0, 74.0)]),
    Q4_K: (256, 144, [(0, 300.0), (2, 40.0)]),
    Q5_K: (256, 176, [(0, 600.0), (2, 40.0)]),
    Q6_K: (256, 210, [(208, 1369.0)]),
    IQ3_S: (256, 110, [(0, 150.0)]),
    MXFP4: (32, 17, []),  # its scale is a byte, see main()
}
SIZES = {
    "35b-a3b": dict(n_layer=40, n_embd=2048, n_head=16, n_head_kv=2, head_dim=256, rot=64, n_expert=256,
                    n_used=8, n_ff=512, n_ff_sh=512, conv=4, state=128, n_k=16, n_v=32, n_vocab=248320, ctx=262144),
    "30b-a3b": dict(n_layer=48, n_embd=2048, n_head=32, n_head_kv=4, head_dim=128, rot=128, n_expert=128,
                    n_used=8, n_ff=768, n_vocab=151936, ctx=40960),
    "gpt-oss-20b": dict(n_layer=24, n_embd=2880, n_head=64, n_head_kv=8, head_dim=64, rot=64, n_expert=32,
                        n_used=4, n_ff=2880, n_vocab=201088, ctx=131072, window=128),
    "1.6b-a0.4b": dict(n_layer=24, n_embd=1024, n_head=8, n_head_kv=2, head_dim=256, rot=64, n_expert=64,
                       n_used=8, n_ff=256, n_ff_sh=256, conv=4, state=128, n_k=8, n_v=16, n_vocab=65536, ctx=32768),
    "mini": dict(n_layer=8, n_embd=256, n_head=4, n_head_kv=2, head_dim=64, rot=16, n_expert=16,
                 n_used=4, n_ff=256, n_ff_sh=256, n_ff_dense=768, conv=4, state=64, n_k=2, n_v=4, n_vocab=2048, ctx=4096),
}
MIX = {  # role -> type
    "ramp": dict(exps=IQ3_S, shexp=Q5_K, attn=Q5_K, attn_qk=Q6_K, ssm_out=Q6_K, gate=Q8_0, embd=Q4_K, out=Q6_K),
    "q4_0": dict(exps=Q4_0, shexp=Q4_0, attn=Q4_0, attn_qk=Q4_0, ssm_out=Q4_0, gate=Q4_0, embd=Q4_0, out=Q6_K),
    "q4_k": dict(exps=Q4_K, shexp=Q4_K, attn=Q4_K, attn_qk=Q4_K, ssm_out=Q4_K, gate=Q4_K, embd=Q4_K, out=Q6_K),
    "q8_0": dict(exps=Q8_0, shexp=Q8_0, attn=Q8_0, attn_qk=Q8_0, ssm_out=Q8_0, gate=Q8_0, embd=Q8_0, out=Q8_0),
    "mxfp4": dict(exps=MXFP4, shexp=Q8_0, attn=Q8_0, attn_qk=Q8_0, ssm_out=Q8_0, gate=Q8_0, embd=Q8_0, out=Q8_0),
    "f32": dict(exps=F32, shexp=F32, attn=F32, attn_qk=F32, ssm_out=F32, gate=F32, embd=F32, out=F32),
}


def plan(arch, s, mix, mtp):
    """Tensors as (name, dims in GGUF order: fastest first, type, kind of value)."""
    m = MIX[mix]
    E, H, KV, D = s["n_embd"], s["n_head"], s["n_head_kv"], s["head_dim"]
    transformer = arch in TRANSFORMERS
    if not transformer:
        key, val = s["state"] * s["n_k"], s["state"] * s["n_v"]
        conv_dim = 2 * key + val
    t = [("token_embd.weight", (E, s["n_vocab"]), m["embd"], "w"),
         ("output_norm.weight", (E,), F32, "one"),
         ("output.weight", (E, s["n_vocab"]), m["out"], "w")]
    total = s["n_layer"] + (1 if mtp else 0)
    for i in range(total):
        b = f"blk.{i}."
        t += [(b + "attn_norm.weight", (E,), F32, "one"), (b + ("ffn_norm" if transformer and arch != "gpt-oss" else "post_attention_norm") + ".weight", (E,), F32, "one")]
        if not transformer and i < s["n_layer"] and (i + 1) % 4:
            t += [(b + "attn_qkv.weight", (E, conv_dim), m["attn"], "w"),
                  (b + "attn_gate.weight", (E, val), m["attn"], "w"),
                  (b + "ssm_conv1d.weight", (s["conv"], conv_dim), F32, "w"),
                  (b + "ssm_dt.bias", (s["n_v"],), F32, "small"),
                  (b + "ssm_a", (s["n_v"],), F32, "decay")]
            names = {"ssm_ba": 2} if arch == "qwen3next" else {"ssm_beta": 1, "ssm_alpha": 1}
            t += [(b + f"{name}.weight", (E, n * s["n_v"]), m["gate"], "w") for name, n in names.items()]
            t += [(b + "ssm_norm.weight", (s["state"],), F32, "one"),
                  (b + "ssm_out.weight", (val, E), m["ssm_out"], "w")]
        else:
            t += [(b + "attn_q.weight", (E, (1 if transformer else 2) * H * D), m["attn_qk"], "w"),
                  (b + "attn_k.weight", (E, KV * D), m["attn_qk"], "w"),
                  (b + "attn_v.weight", (E, KV * D), m["attn_qk"], "w"),
                  (b + "attn_output.weight", (H * D, E), m["attn"], "w")]
            if arch == "gpt-oss":
                t += [(b + "attn_q.bias", (H * D,), F32, "small"), (b + "attn_k.bias", (KV * D,), F32, "small"),
                      (b + "attn_v.bias", (KV * D,), F32, "small"), (b + "attn_output.bias", (E,), F32, "small"),
                      (b + "attn_sinks.weight", (H,), F32, "one")]
            else:
                t += [(b + "attn_q_norm.weight", (D,), F32, "one"), (b + "attn_k_norm.weight", (D,), F32, "one")]
        F, X = s["n_ff"], s["n_expert"]
        if arch in ("qwen35", "qwen3"):
            dense = s["n_ff_dense"]
            t += [(b + "ffn_gate.weight", (E, dense), m["shexp"], "w"),
                  (b + "ffn_up.weight", (E, dense), m["shexp"], "w"),
                  (b + "ffn_down.weight", (dense, E), m["shexp"], "w")]
        else:
            t += [(b + "ffn_gate_inp.weight", (E, X), F32, "w"),
                  (b + "ffn_gate_exps.weight", (E, F, X), m["exps"], "w"),
                  (b + "ffn_up_exps.weight", (E, F, X), m["exps"], "w"),
                  (b + "ffn_down_exps.weight", (F, E, X), m["exps"], "w")]
        if arch == "gpt-oss":
            t += [(b + "ffn_gate_inp.bias", (X,), F32, "small"), (b + "ffn_gate_exps.bias", (F, X), F32, "small"),
                  (b + "ffn_up_exps.bias", (F, X), F32, "small"), (b + "ffn_down_exps.bias", (E, X), F32, "small")]
        if arch not in ("qwen35", "qwen3", "qwen3moe", "gpt-oss"):
            S = s["n_ff_sh"]
            t += [(b + "ffn_gate_inp_shexp.weight", (E,), F32, "w"),
                  (b + "ffn_gate_shexp.weight", (E, S), m["shexp"], "w"),
                  (b + "ffn_up_shexp.weight", (E, S), m["shexp"], "w"),
                  (b + "ffn_down_shexp.weight", (S, E), m["shexp"], "w")]
        if i >= s["n_layer"]:
            t += [(b + "nextn.eh_proj.weight", (2 * E, E), m["attn"], "w"),
                  (b + "nextn.enorm.weight", (E,), F32, "one"),
                  (b + "nextn.hnorm.weight", (E,), F32, "one"),
                  (b + "nextn.shared_head_norm.weight", (E,), F32, "one")]
    return t


def fits(dims, ty):
    return ty == F32 or dims[0] % BLOCK[ty][0] == 0


def nbytes(dims, ty):
    n = int(np.prod(dims))
    if ty == F32:
        return 4 * n
    per, size, _ = BLOCK[ty]
    return n // per * size


def gstr(x):
    b = x.encode()
    return struct.pack("<Q", len(b)) + b


def kv(key, ty, val):
    out = gstr(key)
    if ty == "u32": return out + struct.pack("<II", 4, val)
    if ty == "f32": return out + struct.pack("<If", 6, val)
    if ty == "str": return out + struct.pack("<I", 8) + gstr(val)
    if ty == "bool": return out + struct.pack("<IB", 7, val)
    if ty == "[i32]": return out + struct.pack("<IIQ", 9, 5, len(val)) + struct.pack(f"<{len(val)}i", *val)
    if ty == "[f32]": return out + struct.pack("<IIQ", 9, 6, len(val)) + struct.pack(f"<{len(val)}f", *val)
    if ty == "[str]": return out + struct.pack("<IIQ", 9, 8, len(val)) + b"".join(gstr(v) for v in val)
    raise ValueError(ty)


def byte_chars():
    """The 256 printable stand-ins that byte-level BPE uses for raw bytes."""
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    table, extra = {b: chr(b) for b in keep}, 0
    for b in range(256):
        if b not in table:
            table[b] = chr(256 + extra)
            extra += 1
    return [table[b] for b in range(256)]


def other_keys(A, s, transformer):
    """Keys of the recurrent layers and networks of the Qwen architectures."""
    out = []
    if not transformer:
        out += [kv(f"{A}.full_attention_interval", "u32", 4),
                 kv(f"{A}.ssm.conv_kernel", "u32", s["conv"]), kv(f"{A}.ssm.state_size", "u32", s["state"]),
                 kv(f"{A}.ssm.group_count", "u32", s["n_k"]), kv(f"{A}.ssm.time_step_rank", "u32", s["n_v"]),
                 kv(f"{A}.ssm.inner_size", "u32", s["state"] * s["n_v"])]
    if A != "qwen3next" and not transformer:
        out.append(kv(f"{A}.rope.dimension_sections", "[i32]", [11, 11, 10, 0] if s["rot"] == 64 else [3, 3, 2, 0]))
    if A in ("qwen35", "qwen3"):
        out.append(kv(f"{A}.feed_forward_length", "u32", s["n_ff_dense"]))
    else:
        out += [kv(f"{A}.expert_count", "u32", s["n_expert"]), kv(f"{A}.expert_used_count", "u32", s["n_used"]),
                 kv(f"{A}.expert_feed_forward_length", "u32", s["n_ff"])]
        if not transformer:
            out.append(kv(f"{A}.expert_shared_feed_forward_length", "u32", s["n_ff_sh"]))
    if A == "gpt-oss":
        out += [kv(f"{A}.attention.sliding_window", "u32", s["window"]), kv(f"{A}.rope.scaling.type", "str", "yarn"),
                kv(f"{A}.rope.scaling.factor", "f32", 32.0), kv(f"{A}.rope.scaling.original_context_length", "u32", 4096)]
    return out


def main():
    p = argparse.ArgumentParser()
    p.add_argument("out"); p.add_argument("--arch", default="qwen35moe", choices=ARCHITECTURES)
    p.add_argument("--size", default="35b-a3b", choices=[*SIZES, *families.SIZES]); p.add_argument("--mix", default="ramp", choices=MIX)
    p.add_argument("--pooling", choices=POOLING, help="an embedding model (qwen3moe, qwen3)")
    p.add_argument("--mtp", action="store_true"); p.add_argument("--seed", type=int, default=1)
    p.add_argument("--layers", type=int, help="fewer layers than the size has (nemotron_h_moe, granitehybrid, gpt-oss)")
    a = p.parse_args()
    rng = np.random.default_rng(a.seed)
    family = a.size in families.SIZES
    if family:
        s = families.SIZES[a.size]
        if a.arch != s["arch"] or a.mtp or a.pooling:
            p.error(f"{a.size} is a size of {s['arch']} without an MTP head and pooling")
        s = {**s, "pattern": s["pattern"][:a.layers], "n_layer": len(s["pattern"][:a.layers])}
        planned = families.plan(s, MIX[a.mix], F32)
    else:
        s = SIZES.get(a.size)
        if a.layers and a.arch == "gpt-oss" and s:
            s = {**s, "n_layer": min(a.layers, s["n_layer"])}
        elif a.arch in families.ARCHITECTURES or a.layers:
            p.error(f"there is no {a.arch} of size {a.size}, or it has no --layers")
        planned = None
    transformer = a.arch in TRANSFORMERS
    if a.arch in ("qwen35", "qwen3") and "n_ff_dense" not in s or not (transformer or family) and "state" not in s:
        p.error(f"there is no {a.arch} of size {a.size}")
    if (a.arch == "qwen3next" or transformer) and a.mtp:
        p.error(f"files of {a.arch} have no MTP head")
    if (a.arch == "gpt-oss") != ("window" in s):
        p.error(f"there is no {a.arch} of size {a.size}")
    if a.pooling and not transformer:
        p.error(f"files of {a.arch} make no embeddings")
    tensors = []
    for name, dims, ty, kind in planned or plan(a.arch, s, a.mix, a.mtp):
        if ty != F32 and not fits(dims, ty):
            ty = Q8_0 if fits(dims, Q8_0) else F32
        tensors.append((name, dims, ty, kind))

    A = a.arch
    toks = byte_chars()
    toks += [f"tok{i}" for i in range(len(toks), s["n_vocab"] - 3)] + ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    types = [1] * (s["n_vocab"] - 3) + [3] * 3
    V = s["n_vocab"]
    head = [
        kv("general.architecture", "str", A), kv("general.name", "str", f"synthetic-{a.size}-{a.mix}"),
        kv("general.quantization_version", "u32", 2), kv("general.alignment", "u32", 32),
        kv(f"{A}.block_count", "u32", s["n_layer"] + (1 if a.mtp else 0)), kv(f"{A}.context_length", "u32", s["ctx"]),
        kv(f"{A}.embedding_length", "u32", s["n_embd"]), kv(f"{A}.attention.head_count", "u32", s["n_head"]),
        kv(f"{A}.attention.key_length", "u32", s["head_dim"]), kv(f"{A}.attention.value_length", "u32", s["head_dim"]),
        kv("tokenizer.ggml.model", "str", "gpt2"), kv("tokenizer.ggml.pre", "str", "qwen2"),
        kv("tokenizer.ggml.tokens", "[str]", toks), kv("tokenizer.ggml.token_type", "[i32]", types),
        kv("tokenizer.ggml.merges", "[str]", ["t h"]), kv("tokenizer.ggml.eos_token_id", "u32", V - 1),
        kv("tokenizer.ggml.padding_token_id", "u32", V - 3), kv("tokenizer.ggml.add_bos_token", "bool", 0),
    ]
    if family:
        head += [kv(f"{A}.{key}", ty, value) for key, ty, value in families.keys(s)]
    else:
        head += [kv(f"{A}.attention.head_count_kv", "u32", s["n_head_kv"]), kv(f"{A}.attention.layer_norm_rms_epsilon", "f32", 1e-6),
                 kv(f"{A}.rope.freq_base", "f32", 1e7),
                 kv(f"{A}.rope.dimension_count", "u32", s["head_dim"] if transformer else s["rot"])]
        head += other_keys(A, s, transformer)
    if a.pooling:
        head.append(kv(f"{A}.pooling_type", "u32", POOLING[a.pooling]))
    if a.arch == "dflash":
        head.append(kv("tokenizer.ggml.mask_token_id", "u32", V - 3))
    if a.mtp:
        head.append(kv(f"{A}.nextn_predict_layers", "u32", 1))
    info, off = [], 0
    for name, dims, ty, _ in tensors:
        info.append(gstr(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", ty, off))
        off += -(-nbytes(dims, ty) // 32) * 32
    meta = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(head)) + b"".join(head) + b"".join(info)
    meta += b"\0" * (-len(meta) % 32)
    pool = rng.integers(0, 256, size=64 << 20, dtype=np.uint8)
    with open(a.out, "wb") as f:
        f.write(meta)
        for name, dims, ty, kind in tensors:
            fan, n = dims[0], int(np.prod(dims))
            if ty == F32:
                if kind == "one": x = 1 + 0.02 * rng.standard_normal(n)
                elif kind == "decay": x = -rng.uniform(0.5, 4.0, n)
                elif kind == "small": x = 0.1 * rng.standard_normal(n)
                else: x = rng.standard_normal(n) / np.sqrt(fan)
                data = x.astype("<f4").tobytes()
                f.write(data + b"\0" * (-len(data) % 32))
                continue
            per, size, scales = BLOCK[ty]
            blocks, done = n // per, 0
            std = 1 / np.sqrt(fan)
            while done < blocks:
                k = min(blocks - done, (32 << 20) // size)
                at = int(rng.integers(0, pool.size - k * size + 1))
                x = pool[at:at + k * size].reshape(k, size).copy()
                if ty == Q8_0:  # no quantiser writes -128, and not every program's byte products can take it
                    x[:, 2:][x[:, 2:] == 128] = 129
                if ty == MXFP4:  # 2^(e - 128) times integers of standard deviation near 7
                    x[:, 0] = 128 + round(np.log2(std / 7))
                for o, unit in scales:
                    x[:, o:o + 2] = np.frombuffer(np.float16(std / unit).tobytes(), np.uint8)
                f.write(x.tobytes()); done += k
            f.write(b"\0" * (-(blocks * size) % 32))
    print(f"{a.out}: {len(tensors)} tensors, {(off + len(meta)) / 1e9:.2f} GB", file=sys.stderr)


if __name__ == "__main__":
    main()
