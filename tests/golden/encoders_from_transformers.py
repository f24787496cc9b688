#!/usr/bin/env python3
"""Makes golden encoders with transformers: encoders_from_transformers.py FOLDER [NAME...] writes NAME.gguf and NAME.json.

Needs torch and transformers (5.17 made the files here) and bench/synth_gguf.py. Weights are random numbers that f16 can hold, from a fixed
seed; the model computes in f32 on the CPU. Tensors have the names that llama.cpp's converter gives them. A JSON has for each sequence its
tokens, the final hidden state of some rows and of the mean, or for a classifier the values of its head.
"""
import copy
import json
import math
import pathlib
import struct
import sys
import traceback

import numpy
import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
for folder in (HERE.parents[1] / "bench", pathlib.Path.cwd() / "bench"):
    sys.path.insert(0, str(folder))
from synth_gguf import gstr, kv  # noqa: E402

VOCABULARY = 96
LENGTHS = [5, 70, 200]  # within a window of ModernBERT, across its end, far beyond
MEAN, CLS, LAST, RANK = 1, 2, 3, 4
COMMON = dict(vocab_size=VOCABULARY, hidden_size=64, num_attention_heads=4, intermediate_size=96, max_position_embeddings=512,
              pad_token_id=0, bos_token_id=None, eos_token_id=None)
BERT = dict(COMMON, num_hidden_layers=3, layer_norm_eps=1e-12, type_vocab_size=2, hidden_act="gelu")


def bert():
    return transformers.BertModel(transformers.BertConfig(**BERT), add_pooling_layer=False), MEAN


def bert_rank():
    return transformers.BertForSequenceClassification(transformers.BertConfig(**BERT, num_labels=1)), RANK


def nomic_bert():
    config = transformers.NomicBertConfig(**dict(BERT, hidden_act="silu"), rotary_emb_fraction=1.0, rotary_emb_base=1000)
    return transformers.NomicBertModel(config, add_pooling_layer=False), MEAN


def modern_bert():
    config = transformers.ModernBertConfig(**COMMON, num_hidden_layers=4, norm_eps=1e-5, cls_token_id=1, sep_token_id=2)
    return transformers.ModernBertModel(config), CLS


def modern_bert_rank():
    config = transformers.ModernBertConfig(**COMMON, num_hidden_layers=4, norm_eps=1e-5, cls_token_id=1, sep_token_id=2, num_labels=1,
                                           classifier_pooling="mean")
    return transformers.ModernBertForSequenceClassification(config), RANK


def qwen3_rank():
    config = transformers.Qwen3Config(**dict(COMMON, pad_token_id=None), num_hidden_layers=3, num_key_value_heads=2, head_dim=32, rms_norm_eps=1e-6,
                                      num_labels=2)
    return transformers.Qwen3ForSequenceClassification(config), RANK


ARCH = {"bert": "bert", "bert_rank": "bert", "nomic_bert": "nomic-bert", "modern_bert": "modern-bert", "modern_bert_rank": "modern-bert",
        "qwen3_rank": "qwen3"}


def randomise(model, seed):
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            x = torch.randn(p.shape, generator=draw)
            if p.dim() == 1:
                x = 1 + 0.1 * x if name.endswith("weight") else 0.1 * x
            elif "embeddings" not in name and "embed_tokens" not in name:
                x = x / math.sqrt(p.shape[-1])
            p.copy_(x.half().float())


BERT_NAMES = {
    "embeddings.word_embeddings": "token_embd", "embeddings.token_type_embeddings": "token_types",
    "embeddings.position_embeddings": "position_embd", "embeddings.LayerNorm": "token_embd_norm", "pooler.dense": "cls",
    "classifier": "cls.output", "attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm", "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"}
# transformers' NomicBert: projections of a Llama, norms after the sub-layers.
NOMIC_NAMES = {
    "embeddings.word_embeddings": "token_embd", "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm", "embeddings.norm": "token_embd_norm", "emb_ln": "token_embd_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "attn_output_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "post_mlp_layernorm": "layer_output_norm", "post_feedforward_layernorm": "layer_output_norm"}
MODERN_NAMES = {
    "embeddings.tok_embeddings": "token_embd", "embeddings.norm": "token_embd_norm", "final_norm": "output_norm", "head.dense": "cls",
    "head.norm": "cls.norm", "classifier": "cls.output", "attn.Wqkv": "attn_qkv", "attn.Wo": "attn_output", "attn_norm": "attn_norm",
    "mlp_norm": "ffn_norm", "mlp.Wi": "ffn_up", "mlp.Wo": "ffn_down"}
QWEN3_NAMES = {
    "embed_tokens": "token_embd", "norm": "output_norm", "score": "cls.output", "input_layernorm": "attn_norm", "mlp.down_proj": "ffn_down",
    "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output"}
NAMES = {"bert": BERT_NAMES, "nomic-bert": NOMIC_NAMES, "modern-bert": MODERN_NAMES, "qwen3": QWEN3_NAMES}


def tensors(model, arch):
    out = {}
    for name, x in model.state_dict().items():
        if name.endswith("position_ids") or name.endswith("inv_freq") or name.endswith("token_type_ids"):
            continue
        base, kind = name.rsplit(".", 1)
        for prefix in ("model.", "bert.", "nomic_bert."):
            base = base[len(prefix):] if base.startswith(prefix) else base
        parts, block = base.split("."), ""
        for at, part in enumerate(parts):
            if part.isdigit():
                block, base = f"blk.{part}.", ".".join(parts[at + 1:])
                break
        out[f"{block}{NAMES[arch][base]}.{kind}"] = x
    return out


def metadata(arch, c, pooling):
    numbers = {"block_count": c.num_hidden_layers, "context_length": c.max_position_embeddings, "embedding_length": c.hidden_size,
               "feed_forward_length": c.intermediate_size, "attention.head_count": c.num_attention_heads, "pooling_type": pooling}
    eps = getattr(c, "layer_norm_eps", None) or getattr(c, "norm_eps", None)
    out = [kv("general.architecture", "str", arch), kv("general.name", "str", "golden")]
    if arch == "qwen3":
        numbers |= {"attention.head_count_kv": c.num_key_value_heads, "attention.key_length": c.head_dim, "attention.value_length": c.head_dim}
        out += [kv(f"{arch}.attention.layer_norm_rms_epsilon", "f32", c.rms_norm_eps), kv(f"{arch}.rope.freq_base", "f32", 1e4)]
    else:
        out += [kv(f"{arch}.attention.layer_norm_epsilon", "f32", eps), kv(f"{arch}.attention.causal", "bool", 0)]
    if arch == "nomic-bert":
        out += [kv(f"{arch}.rope.freq_base", "f32", 1000)]
    if arch == "modern-bert":
        numbers |= {"attention.sliding_window": c.local_attention}
        out += [kv(f"{arch}.rope.freq_base", "f32", 160000.0)]
    out += [kv(f"{arch}.{key}", "u32", value) for key, value in numbers.items()]
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"t{i}" for i in range(5, VOCABULARY)]
    gpt = arch in ("modern-bert", "qwen3")
    out += [kv("tokenizer.ggml.model", "str", "gpt2" if gpt else "bert"), kv("tokenizer.ggml.tokens", "[str]", names),
            kv("tokenizer.ggml.token_type", "[i32]", [3] * 5 + [1] * (VOCABULARY - 5))]
    if gpt:
        out += [kv("tokenizer.ggml.merges", "[str]", ["t h"]), kv("tokenizer.ggml.pre", "str", "qwen2" if arch == "qwen3" else "gpt-2"),
                kv("tokenizer.ggml.eos_token_id", "u32", 3)]
    else:
        out += [kv("tokenizer.ggml.pre", "str", "jina-v2-en"), kv("tokenizer.ggml.token_type_count", "u32", 2),
                kv("tokenizer.ggml.cls_token_id", "u32", 2), kv("tokenizer.ggml.bos_token_id", "u32", 2),
                kv("tokenizer.ggml.seperator_token_id", "u32", 3), kv("tokenizer.ggml.unknown_token_id", "u32", 1),
                kv("tokenizer.ggml.padding_token_id", "u32", 0)]
    return out


def write(path, meta, named):
    """Weight matrices in f16; vectors and small embedding tables in f32, as converters leave them."""
    info, data, at = [], [], 0
    for name, x in named.items():
        half = x.dim() > 1 and not name.startswith(("token_types", "position_embd"))
        raw = x.contiguous().numpy().astype("<f2" if half else "<f4").tobytes()
        dims = list(reversed(x.shape))
        info.append(gstr(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, int(half), at))
        data.append(raw + b"\0" * (-len(raw) % 32))
        at += len(data[-1])
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(info), len(meta)) + b"".join(meta) + b"".join(info)
    path.write_bytes(head + b"\0" * (-len(head) % 32) + b"".join(data))


def rounded(values):
    return [round(x, 6) for x in values]


def record(model, arch, pooling, seed):
    draw = numpy.random.default_rng(seed)
    sequences, largest = [], 0.0
    double = copy.deepcopy(model).double()
    for n in LENGTHS:
        tokens = draw.integers(5, VOCABULARY, n).tolist()
        entry = {"tokens": tokens}
        inputs = [{"input_ids": torch.tensor([tokens])}]
        if arch == "bert" and pooling == RANK:  # two segments
            entry["second_segment"] = n // 3
            inputs[0]["token_type_ids"] = torch.tensor([[0] * (n // 3) + [1] * (n - n // 3)])
        with torch.no_grad():
            both = [m(**inputs[0]) for m in (model, double)]
        if pooling == RANK:
            entry["values"] = rounded(both[0].logits[0].tolist())
            largest = max(largest, (both[0].logits.double() - both[1].logits).abs().max().item())
        else:
            rows, exact = (out.last_hidden_state[0] for out in both)
            largest = max(largest, (rows.double() - exact).abs().max().item())
            entry["rows"] = [{"pos": p, "hidden": rounded(rows[p].tolist())} for p in (0, (n - 1) // 2, n - 1)]
            entry["mean"] = rounded(rows.double().mean(0).tolist())
        sequences.append(entry)
    return {"implementation": f"transformers {transformers.__version__} (f32, CPU)", "f32_to_f64": largest, "sequences": sequences}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    failed = False
    for seed, name in enumerate(ARCH, start=11):
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        try:
            model, pooling = globals()[name]()
            model = model.float().eval()
            model.config._attn_implementation = "eager"
            randomise(model, seed)
            (folder / f"{name}.json").write_text(json.dumps(record(model, ARCH[name], pooling, seed)) + "\n")
            write(folder / f"{name}.gguf", metadata(ARCH[name], model.config, pooling), tensors(model, ARCH[name]))
        except Exception:  # noqa: BLE001: the other models are made all the same
            failed = True
            print(name, "failed")
            traceback.print_exc()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
