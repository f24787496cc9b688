#!/usr/bin/env python3
"""Trains small language models of three families on one GPU, whose weights were not rounded to fewer than 16 bits.

  families.py DOCUMENTS OUT [--families qwen3,qwen3.5-moe,granite-hybrid] [--minutes 2.5] [--steps N] [--seed 1]

DOCUMENTS: texts that each end with a zero byte (corpus/build.py writes such files); 2 % of them, drawn by the seed, are held out.
OUT/FAMILY gets config.json, model.safetensors (matrices in f16) and tokenizer.json, which `chimere convert` turns into a GGUF
file, OUT/FAMILY.json parameters and perplexity; OUT/heldout.txt and OUT/calibration.txt are parts of the held-out texts. The
quantiser is measured on these models (docs/quantize.md): their blocks hold most of the weights. Needs PyTorch with CUDA,
transformers 5 and tokenizers.
"""
import argparse
import json
import math
import pathlib
import time

import numpy
import tokenizers
import torch
import transformers

# Qwen2's expression, as published in its tokenizer.json.
WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
END = "<|endoftext|>"
VOCABULARY, WINDOW, ROWS = 4096, 512, 64
PEAK_RATE, WEIGHT_DECAY = 1.5e-3, 0.05
COMMON = {"vocab_size": VOCABULARY, "hidden_size": 512, "max_position_embeddings": 4096, "tie_word_embeddings": True,
          "num_attention_heads": 8, "num_key_value_heads": 4, "bos_token_id": None, "eos_token_id": 0, "pad_token_id": None}


def qwen3():
    """Dense, attention in each layer."""
    return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(
        **COMMON, num_hidden_layers=5, head_dim=64, intermediate_size=1024))


def qwen35_moe():
    """Gated delta net in three layers of four, a mixture of experts in each."""
    return transformers.Qwen3_5MoeForCausalLM(transformers.Qwen3_5MoeTextConfig(
        **COMMON, num_hidden_layers=4, head_dim=64, layer_types=["linear_attention"] * 3 + ["full_attention"],
        linear_key_head_dim=64, linear_value_head_dim=64, linear_num_key_heads=4, linear_num_value_heads=8,
        num_experts=5, num_experts_per_tok=2, moe_intermediate_size=256, shared_expert_intermediate_size=256,
        output_router_logits=True, router_aux_loss_coef=0.01))


def granite_hybrid():
    """Mamba-2 in three layers of four, a dense network in each."""
    return transformers.GraniteMoeHybridForCausalLM(transformers.GraniteMoeHybridConfig(
        **COMMON, num_hidden_layers=4, layer_types=["mamba"] * 3 + ["attention"], position_embedding_type="rope",
        num_local_experts=0, num_experts_per_tok=0, intermediate_size=1024, shared_intermediate_size=1024,
        mamba_n_heads=16, mamba_d_head=64, mamba_d_state=64, mamba_n_groups=1, mamba_expand=2, mamba_chunk_size=32))


FAMILIES = {"qwen3": qwen3, "qwen3.5-moe": qwen35_moe, "granite-hybrid": granite_hybrid}


def learn_vocabulary(texts):
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.normalizer = tokenizers.normalizers.NFC()
    model.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Split(tokenizers.Regex(WORDS), "isolated"),
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    model.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=[END], show_progress=False,
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    model.train_from_iterator(texts, trainer)
    return model


def encode(model, texts):
    end = model.token_to_id(END)
    ids = []
    for at in range(0, len(texts), 256):
        for row in model.encode_batch(texts[at:at + 256]):
            ids.append(numpy.array(row.ids + [end], dtype=numpy.uint16))
    return torch.from_numpy(numpy.concatenate(ids).astype(numpy.int32)).cuda()


def rate(part):
    """The learning rate at a part of the time: up within 2 %, constant, and from half of it down to zero."""
    return PEAK_RATE * min(1, part / 0.02, 2 * (1 - part))


def loss_of(model, ids):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = model(input_ids=ids[:, :-1], use_cache=False)
    entropy = torch.nn.functional.cross_entropy(out.logits.float().flatten(0, 1), ids[:, 1:].flatten())
    extra = getattr(out, "aux_loss", None)
    return entropy, 0 if extra is None else model.config.router_aux_loss_coef * extra


def train(model, tokens, seconds, max_steps):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": others, "weight_decay": 0}],
                                  lr=PEAK_RATE, betas=(0.9, 0.95), fused=True)
    offsets = torch.arange(WINDOW + 1, device="cuda")
    start, step, part = time.monotonic(), 0, 0.0
    while part < 1:
        begin = torch.randint(len(tokens) - WINDOW - 1, (ROWS, 1), device="cuda")
        entropy, extra = loss_of(model, tokens[begin + offsets].long())
        (entropy + extra).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = rate(part)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
        if step % 10 == 0:
            torch.cuda.synchronize()
        part = max((time.monotonic() - start) / seconds, step / max_steps if max_steps else 0)
        if step % 200 == 0 or part >= 1:
            print(f"  step {step}, {time.monotonic() - start:.0f} s, {step * ROWS * WINDOW / (time.monotonic() - start):.0f} tokens/s, "
                  f"loss {entropy.item():.4f}", flush=True)


def heldout_perplexity(model, tokens):
    rows = len(tokens) // (WINDOW + 1)
    with torch.no_grad():
        losses = [loss_of(model, batch)[0].item()
                  for batch in tokens[:rows * (WINDOW + 1)].long().view(rows, -1).split(ROWS) if len(batch) == ROWS]
    if not losses:
        raise ValueError(f"the held-out texts have fewer than {ROWS} windows of {WINDOW} tokens")
    return math.exp(sum(losses) / len(losses))


def save(model, vocabulary, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.data = parameter.data.half()
    model.save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(tokenizer_object=vocabulary, eos_token=END).save_pretrained(folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("documents", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--minutes", type=float, default=2.5, help="of each family")
    parser.add_argument("--steps", type=int, default=0, help="stop after as many")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    texts = [text for text in arguments.documents.read_bytes().decode("utf-8", "replace").split("\0") if text.strip()]
    numpy.random.default_rng(arguments.seed).shuffle(texts)
    last = max(1, len(texts) // 50)
    training, heldout = texts[:-last], texts[-last:]
    (arguments.out / "heldout.txt").write_text("\n".join(heldout[::2])[:400_000])
    (arguments.out / "calibration.txt").write_text("\n".join(heldout[1::2])[:400_000])
    vocabulary = learn_vocabulary(training[:len(training) // 2])
    tokens, other = encode(vocabulary, training), encode(vocabulary, heldout[:200])
    print(f"{len(training)} documents of {len(tokens)} tokens", flush=True)
    torch.set_float32_matmul_precision("high")
    for name in arguments.families.split(","):
        torch.manual_seed(arguments.seed)
        model = FAMILIES[name]().cuda().train()
        parameters = sum(p.numel() for p in model.parameters())
        print(f"{name}: {parameters / 1e6:.1f} M parameters", flush=True)
        train(model, tokens, 60 * arguments.minutes, arguments.steps)
        perplexity = heldout_perplexity(model.eval(), other)
        print(f"  perplexity of the held-out texts: {perplexity:.3f}", flush=True)
        save(model, vocabulary, arguments.out / name)
        (arguments.out / f"{name}.json").write_text(json.dumps({"parameters": parameters, "perplexity": perplexity}))
        del model


if __name__ == "__main__":
    main()
