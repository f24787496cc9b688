#!/usr/bin/env python3
"""Makes golden models with transformers: from_transformers.py FOLDER writes qwen3next.{gguf,json} and qwen35.{gguf,json}.

Needs torch and transformers (5.17 made the files here) and bench/synth_gguf.py. Weights are random numbers that f16 can hold, from a fixed
seed; the model computes in f32 on the CPU. The files have the tensors that llama.cpp's converter gives each architecture: norms
with their 1 added, A as -exp(A_log), the value heads of qwen35 in tiled order, the projections of qwen3next split by kind.
"""
import json
import math
import pathlib
import struct
import sys

import numpy
import torch
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
from synth_gguf import gstr, kv  # noqa: E402

VOCABULARY = 96
LENGTHS = [5, 70, 133]  # within a chunk, across its end, across two
COMMON = dict(
    vocab_size=VOCABULARY, hidden_size=64, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
    max_position_embeddings=4096, rms_norm_eps=1e-6, linear_conv_kernel_dim=4, linear_key_head_dim=16, linear_value_head_dim=16,
    linear_num_key_heads=2, linear_num_value_heads=6, tie_word_embeddings=False)
ROPE = dict(rope_type="default", rope_theta=1e7, partial_rotary_factor=0.25)


def qwen3next():
    return transformers.Qwen3NextForCausalLM(transformers.Qwen3NextConfig(
        **COMMON, rope_parameters=ROPE, intermediate_size=64, moe_intermediate_size=32, shared_expert_intermediate_size=48,
        num_experts=6, num_experts_per_tok=2, norm_topk_prob=True))


def qwen35():
    return transformers.Qwen3_5ForCausalLM(transformers.Qwen3_5TextConfig(
        **COMMON, rope_parameters=dict(ROPE, mrope_section=[2, 1, 1], mrope_interleaved=True), intermediate_size=160))


def randomise(model, seed):
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            x = torch.randn(p.shape, generator=draw)
            if name.endswith("linear_attn.norm.weight"):
                x = 1 + 0.1 * x
            elif name.endswith("norm.weight"):
                x = 0.1 * x  # the model adds 1
            elif name.endswith("A_log"):
                x = torch.log(0.05 + 0.95 * torch.rand(p.shape, generator=draw))
            elif name.endswith("dt_bias"):
                x = 0.3 * x
            elif "embed_tokens" not in name:
                x = x / math.sqrt(p.shape[-1])
            p.copy_(x.half().float())


def tiled(x, dim, head_dim):
    """Value heads from grouped by key head to one of each key head in turn, along `dim`."""
    n_k, n_v = COMMON["linear_num_key_heads"], COMMON["linear_num_value_heads"]
    shape = list(x.shape)
    return x.reshape(shape[:dim] + [n_k, n_v // n_k, head_dim] + shape[dim + 1:]).transpose(dim, dim + 1).reshape(shape)


def delta_net(w, b, grouped):
    """The tensors of one gated delta net; `w` has the parameters without their prefix."""
    n_k, n_v = COMMON["linear_num_key_heads"], COMMON["linear_num_value_heads"]
    d, n_embd = COMMON["linear_key_head_dim"], COMMON["hidden_size"]
    qk = 2 * n_k * d
    out = {b + "ssm_norm.weight": w["norm.weight"]}
    conv, a, dt, o = w["conv1d.weight"].squeeze(1), -torch.exp(w["A_log"]), w["dt_bias"], w["out_proj.weight"]
    if grouped:
        per = n_v // n_k
        each = w["in_proj_qkvz.weight"].reshape(n_k, 2 * d + 2 * per * d, n_embd)
        q, k, v, z = (p.reshape(-1, n_embd) for p in each.split([d, d, per * d, per * d], dim=1))
        out[b + "attn_qkv.weight"], out[b + "attn_gate.weight"] = torch.cat([q, k, v]), z
        out[b + "ssm_ba.weight"] = w["in_proj_ba.weight"]
    else:
        qkv = w["in_proj_qkv.weight"]
        out[b + "attn_qkv.weight"] = torch.cat([qkv[:qk], tiled(qkv[qk:], 0, d)])
        out[b + "attn_gate.weight"] = tiled(w["in_proj_z.weight"], 0, d)
        out[b + "ssm_beta.weight"], out[b + "ssm_alpha.weight"] = (tiled(w[f"in_proj_{x}.weight"], 0, 1) for x in "ba")
        conv, a, dt, o = torch.cat([conv[:qk], tiled(conv[qk:], 0, d)]), tiled(a, 0, 1), tiled(dt, 0, 1), tiled(o, 1, d)
    return out | {b + "ssm_conv1d.weight": conv, b + "ssm_a": a, b + "ssm_dt.bias": dt, b + "ssm_out.weight": o}


def feed_forward(w, b):
    if "gate_proj.weight" in w:
        return {b + f"ffn_{x}.weight": w[f"{x}_proj.weight"] for x in ("gate", "up", "down")}
    gate, up = w["experts.gate_up_proj"].chunk(2, dim=1)
    out = {b + "ffn_gate_inp.weight": w["gate.weight"], b + "ffn_gate_exps.weight": gate, b + "ffn_up_exps.weight": up,
           b + "ffn_down_exps.weight": w["experts.down_proj"], b + "ffn_gate_inp_shexp.weight": w["shared_expert_gate.weight"].reshape(-1)}
    return out | {b + f"ffn_{x}_shexp.weight": w[f"shared_expert.{x}_proj.weight"] for x in ("gate", "up", "down")}


def below(weights, prefix):
    return {name[len(prefix):]: x for name, x in weights.items() if name.startswith(prefix)}


def tensors(weights, grouped):
    out = {"token_embd.weight": weights["model.embed_tokens.weight"], "output.weight": weights["lm_head.weight"],
           "output_norm.weight": 1 + weights["model.norm.weight"]}
    for i in range(COMMON["num_hidden_layers"]):
        w, b = below(weights, f"model.layers.{i}."), f"blk.{i}."
        out[b + "attn_norm.weight"] = 1 + w["input_layernorm.weight"]
        out[b + "post_attention_norm.weight"] = 1 + w["post_attention_layernorm.weight"]
        if net := below(w, "linear_attn."):
            out |= delta_net(net, b, grouped)
        attention = below(w, "self_attn.")
        if attention:
            for x in "qk":
                out[b + f"attn_{x}_norm.weight"] = 1 + attention[f"{x}_norm.weight"]
            for theirs, ours in {"q": "q", "k": "k", "v": "v", "o": "output"}.items():
                out[b + f"attn_{ours}.weight"] = attention[f"{theirs}_proj.weight"]
        out |= feed_forward(below(w, "mlp."), b)
    return out


def metadata(arch, c):
    moe = arch == "qwen3next"
    numbers = {
        "block_count": c.num_hidden_layers, "context_length": c.max_position_embeddings, "embedding_length": c.hidden_size,
        "feed_forward_length": c.intermediate_size, "attention.head_count": c.num_attention_heads,
        "attention.head_count_kv": c.num_key_value_heads, "attention.key_length": c.head_dim, "attention.value_length": c.head_dim,
        "rope.dimension_count": c.head_dim // 4, "full_attention_interval": 4, "ssm.conv_kernel": c.linear_conv_kernel_dim,
        "ssm.state_size": c.linear_key_head_dim, "ssm.group_count": c.linear_num_key_heads,
        "ssm.time_step_rank": c.linear_num_value_heads, "ssm.inner_size": c.linear_num_value_heads * c.linear_value_head_dim}
    if moe:
        numbers |= {"expert_count": c.num_experts, "expert_used_count": c.num_experts_per_tok,
                    "expert_feed_forward_length": c.moe_intermediate_size,
                    "expert_shared_feed_forward_length": c.shared_expert_intermediate_size}
    out = [kv("general.architecture", "str", arch), kv("general.name", "str", "golden")]
    out += [kv(f"{arch}.{key}", "u32", value) for key, value in numbers.items()]
    out += [kv(f"{arch}.attention.layer_norm_rms_epsilon", "f32", c.rms_norm_eps), kv(f"{arch}.rope.freq_base", "f32", 1e7)]
    if not moe:
        out.append(kv(f"{arch}.rope.dimension_sections", "[i32]", [2, 1, 1, 0]))
    names = [f"<t{i}>" for i in range(VOCABULARY)]
    return out + [kv("tokenizer.ggml.model", "str", "gpt2"), kv("tokenizer.ggml.pre", "str", "qwen2" if moe else "qwen35"),
                  kv("tokenizer.ggml.tokens", "[str]", names), kv("tokenizer.ggml.token_type", "[i32]", [1] * VOCABULARY),
                  kv("tokenizer.ggml.merges", "[str]", ["t h"]), kv("tokenizer.ggml.eos_token_id", "u32", VOCABULARY - 1),
                  kv("tokenizer.ggml.add_bos_token", "bool", 0)]


def write(path, meta, named):
    """Weight matrices in f16; vectors, convolutions and routers in f32, as converters leave them."""
    info, data, at = [], [], 0
    for name, x in named.items():
        half = x.dim() > 1 and "conv1d" not in name and "ffn_gate_inp" not in name
        raw = x.contiguous().numpy().astype("<f2" if half else "<f4").tobytes()
        dims = list(reversed(x.shape))
        info.append(gstr(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, int(half), at))
        data.append(raw + b"\0" * (-len(raw) % 32))
        at += len(data[-1])
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(info), len(meta)) + b"".join(meta) + b"".join(info)
    path.write_bytes(head + b"\0" * (-len(head) % 32) + b"".join(data))


def record(model, seed):
    draw = numpy.random.default_rng(seed)
    sequences = []
    for n in LENGTHS:
        tokens = draw.integers(0, VOCABULARY, n).tolist()
        with torch.no_grad():
            rows = model(torch.tensor([tokens]), use_cache=False).logits[0].double().log_softmax(-1).tolist()
        last = n - 1
        sequences.append({"tokens": tokens, "positions": [
            {"pos": p, "logits": [round(x, 6) for x in rows[p]]} for p in (0, last // 2, last - 1, last)]})
    return {"implementation": f"transformers {transformers.__version__} (f32, CPU)", "sequences": sequences}


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.manual_seed(0)
    for seed, make in enumerate((qwen3next, qwen35), start=3):
        arch = make.__name__
        model = make().float().eval()
        randomise(model, seed)
        write(folder / f"{arch}.gguf", metadata(arch, model.config), tensors(model.state_dict(), grouped=arch == "qwen3next"))
        (folder / f"{arch}.json").write_text(json.dumps(record(model, seed)) + "\n")


if __name__ == "__main__":
    main()
