"""Shapes, tensors and keys of the state-space hybrids and of the block drafter that synth_gguf.py writes."""

# pattern: a letter for each layer. Nemotron: M state-space duality, E experts, * attention, each a layer of its own. Granite: M or *,
# each followed by experts.
NEMOTRON_3_NANO = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
SIZES = {
    # https://huggingface.co/nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16, config.json
    "nemotron-3-nano": dict(arch="nemotron_h_moe", pattern=NEMOTRON_3_NANO, n_embd=2688, n_head=32, n_head_kv=2, head_dim=128, rot=128,
                            n_expert=128, n_used=6, n_ff=1856, n_ff_sh=3712, conv=4, state=128, groups=8, ssm_heads=64, ssm_dim=64,
                            n_vocab=131072, ctx=262144),
    # https://huggingface.co/ibm-granite/granite-4.0-h-tiny, config.json
    "granite-4-h-tiny": dict(arch="granitehybrid", pattern="MMMMM*MMMMMMMMM*MMMMMMMMM*MMMMMMMMM*MMMM", n_embd=1536, n_head=12,
                             n_head_kv=4, head_dim=128, rot=128, n_expert=64, n_used=6, n_ff=512, n_ff_sh=1024, conv=4, state=128,
                             groups=1, ssm_heads=48, ssm_dim=64, n_vocab=100352, ctx=131072),
    # A drafter for 35b-a3b with eight layers of Qwen3's shapes and five tapped layers, as https://arxiv.org/abs/2602.06036 describes
    # drafters for models of this size.
    "dflash-35b-a3b": dict(arch="dflash", pattern="A" * 8, n_embd=2048, n_head=32, n_head_kv=4, head_dim=128, n_ff=6144,
                           target_layers=[2, 11, 20, 29, 38], block=16, n_vocab=248320, ctx=262144),
}
ARCHITECTURES = tuple(s["arch"] for s in SIZES.values())


def plan(s, m, f32):
    """Tensors as (name, dims in GGUF order: fastest first, type, kind of value). m: role -> type."""
    if s["arch"] == "dflash":
        return plan_drafter(s, m, f32)
    nemotron = s["arch"].startswith("nemotron")
    E, H, KV, D, F, X, S = (s[k] for k in ("n_embd", "n_head", "n_head_kv", "head_dim", "n_ff", "n_expert", "n_ff_sh"))
    inner = s["ssm_heads"] * s["ssm_dim"]
    conv_dim = inner + 2 * s["groups"] * s["state"]
    t = [("token_embd.weight", (E, s["n_vocab"]), m["embd"], "w"), ("output_norm.weight", (E,), f32, "one"),
         ("output.weight", (E, s["n_vocab"]), m["out"], "w")]
    for i, letter in enumerate(s["pattern"]):
        b = f"blk.{i}."
        t += [(b + "attn_norm.weight", (E,), f32, "one")]
        if letter == "M":
            t += [(b + "ssm_in.weight", (E, inner + conv_dim + s["ssm_heads"]), m["attn"], "w"),
                  (b + "ssm_conv1d.weight", (s["conv"], conv_dim), f32, "w"), (b + "ssm_conv1d.bias", (conv_dim,), f32, "small"),
                  (b + "ssm_dt.bias", (s["ssm_heads"],), f32, "small"), (b + "ssm_a", (1, s["ssm_heads"]), f32, "decay"),
                  (b + "ssm_d", (1, s["ssm_heads"]), f32, "one"),
                  (b + "ssm_norm.weight", (inner // s["groups"], s["groups"]), f32, "one"),
                  (b + "ssm_out.weight", (inner, E), m["ssm_out"], "w")]
        if letter == "*":
            t += [(b + "attn_q.weight", (E, H * D), m["attn_qk"], "w"), (b + "attn_k.weight", (E, KV * D), m["attn_qk"], "w"),
                  (b + "attn_v.weight", (E, KV * D), m["attn_qk"], "w"), (b + "attn_output.weight", (H * D, E), m["attn"], "w")]
        if nemotron and letter != "E":
            continue
        t += [(b + "ffn_gate_inp.weight", (E, X), f32, "w"), (b + "ffn_up_exps.weight", (E, F, X), m["exps"], "w"),
              (b + "ffn_down_exps.weight", (F, E, X), m["exps"], "w"), (b + "ffn_up_shexp.weight", (E, S), m["shexp"], "w"),
              (b + "ffn_down_shexp.weight", (S, E), m["shexp"], "w")]
        if nemotron:
            t += [(b + "exp_probs_b.bias", (X,), f32, "small")]
        else:
            t += [(b + "ffn_norm.weight", (E,), f32, "one"), (b + "ffn_gate_exps.weight", (E, F, X), m["exps"], "w"),
                  (b + "ffn_gate_shexp.weight", (E, S), m["shexp"], "w")]
    return t


def plan_drafter(s, m, f32):
    E, D, F = s["n_embd"], s["head_dim"], s["n_ff"]
    q, kv = s["n_head"] * D, s["n_head_kv"] * D
    t = [("fc.weight", (len(s["target_layers"]) * E, E), m["attn"], "w"), ("enc.output_norm.weight", (E,), f32, "one"),
         ("output_norm.weight", (E,), f32, "one")]
    for i in range(len(s["pattern"])):
        b = f"blk.{i}."
        t += [(b + "attn_norm.weight", (E,), f32, "one"), (b + "ffn_norm.weight", (E,), f32, "one"),
              (b + "attn_q.weight", (E, q), m["attn"], "w"), (b + "attn_k.weight", (E, kv), m["attn"], "w"),
              (b + "attn_v.weight", (E, kv), m["attn"], "w"), (b + "attn_output.weight", (q, E), m["attn"], "w"),
              (b + "attn_q_norm.weight", (D,), f32, "one"), (b + "attn_k_norm.weight", (D,), f32, "one"),
              (b + "ffn_gate.weight", (E, F), m["attn"], "w"), (b + "ffn_up.weight", (E, F), m["attn"], "w"),
              (b + "ffn_down.weight", (F, E), m["attn"], "w")]
    return t


def keys(s):
    """Keys of the architecture as (name, type, value)."""
    if s["arch"] == "dflash":
        return [("attention.head_count_kv", "u32", s["n_head_kv"]), ("attention.layer_norm_rms_epsilon", "f32", 1e-6),
                ("feed_forward_length", "u32", s["n_ff"]), ("rope.freq_base", "f32", 1e7), ("target_layers", "[i32]", s["target_layers"]),
                ("vocab_size", "u32", s["n_vocab"]), ("block_size", "u32", s["block"])]
    kv_heads = [s["n_head_kv"] if letter == "*" else 0 for letter in s["pattern"]]
    out = [("attention.head_count_kv", "[i32]", kv_heads), ("attention.layer_norm_rms_epsilon", "f32", 1e-5),
           ("vocab_size", "u32", s["n_vocab"]), ("rope.freq_base", "f32", 1e4), ("rope.dimension_count", "u32", s["rot"]),
           ("ssm.conv_kernel", "u32", s["conv"]), ("ssm.inner_size", "u32", s["ssm_heads"] * s["ssm_dim"]),
           ("ssm.state_size", "u32", s["state"]), ("ssm.time_step_rank", "u32", s["ssm_heads"]), ("ssm.group_count", "u32", s["groups"]),
           ("expert_count", "u32", s["n_expert"]), ("expert_used_count", "u32", s["n_used"]),
           ("expert_shared_feed_forward_length", "u32", s["n_ff_sh"])]
    if s["arch"].startswith("nemotron"):
        return out + [("feed_forward_length", "[i32]", [s["n_ff"] if letter == "E" else 0 for letter in s["pattern"]]),
                      ("attention.layer_norm_epsilon", "f32", 1e-5), ("expert_feed_forward_length", "u32", s["n_ff"]),
                      ("expert_shared_count", "u32", 1), ("expert_weights_norm", "bool", 1), ("expert_weights_scale", "f32", 2.5),
                      ("expert_group_count", "u32", 1), ("expert_group_used_count", "u32", 1)]
    return out + [("feed_forward_length", "u32", s["n_ff"]), ("embedding_scale", "f32", 12.0), ("residual_scale", "f32", 0.22),
                  ("attention.scale", "f32", 0.0078125), ("logit_scale", "f32", 6.0)]
