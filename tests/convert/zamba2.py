#!/usr/bin/env python3
"""Makes the fixtures of Zamba 2: zamba2.py FOLDER. Needs numpy.

What a copy of transformers computes could not be recorded for this architecture, so its log-probabilities are computed here, row by row in
double precision, from the equations of the papers (arXiv:2411.15242, arXiv:2405.21060) and the structure of transformers' modeling_zamba2. Not
reproduced is a floor of transformers' chunked scan alone, dt >= time_step_min, which the reference kernels of mamba-ssm lack.
"""
import json
import math
import pathlib
import sys

import numpy

from pack import draw

VOCABULARY = 96
SHAPE = dict(vocab_size=VOCABULARY, hidden_size=64, num_hidden_layers=6, layers_block_type=["mamba", "hybrid", "mamba", "hybrid", "hybrid", "mamba"],
             mamba_d_state=16, mamba_d_conv=4, mamba_expand=2, n_mamba_heads=8, mamba_headdim=16, num_attention_heads=4, num_key_value_heads=4,
             attention_head_dim=32, intermediate_size=96, max_position_embeddings=512, adapter_rank=8, hidden_act="gelu", rms_norm_eps=1e-5,
             add_bias_linear=False, use_long_context=False, tie_word_embeddings=True, rope_theta=10000.0, model_type="zamba2",
             architectures=["Zamba2ForCausalLM"])
MODELS = {
    "zamba2": dict(SHAPE, mamba_ngroups=2, num_mem_blocks=2, use_mem_rope=True, use_shared_attention_adapter=False),
    "zamba2_attention": dict(SHAPE, mamba_ngroups=1, num_mem_blocks=1, use_mem_rope=False, use_shared_attention_adapter=True),
}


def rule(name, shape):
    """Offset and scale of a tensor's values, in 1/4096, as record.py chooses them."""
    if name.endswith("A_log"):
        return -2048, 6144
    if name.endswith(".D"):
        return 4096, 1024
    if name.endswith("dt_bias"):
        return -2048, 4096
    if "norm" in name:
        return 4096, 1024
    if len(shape) == 1:
        return 0, 512
    if "embed" in name:
        return 0, 4096
    return 0, max(1, round(4096 * math.sqrt(3 / shape[-1])))


def shapes(c):
    """Tensors as save_pretrained() leaves them: what layers share is stored with the first of them."""
    n, inner, heads = c["hidden_size"], c["mamba_expand"] * c["hidden_size"], c["n_mamba_heads"]
    conv = inner + 2 * c["mamba_ngroups"] * c["mamba_d_state"]
    wide = c["num_attention_heads"] * c["attention_head_dim"]
    kv = c["num_key_value_heads"] * c["attention_head_dim"]
    uses = [i for i, kind in enumerate(c["layers_block_type"]) if kind == "hybrid"]
    out = {"model.embed_tokens.weight": [c["vocab_size"], n], "model.final_layernorm.weight": [n]}
    for i, kind in enumerate(c["layers_block_type"]):
        layer = f"model.layers.{i}."
        mamba = layer + ("mamba_decoder." if kind == "hybrid" else "")
        out |= {mamba + "input_layernorm.weight": [n], mamba + "mamba.in_proj.weight": [inner + conv + heads, n],
                mamba + "mamba.conv1d.weight": [conv, 1, c["mamba_d_conv"]], mamba + "mamba.conv1d.bias": [conv], mamba + "mamba.A_log": [heads],
                mamba + "mamba.D": [heads], mamba + "mamba.dt_bias": [heads], mamba + "mamba.norm.weight": [inner],
                mamba + "mamba.out_proj.weight": [n, inner]}
        if kind != "hybrid":
            continue
        out[layer + "linear.weight"] = [n, n]
        if uses.index(i) >= c["num_mem_blocks"]:
            continue
        block = layer + "shared_transformer."
        out |= {block + "input_layernorm.weight": [2 * n], block + "pre_ff_layernorm.weight": [n], block + "self_attn.q_proj.weight": [wide, 2 * n],
                block + "self_attn.k_proj.weight": [kv, 2 * n], block + "self_attn.v_proj.weight": [kv, 2 * n],
                block + "self_attn.o_proj.weight": [n, wide], block + "feed_forward.gate_up_proj.weight": [2 * c["intermediate_size"], n],
                block + "feed_forward.down_proj.weight": [n, c["intermediate_size"]]}
        for use in range(len(uses)):
            if use % c["num_mem_blocks"] != uses.index(i):
                continue
            adapters = {"feed_forward.gate_up_proj": (n, 2 * c["intermediate_size"])}
            if c["use_shared_attention_adapter"]:
                adapters |= {"self_attn.linear_q": (2 * n, wide), "self_attn.linear_k": (2 * n, kv), "self_attn.linear_v": (2 * n, kv)}
            for name, (inputs, outputs) in adapters.items():
                out[f"{block}{name}_adapter_list.{use}.0.weight"] = [c["adapter_rank"], inputs]
                out[f"{block}{name}_adapter_list.{use}.1.weight"] = [outputs, c["adapter_rank"]]
    return out


def silu(x):
    return x / (1 + numpy.exp(-x))


class Model:
    def __init__(self, c, source):
        self.c = c
        self.w = {name: draw(name, int(numpy.prod(shape)), offset, scale).astype(numpy.float64).reshape(shape)
                  for name, shape, offset, scale in source}
        self.uses = [i for i, kind in enumerate(c["layers_block_type"]) if kind == "hybrid"]

    def norm(self, x, name, groups=1):
        parts = x.reshape(x.shape[0], groups, -1)
        parts = parts / numpy.sqrt((parts ** 2).mean(-1, keepdims=True) + 1e-5)
        return parts.reshape(x.shape) * self.w[name]

    def mamba(self, name, h):
        c, w = self.c, self.w
        heads, dim, groups, state = c["n_mamba_heads"], c["mamba_headdim"], c["mamba_ngroups"], c["mamba_d_state"]
        inner = heads * dim
        z, xbc, dt = numpy.split(h @ w[name + "in_proj.weight"].T, [inner, 2 * inner + 2 * groups * state], axis=1)
        taps = w[name + "conv1d.weight"][:, 0]
        padded = numpy.concatenate([numpy.zeros((c["mamba_d_conv"] - 1, xbc.shape[1])), xbc])
        xbc = silu(numpy.array([(padded[t:t + c["mamba_d_conv"]] * taps.T).sum(0) for t in range(len(h))]) + w[name + "conv1d.bias"])
        x = xbc[:, :inner].reshape(-1, heads, dim)
        b = xbc[:, inner:inner + groups * state].reshape(-1, groups, state).repeat(heads // groups, axis=1)
        e = xbc[:, inner + groups * state:].reshape(-1, groups, state).repeat(heads // groups, axis=1)
        dt = numpy.log1p(numpy.exp(dt + w[name + "dt_bias"]))
        decay = numpy.exp(-numpy.exp(w[name + "A_log"]) * dt)
        s, rows = numpy.zeros((heads, dim, state)), []
        for t in range(len(h)):
            s = s * decay[t][:, None, None] + (dt[t][:, None] * x[t])[:, :, None] * b[t][:, None, :]
            rows.append((s * e[t][:, None, :]).sum(-1) + w[name + "D"][:, None] * x[t])
        y = numpy.array(rows).reshape(-1, inner) * silu(z)
        return self.norm(y, name + "norm.weight", groups) @ w[name + "out_proj.weight"].T

    def attention(self, q, k, v):
        c = self.c
        dim, heads, kv_heads = c["attention_head_dim"], c["num_attention_heads"], c["num_key_value_heads"]
        q, k, v = (t.reshape(len(t), -1, dim) for t in (q, k, v))
        if c["use_mem_rope"]:
            angle = numpy.arange(len(q))[:, None] * c["rope_theta"] ** (-numpy.arange(0, dim, 2) / dim)
            cos, sin = (numpy.concatenate([f, f], 1)[:, None] for f in (numpy.cos(angle), numpy.sin(angle)))
            q, k = (t * cos + numpy.concatenate([-t[..., dim // 2:], t[..., :dim // 2]], -1) * sin for t in (q, k))
        out = []
        for head in range(heads):
            of = head // (heads // kv_heads)
            scores = q[:, head] @ k[:, of].T / math.sqrt(dim / 2) + numpy.triu(numpy.full((len(q), len(q)), -numpy.inf), 1)
            p = numpy.exp(scores - scores.max(-1, keepdims=True))
            out.append(p / p.sum(-1, keepdims=True) @ v[:, of])
        return numpy.concatenate(out, 1)

    def shared(self, layer, x, embedding):
        w, use = self.w, self.uses.index(layer)
        block = f"model.layers.{self.uses[use % self.c['num_mem_blocks']]}.shared_transformer."

        def own(name, h):
            a = w.get(f"{block}{name}_adapter_list.{use}.0.weight")
            return 0 if a is None else h @ a.T @ w[f"{block}{name}_adapter_list.{use}.1.weight"].T

        h = self.norm(numpy.concatenate([x, embedding], 1), block + "input_layernorm.weight")
        heads = [h @ w[f"{block}self_attn.{n}_proj.weight"].T + own(f"self_attn.linear_{n}", h) for n in "qkv"]
        h = self.norm(self.attention(*heads) @ w[block + "self_attn.o_proj.weight"].T, block + "pre_ff_layernorm.weight")
        both = h @ w[block + "feed_forward.gate_up_proj.weight"].T + own("feed_forward.gate_up_proj", h)
        gate, up = numpy.split(both, 2, axis=1)
        gelu = gate * (1 + numpy.vectorize(math.erf)(gate / math.sqrt(2))) / 2
        return (gelu * up) @ w[block + "feed_forward.down_proj.weight"].T @ w[f"model.layers.{layer}.linear.weight"].T

    def log_probabilities(self, tokens):
        embedding = self.w["model.embed_tokens.weight"][tokens]
        x = embedding
        for i, kind in enumerate(self.c["layers_block_type"]):
            layer = f"model.layers.{i}." + ("mamba_decoder." if kind == "hybrid" else "")
            h = x + self.shared(i, x, embedding) if kind == "hybrid" else x
            x = x + self.mamba(layer + "mamba.", self.norm(h, layer + "input_layernorm.weight"))
        logits = self.norm(x, "model.final_layernorm.weight") @ self.w["model.embed_tokens.weight"].T
        logits -= logits.max(-1, keepdims=True)
        return logits - numpy.log(numpy.exp(logits).sum(-1, keepdims=True))


def main():
    here = pathlib.Path(__file__).resolve().parent
    sequences = json.loads((here / "sequences.json").read_text())
    for name, config in MODELS.items():
        source = [[tensor, shape, *rule(tensor, shape)] for tensor, shape in sorted(shapes(config).items())]
        model = Model(config, source)
        rows = numpy.concatenate([model.log_probabilities(tokens) for tokens in sequences])
        values = [[round(float(row[(7 * p + 19 * k) % VOCABULARY]), 5) for k in range(5)] for p, row in enumerate(rows)]
        out = {"config": config, "source": source, "values": values}
        lines = [f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}" for key, value in out.items()]
        (pathlib.Path(sys.argv[1]) / f"{name}.json").write_text("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    main()
