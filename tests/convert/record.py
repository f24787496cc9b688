#!/usr/bin/env python3
"""Makes tiny random models of every family with transformers and converts them with llama.cpp: record.py WORK LLAMA_CPP OUTPUT [FAMILY ...].

Needs torch, transformers 5.17, tokenizers, safetensors, sentencepiece, and a folder with llama.cpp's gguf-py and conversion. Each family
is a process of its own; OUTPUT/FAMILY/log.txt says what failed. pack.py makes fixtures of the output (README.md).
"""
import time
T0 = time.time()
import json, math, os, sys, traceback, hashlib, gzip, pathlib, signal, io, shutil
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["HF_HUB_OFFLINE"] = "1"
import numpy as np, torch, transformers, safetensors
from safetensors.numpy import load_file, save_file
torch.set_num_threads(1)
T = transformers
WORK, CONV, OUT = (pathlib.Path(x) for x in sys.argv[1:4])
sys.path.insert(1, str(CONV / "gguf-py")); sys.path.insert(1, str(CONV))
CONV_ERROR = None
try:
    import gguf
    from conversion import ModelBase, ModelType, get_model_architecture, get_model_class
    from conversion.base import TextModel
except Exception:
    CONV_ERROR = traceback.format_exc()
V = 96
ROPE = dict(rope_type="default", rope_theta=10000.0)
TX = dict(vocab_size=V, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
          max_position_embeddings=512, bos_token_id=1, eos_token_id=2, pad_token_id=0)
HD = dict(TX, head_dim=32)
DN = dict(linear_conv_kernel_dim=4, linear_key_head_dim=16, linear_value_head_dim=16, linear_num_key_heads=2, linear_num_value_heads=6)
GR = dict(embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.4, logits_scaling=2.0)
MB = dict(mamba_n_heads=8, mamba_d_head=16, mamba_n_groups=2, mamba_d_state=16, mamba_d_conv=4, mamba_expand=2, mamba_chunk_size=32)
Q35 = dict(rope_type="default", rope_theta=1e6, partial_rotary_factor=0.25, mrope_section=[2, 1, 1], mrope_interleaved=True)
def F():
    f = {}
    def add(name, cls, conf, **kw):
        f[name] = (cls, conf, kw)
    add("llama", "LlamaForCausalLM", lambda: T.LlamaConfig(**HD, tie_word_embeddings=True, rope_parameters=dict(rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)))
    add("llama_bias", "LlamaForCausalLM", lambda: T.LlamaConfig(**TX, tie_word_embeddings=False, attention_bias=True, mlp_bias=False, rope_parameters=ROPE))
    add("mistral", "MistralForCausalLM", lambda: T.MistralConfig(**HD, tie_word_embeddings=False, sliding_window=None, rope_parameters=ROPE))
    add("mixtral", "MixtralForCausalLM", lambda: T.MixtralConfig(**TX, tie_word_embeddings=False, sliding_window=None, num_local_experts=4, num_experts_per_tok=2, rope_parameters=ROPE))
    add("qwen2", "Qwen2ForCausalLM", lambda: T.Qwen2Config(**TX, tie_word_embeddings=True, rope_parameters=ROPE))
    add("qwen2_moe", "Qwen2MoeForCausalLM", lambda: T.Qwen2MoeConfig(**TX, tie_word_embeddings=False, moe_intermediate_size=32, shared_expert_intermediate_size=64, num_experts=6, num_experts_per_tok=2, norm_topk_prob=False, rope_parameters=ROPE))
    add("qwen3", "Qwen3ForCausalLM", lambda: T.Qwen3Config(**HD, tie_word_embeddings=True, rope_parameters=ROPE))
    add("qwen3_yarn", "Qwen3ForCausalLM", lambda: T.Qwen3Config(**HD, tie_word_embeddings=True, rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=64)))
    add("qwen3_moe", "Qwen3MoeForCausalLM", lambda: T.Qwen3MoeConfig(**HD, tie_word_embeddings=False, moe_intermediate_size=32, num_experts=6, num_experts_per_tok=2, norm_topk_prob=True, rope_parameters=ROPE))
    L4 = dict(HD, num_hidden_layers=4)
    add("qwen3_next", "Qwen3NextForCausalLM", lambda: T.Qwen3NextConfig(**L4, **DN, tie_word_embeddings=False, moe_intermediate_size=32, shared_expert_intermediate_size=64, num_experts=6, num_experts_per_tok=2, norm_topk_prob=True, rope_parameters=dict(ROPE, partial_rotary_factor=0.25)), zero=True)
    add("qwen3_5", "Qwen3_5ForCausalLM", lambda: T.Qwen3_5TextConfig(**L4, **DN, tie_word_embeddings=True, rope_parameters=Q35), zero=True)
    add("qwen3_5_moe", "Qwen3_5MoeForCausalLM", lambda: T.Qwen3_5MoeTextConfig(**L4, **DN, tie_word_embeddings=False, moe_intermediate_size=32, shared_expert_intermediate_size=64, num_experts=6, num_experts_per_tok=2, rope_parameters=Q35), zero=True)
    add("granite", "GraniteForCausalLM", lambda: T.GraniteConfig(**TX, **GR, tie_word_embeddings=True, rope_parameters=ROPE))
    add("granitemoe", "GraniteMoeForCausalLM", lambda: T.GraniteMoeConfig(**TX, **GR, tie_word_embeddings=True, num_local_experts=6, num_experts_per_tok=2, rope_parameters=ROPE))
    add("granitemoeshared", "GraniteMoeSharedForCausalLM", lambda: T.GraniteMoeSharedConfig(**TX, **GR, tie_word_embeddings=True, num_local_experts=6, num_experts_per_tok=2, shared_intermediate_size=64, rope_parameters=ROPE))
    LT = ["mamba", "attention", "mamba", "attention"]
    G4 = dict(TX, num_hidden_layers=4)
    add("granitemoehybrid", "GraniteMoeHybridForCausalLM", lambda: T.GraniteMoeHybridConfig(**G4, **GR, **MB, tie_word_embeddings=True, layer_types=LT, num_local_experts=6, num_experts_per_tok=2, shared_intermediate_size=64, position_embedding_type="nope"))
    add("granitemoehybrid_dense", "GraniteMoeHybridForCausalLM", lambda: T.GraniteMoeHybridConfig(**G4, **GR, **dict(MB, mamba_n_groups=1), tie_word_embeddings=True, layer_types=LT, num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=64, position_embedding_type="nope"))
    add("granitemoehybrid_attention", "GraniteMoeHybridForCausalLM", lambda: T.GraniteMoeHybridConfig(**G4, **GR, **MB, tie_word_embeddings=True, layer_types=["attention"] * 4, num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=64, position_embedding_type="rope", rope_parameters=ROPE))
    add("bamba", "BambaForCausalLM", lambda: T.BambaConfig(**G4, **MB, tie_word_embeddings=False, attn_layer_indices=[1, 3], attn_rotary_emb=8, rope_parameters=dict(ROPE, partial_rotary_factor=0.5)))
    add("bamba_group", "BambaForCausalLM", lambda: T.BambaConfig(**G4, **dict(MB, mamba_n_groups=1), tie_word_embeddings=False, attn_layer_indices=[1, 3], attn_rotary_emb=8, rope_parameters=dict(ROPE, partial_rotary_factor=0.5)))
    add("granitemoehybrid_group", "GraniteMoeHybridForCausalLM", lambda: T.GraniteMoeHybridConfig(**G4, **GR, **dict(MB, mamba_n_groups=1), tie_word_embeddings=True, layer_types=LT, num_local_experts=6, num_experts_per_tok=2, shared_intermediate_size=64, position_embedding_type="nope"))
    add("granitemoehybrid_rope", "GraniteMoeHybridForCausalLM", lambda: T.GraniteMoeHybridConfig(**G4, **GR, **dict(MB, mamba_n_groups=1), tie_word_embeddings=True, layer_types=LT, num_local_experts=6, num_experts_per_tok=2, shared_intermediate_size=64, position_embedding_type="rope", rope_parameters=ROPE))
    add("mamba", "MambaForCausalLM", lambda: T.MambaConfig(vocab_size=V, hidden_size=64, state_size=16, num_hidden_layers=3, expand=2, conv_kernel=4, time_step_rank=4, use_mambapy=False, bos_token_id=1, eos_token_id=2, pad_token_id=0))
    add("falcon_mamba", "FalconMambaForCausalLM", lambda: T.FalconMambaConfig(vocab_size=V, hidden_size=64, state_size=16, num_hidden_layers=3, expand=2, conv_kernel=4, time_step_rank=4, use_mambapy=False, bos_token_id=1, eos_token_id=2, pad_token_id=0))
    M2 = dict(vocab_size=V, hidden_size=64, state_size=16, num_hidden_layers=3, expand=2, conv_kernel=4, num_heads=8, head_dim=16, chunk_size=32, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    add("mamba2", "Mamba2ForCausalLM", lambda: T.Mamba2Config(**M2, n_groups=1, tie_word_embeddings=True))
    add("mamba2_groups", "Mamba2ForCausalLM", lambda: T.Mamba2Config(**M2, n_groups=2, tie_word_embeddings=False))
    NH = dict(vocab_size=V, hidden_size=64, intermediate_size=96, num_attention_heads=4, num_key_value_heads=2, head_dim=32, max_position_embeddings=512, ssm_state_size=16, mamba_num_heads=8, mamba_n_groups=2, mamba_head_dim=16, mamba_d_conv=4, mamba_expand=2, mamba_chunk_size=32, use_mamba_kernels=False, bos_token_id=1, eos_token_id=2, pad_token_id=0, tie_word_embeddings=False)
    NM = dict(n_routed_experts=6, n_shared_experts=1, moe_intermediate_size=32, moe_shared_expert_intermediate_size=64, num_experts_per_tok=2, routed_scaling_factor=2.5)
    add("nemotron_h_moe", "NemotronHForCausalLM", lambda: T.NemotronHConfig(**NH, **NM, n_group=2, topk_group=1, norm_topk_prob=True, layers_block_type=["mamba", "moe", "attention", "moe", "mamba"]))
    add("nemotron_h_latent", "NemotronHForCausalLM", lambda: T.NemotronHConfig(**NH, **NM, n_group=1, topk_group=1, norm_topk_prob=True, moe_latent_size=32, layers_block_type=["mamba", "moe", "attention", "moe", "mamba"]))
    add("nemotron_h", "NemotronHForCausalLM", lambda: T.NemotronHConfig(**NH, layers_block_type=["mamba", "mlp", "attention", "mlp", "mamba"]))
    add("nemotron_h_file", "NemotronHForCausalLM", None, dense=True)
    FH = dict(vocab_size=V, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=32, max_position_embeddings=512, mamba_d_ssm=128, mamba_n_heads=8, mamba_d_head=16, mamba_n_groups=2, mamba_d_state=16, mamba_d_conv=4, mamba_expand=2, mamba_chunk_size=32, bos_token_id=1, eos_token_id=2, pad_token_id=0, rope_parameters=ROPE, embedding_multiplier=1.5, lm_head_multiplier=0.7, key_multiplier=0.8, attention_in_multiplier=1.1, attention_out_multiplier=0.9, ssm_in_multiplier=1.2, ssm_out_multiplier=0.6, ssm_multipliers=[0.9, 0.8, 1.1, 1.2, 0.7], mlp_multipliers=[0.9, 0.8])
    add("falcon_h1", "FalconH1ForCausalLM", lambda: T.FalconH1Config(**FH, mamba_rms_norm=False, tie_word_embeddings=False))
    add("falcon_h1_norm", "FalconH1ForCausalLM", lambda: T.FalconH1Config(**FH, mamba_rms_norm=True, mamba_norm_before_gate=False, tie_word_embeddings=False))
    add("jamba", "JambaForCausalLM", lambda: T.JambaConfig(**G4, tie_word_embeddings=False, attn_layer_period=4, attn_layer_offset=1, expert_layer_period=2, expert_layer_offset=1, num_experts=4, num_experts_per_tok=2, mamba_d_state=16, mamba_d_conv=4, mamba_expand=2, mamba_dt_rank=8, use_mamba_kernels=False))
    LL = ["conv", "full_attention", "conv", "full_attention"]
    add("lfm2", "Lfm2ForCausalLM", lambda: T.Lfm2Config(**G4, norm_eps=1e-5, tie_word_embeddings=True, layer_types=LL, conv_L_cache=3, block_auto_adjust_ff_dim=True, block_multiple_of=32, block_ffn_dim_multiplier=1.0, rope_parameters=ROPE))
    add("lfm2_moe", "Lfm2MoeForCausalLM", lambda: T.Lfm2MoeConfig(**G4, norm_eps=1e-5, tie_word_embeddings=True, layer_types=LL, conv_L_cache=3, moe_intermediate_size=32, num_dense_layers=1, num_experts=6, num_experts_per_tok=2, use_expert_bias=True, norm_topk_prob=True, routed_scaling_factor=1.0, rope_parameters=ROPE))
    Z = dict(vocab_size=V, hidden_size=64, num_hidden_layers=6, layers_block_type=["mamba", "hybrid", "mamba", "hybrid", "hybrid", "mamba"], mamba_d_state=16, mamba_d_conv=4, mamba_expand=2, n_mamba_heads=8, chunk_size=32, num_attention_heads=4, num_key_value_heads=4, intermediate_size=96, max_position_embeddings=512, adapter_rank=8, bos_token_id=1, eos_token_id=2, pad_token_id=0, tie_word_embeddings=True)
    add("zamba2_mlp", "Zamba2ForCausalLM", lambda: T.Zamba2Config(**Z, mamba_ngroups=2, num_mem_blocks=2, use_mem_rope=True, use_shared_mlp_adapter=True, use_shared_attention_adapter=False))
    add("zamba2_attention", "Zamba2ForCausalLM", lambda: T.Zamba2Config(**Z, mamba_ngroups=1, num_mem_blocks=1, use_mem_rope=True, use_shared_mlp_adapter=True, use_shared_attention_adapter=True))
    add("zamba2_plain", "Zamba2ForCausalLM", lambda: T.Zamba2Config(**Z, mamba_ngroups=2, num_mem_blocks=2, use_mem_rope=False, use_shared_mlp_adapter=False, use_shared_attention_adapter=False))
    add("gpt_oss", "GptOssForCausalLM", lambda: T.GptOssConfig(**dict(HD, num_hidden_layers=4, intermediate_size=64), tie_word_embeddings=False, num_local_experts=4, num_experts_per_tok=2, sliding_window=16, layer_types=["sliding_attention", "full_attention"] * 2, rope_parameters=dict(rope_type="yarn", rope_theta=15000.0, factor=8.0, beta_fast=32.0, beta_slow=1.0, truncate=False, original_max_position_embeddings=64)))
    B = dict(vocab_size=V, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=256, pad_token_id=0)
    add("bert", "BertModel", lambda: T.BertConfig(**B, type_vocab_size=2))
    add("bert_rank", "BertForSequenceClassification", lambda: T.BertConfig(**B, type_vocab_size=2, num_labels=1))
    add("modernbert", "ModernBertModel", lambda: T.ModernBertConfig(**dict(B, num_hidden_layers=4), local_attention=32, global_attn_every_n_layers=3, global_rope_theta=160000.0, local_rope_theta=10000.0))
    add("nomic_bert", "NomicBertModel", lambda: T.NomicBertConfig(**B, type_vocab_size=2, rope_parameters=dict(rope_type="default", rope_theta=1000.0)))
    return f
def fnv(s):
    h = 0xcbf29ce484222325
    for b in s.encode():
        h = ((h ^ b) * 0x100000001b3) & 0xffffffffffffffff
    return h
def draw(name, n, offset, scale):
    with np.errstate(over="ignore"):
        z = np.uint64(fnv(name)) + (np.arange(1, n + 1, dtype=np.uint64)) * np.uint64(0x9e3779b97f4a7c15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
        z = z ^ (z >> np.uint64(31))
    k = (z >> np.uint64(40)).astype(np.int64) - (1 << 23)
    return (offset / 4096.0 + k.astype(np.float64) * (scale / 4096.0) / 8388608.0).astype(np.float32)
def rule(name, shape, zero):
    low = name.lower()
    if "a_log" in low: return -2048, 6144
    if name.endswith(".D"): return 4096, 1024
    if "dt_bias" in low or "dt_proj.bias" in low: return -2048, 4096
    if "norm" in low and low.endswith("weight"): return (0 if zero and "linear_attn.norm" not in name else 4096), 1024
    if "correction_bias" in low or "expert_bias" in low: return 0, 1024
    if "sinks" in low: return 0, 4096
    if low.endswith("bias") or len(shape) == 1: return 0, 512
    if "embed" in low: return 0, 4096
    fan = shape[-1]
    return 0, max(1, round(4096 * math.sqrt(3.0 / fan)))
def sequences():
    r = np.random.default_rng(20)
    return [r.integers(3, V, n).tolist() for n in (5, 70, 150)]
def rows_of(model, seqs, dtype):
    out = []
    for s in seqs:
        with torch.no_grad():
            ids = torch.tensor([s])
            kw = {}
            y = model(input_ids=ids, attention_mask=torch.ones_like(ids), **kw)
        y = y.logits if hasattr(y, "logits") and y.logits is not None else y.last_hidden_state
        out.append(y[0].double())
    return out
def convert(src, dst, ftype, extra):
    if "nemotron" in src.name or "granitemoehybrid" in src.name:
        raw = json.loads((src / "config.json").read_text())
        old = {"linear_attention": "mamba", "full_attention": "attention"}  # published spelling
        for key in ("layer_types", "layers_block_type"):
            if isinstance(raw.get(key), list): raw[key] = [old.get(x, x) for x in raw[key]]
        if "nemotron" in src.name:
            pat = raw.get("layers_block_type") or raw.get("hybrid_override_pattern")
            raw["num_hidden_layers"] = len(pat)
            if "moe" not in pat and "E" not in pat:
                for k in [k for k in raw if "expert" in k or k.startswith("moe_") or k in ("n_group", "topk_group", "norm_topk_prob", "routed_scaling_factor")]: raw.pop(k)
                if not isinstance(pat, str): raw["hybrid_override_pattern"] = "".join({"mamba": "M", "attention": "*", "mlp": "-"}[x] for x in pat); raw.pop("layers_block_type")
        (src / "config.json").write_text(json.dumps(raw))
        ModelBase.load_hparams = staticmethod(lambda d, m=False: json.loads((pathlib.Path(d) / "config.json").read_text()))
    hp = ModelBase.load_hparams(src, False)
    arch = get_model_architecture(hp, ModelType.TEXT)
    cls = get_model_class(arch)
    m = {"f32": gguf.LlamaFileType.ALL_F32, "f16": gguf.LlamaFileType.MOSTLY_F16, "bf16": gguf.LlamaFileType.MOSTLY_BF16, "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0}
    with torch.inference_mode():
        inst = cls(src, m[ftype], dst)
        if not extra.get("vocab"):
            inst.set_vocab = lambda: None
            if hasattr(inst, "vocab_size") and inst.vocab_size is None: inst.vocab_size = V
        if extra.get("pre"): inst.get_vocab_base_pre = lambda tok: extra["pre"]
        if extra.get("vocab_only"): inst.write_vocab()
        else: inst.write()
def digest(path, small):
    r = gguf.GGUFReader(str(path))
    ts = []
    for t in r.tensors:
        b = t.data.tobytes()
        e = {"name": t.name, "type": int(t.tensor_type), "dims": [int(x) for x in t.shape], "sha256": hashlib.sha256(b).hexdigest()[:24]}
        if small and len(b) <= 2048: e["hex"] = b.hex()
        ts.append(e)
    return ts, open(path, "rb").read(r.data_offset)
def family(name, spec):
    cls_name, conf, kw = spec
    d = WORK / name; o = OUT / name; o.mkdir(parents=True, exist_ok=True)
    log = []
    def step(title, f):
        t = time.time()
        try:
            v = f(); log.append(f"ok {title} {time.time() - t:.1f}s"); return v
        except BaseException:
            log.append(f"FAILED {title}\n" + traceback.format_exc()); return None
        finally:
            (o / "log.txt").write_text("\n".join(log) + "\n")
    cls = getattr(T, cls_name)
    def make():
        torch.manual_seed(0)
        model = cls(conf()).float().eval()
        model.save_pretrained(d)
        params = {k: list(v.shape) for k, v in model.state_dict().items()}
        (o / "state_dict.json").write_text(json.dumps(params))
        return True
    ok = None if kw.get("dense") else step("make", make)
    if kw.get("dense"):
        def by_hand():
            d.mkdir(parents=True, exist_ok=True)
            c = dict(architectures=["NemotronHForCausalLM"], model_type="nemotron_h", vocab_size=V, hidden_size=64, intermediate_size=96, num_hidden_layers=5, hybrid_override_pattern="M-*-M", num_attention_heads=4, num_key_value_heads=2, head_dim=32, max_position_embeddings=512, ssm_state_size=16, mamba_num_heads=8, n_groups=2, mamba_head_dim=16, conv_kernel=4, expand=2, chunk_size=32, layer_norm_epsilon=1e-5, mlp_hidden_act="relu2", tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, pad_token_id=0)
            (d / "config.json").write_text(json.dumps(c))
            t = {"backbone.embeddings.weight": [V, 64], "backbone.norm_f.weight": [64], "lm_head.weight": [V, 64]}
            for i, k in enumerate("M-*-M"):
                b = f"backbone.layers.{i}."
                t[b + "norm.weight"] = [64]
                m = b + "mixer."
                if k == "M": t |= {m + "A_log": [8], m + "D": [8], m + "dt_bias": [8], m + "conv1d.weight": [192, 1, 4], m + "conv1d.bias": [192], m + "in_proj.weight": [328, 64], m + "norm.weight": [128], m + "out_proj.weight": [64, 128]}
                if k == "-": t |= {m + "up_proj.weight": [96, 64], m + "down_proj.weight": [64, 96]}
                if k == "*": t |= {m + "q_proj.weight": [128, 64], m + "k_proj.weight": [64, 64], m + "v_proj.weight": [64, 64], m + "o_proj.weight": [64, 128]}
            save_file({k: np.zeros(s, np.float32) for k, s in t.items()}, d / "model.safetensors", metadata={"format": "pt"})
            return True
        ok = step("by hand", by_hand)
    if not ok: return
    def weights():
        path = d / "model.safetensors"
        old = load_file(path)
        table, new = [], {}
        for n in sorted(old):
            x = old[n]
            off, sc = rule(n, x.shape, kw.get("zero"))
            table.append({"name": n, "shape": list(x.shape), "dtype": str(x.dtype), "offset": off, "scale": sc})
            new[n] = draw(n, x.size, off, sc).reshape(x.shape)
        save_file(new, path, metadata={"format": "pt"})
        (o / "source.json").write_text(json.dumps(table))
        shutil.copy(d / "config.json", o / "config.json")
        if (d / "generation_config.json").exists(): shutil.copy(d / "generation_config.json", o / "generation_config.json")
        return True
    if not step("weights", weights): return
    def infer():
        kwargs = {"attn_implementation": "eager"}
        model, info = cls.from_pretrained(d, dtype=torch.float32, output_loading_info=True, **kwargs)
        log.append("loading " + repr({k: (sorted(v)[:9] if not isinstance(v, dict) else list(v)[:9]) for k, v in info.items() if v}))
        model.eval()
        try: model.config.use_cache = False
        except Exception: pass
        seqs = sequences()
        y32 = rows_of(model, seqs, torch.float32)
        model = model.double()
        try:
            y64 = rows_of(model, seqs, torch.float64)
        except Exception:
            log.append("no f64: " + traceback.format_exc()[-800:]); y64 = None
        lm = cls_name.endswith("CausalLM")
        fin = (lambda x: x.log_softmax(-1)) if lm else (lambda x: x)
        np.save(o / "f32.npy", np.concatenate([fin(x).float().numpy() for x in y32]) if y32[0].dim() == 2 else np.stack([x.float().numpy() for x in y32]))
        if y64 is not None:
            np.save(o / "f64.npy", np.concatenate([fin(x).float().numpy() for x in y64]) if y64[0].dim() == 2 else np.stack([x.float().numpy() for x in y64]))
            log.append("f32-f64 " + repr([float((fin(a) - fin(b)).abs().max()) for a, b in zip(y32, y64)]))
        log.append("entropy " + repr([float(-(x.softmax(-1) * x.log_softmax(-1)).sum(-1).mean()) for x in y32]))
        return True
    step("infer", infer)
    if CONV_ERROR: log.append(CONV_ERROR)
    if name.startswith("zamba2"): return
    for ft in ("f32", "f16", "bf16", "q8_0"):
        def conv():
            g = d / f"{ft}.gguf"
            convert(d, g, ft, kw)
            ts, head = digest(g, ft == "f32")
            (o / f"{ft}.json").write_text(json.dumps(ts))
            (o / f"{ft}.head").write_bytes(head)
            return True
        if not step("convert " + ft, conv): break
def tokenizers_job():
    import tokenizers as K
    from tokenizers import models, pre_tokenizers, decoders, processors, trainers, Regex, normalizers, AddedToken
    text = ["The quick brown fox jumps over the lazy dog. It's 12345 o'clock, isn't it?\n\n  def main():\n    return 42 + 7\n", "Ünïcödé words: naïve café 你好 世界 привет мир 🙂🚀 مرحبا\t tabs\r\nlines", "the the the there then these those thesis theory and andy sand band hand"] * 8
    probe = text[0] + text[1] + "<|im_start|>user\nHello  world<|im_end|>\n <think>  x</think>" + " 1234567 don't WE'LL \u00a0x   y\n\n\nz"
    o = OUT / "tokenizers"; o.mkdir(parents=True, exist_ok=True)
    log = []
    pats = {
        "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        "llama-bpe": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        "gpt-2": None,
    }
    conf = {"qwen2": ("qwen2", "Qwen2ForCausalLM"), "llama-bpe": ("llama", "LlamaForCausalLM"), "gpt-2": ("mamba", "MambaForCausalLM")}
    tmpl = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    specs = F()
    def finish(d, name, extra):
        import subprocess
        try:
            g = o / (name + ".gguf")
            convert(d, g, "f16", dict(extra, vocab=True, vocab_only=True))
            log.append("ok " + name)
        except BaseException:
            log.append("FAILED " + name + "\n" + traceback.format_exc())
        try:
            from transformers import AutoTokenizer
            t = AutoTokenizer.from_pretrained(d)
            (o / (name + ".ids.json")).write_text(json.dumps({"text": probe, "ids": t.encode(probe), "class": type(t).__name__}))
        except BaseException:
            log.append("FAILED ids " + name + "\n" + traceback.format_exc())
        dd = o / name; dd.mkdir(exist_ok=True)
        for f in os.listdir(d):
            if f.endswith((".json", ".jinja", ".txt", ".model")): shutil.copy(d / f, dd / f)
        (o / "log.txt").write_text("\n".join(log))
    for name, pat in pats.items():
        try:
            d = WORK / ("tok-" + name); d.mkdir(parents=True, exist_ok=True)
            t = K.Tokenizer(models.BPE(ignore_merges=True) if name == "llama-bpe" else models.BPE())
            if name == "qwen2": t.normalizer = normalizers.NFC()
            t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False) if pat is None else pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pat), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
            t.decoder = decoders.ByteLevel()
            t.train_from_iterator(text, trainers.BpeTrainer(vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=[]))
            t.add_special_tokens([AddedToken("<|endoftext|>", special=True, normalized=False), AddedToken("<|im_start|>", special=True, normalized=False), AddedToken("<|im_end|>", special=True, normalized=False)])
            t.add_tokens([AddedToken("<think>", special=False, normalized=False), AddedToken("</think>", special=False, normalized=False)])
            if name == "llama-bpe": t.post_processor = processors.TemplateProcessing(single="<|endoftext|> $A", pair="<|endoftext|> $A <|endoftext|> $B", special_tokens=[("<|endoftext|>", t.token_to_id("<|endoftext|>"))])
            t.save(str(d / "tokenizer.json"))
            n = t.get_vocab_size()
            tc = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "bos_token": "<|endoftext|>" if name != "qwen2" else None, "pad_token": "<|endoftext|>", "add_bos_token": False, "model_max_length": 512, "clean_up_tokenization_spaces": False}
            if name == "qwen2": tc["chat_template"] = tmpl
            if name == "llama-bpe": (d / "chat_template.jinja").write_text(tmpl)
            (d / "tokenizer_config.json").write_text(json.dumps(tc))
            c = json.loads(specs[conf[name][0]][1]().to_json_string(use_diff=False))
            c.update(architectures=[conf[name][1]], vocab_size=(n + 15) // 8 * 8, eos_token_id=t.token_to_id("<|im_end|>"), bos_token_id=t.token_to_id("<|endoftext|>"), pad_token_id=t.token_to_id("<|endoftext|>"))
            (d / "config.json").write_text(json.dumps(c))
            (d / "generation_config.json").write_text(json.dumps({"eos_token_id": [t.token_to_id("<|im_end|>"), t.token_to_id("<|endoftext|>")], "temperature": 0.6, "top_p": 0.95, "top_k": 20}))
            finish(d, name, {"pre": name})
        except BaseException:
            log.append("FAILED make " + name + "\n" + traceback.format_exc())
    try:  # SentencePiece-like BPE with byte fallback, as Llama 2's tokenizer.json
        d = WORK / "tok-spm"; d.mkdir(parents=True, exist_ok=True)
        t = K.Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
        t.train_from_iterator(text, trainers.BpeTrainer(vocab_size=600, special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]))
        j = json.loads(t.to_str()); j["added_tokens"] = [a for a in j["added_tokens"] if a["id"] < 3]
        (d / "tokenizer.json").write_text(json.dumps(j, ensure_ascii=False))
        (d / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "LlamaTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "add_bos_token": True, "add_eos_token": False, "legacy": False}))
        c = json.loads(specs["llama"][1]().to_json_string(use_diff=False)); c.update(architectures=["LlamaForCausalLM"], vocab_size=len(j["model"]["vocab"]))
        (d / "config.json").write_text(json.dumps(c))
        finish(d, "spm", {})
    except BaseException:
        log.append("FAILED make spm\n" + traceback.format_exc())
    try:  # a tokenizer.model of its own, written as protobuf by hand
        d = WORK / "tok-spmodel"; d.mkdir(parents=True, exist_ok=True)
        import struct
        def varint(x):
            b = b""
            while True:
                if x < 128: return b + bytes([x])
                b += bytes([x & 127 | 128]); x >>= 7
        def field(n, data): return varint(n << 3 | 2) + varint(len(data)) + data
        j = json.loads((WORK / "tok-spm" / "tokenizer.json").read_text())
        vocab = sorted(j["model"]["vocab"], key=j["model"]["vocab"].get)
        out = b""
        for i, p in enumerate(vocab):
            kind = 2 if i == 0 else 3 if i < 3 else 6 if p.startswith("<0x") else 1
            out += field(1, field(1, p.encode()) + b"\x15" + struct.pack("<f", 0.0 if kind != 1 else -float(i - 259)) + (b"\x18" + varint(kind) if kind != 1 else b""))
        trainer = b"\x18\x02" + b"\xc0\x02" [:0] + varint(35 << 3) + b"\x01"
        out += field(2, trainer)
        out += field(3, field(1, b"identity") + varint(3 << 3) + b"\x01" + varint(4 << 3) + b"\x00" + varint(5 << 3) + b"\x01")
        (d / "tokenizer.model").write_bytes(out)
        (d / "tokenizer_config.json").write_text((WORK / "tok-spm" / "tokenizer_config.json").read_text())
        (d / "config.json").write_text((WORK / "tok-spm" / "config.json").read_text())
        finish(d, "spmodel", {})
    except BaseException:
        log.append("FAILED make spmodel\n" + traceback.format_exc())
    try:
        d = WORK / "tok-bert"; d.mkdir(parents=True, exist_ok=True)
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + list("abcdefghijklmnopqrstuvwxyz0123456789.,'?") + ["##" + x for x in "abcdefghijklmnopqrstuvwxyz0123456789"] + ["the", "quick", "brown", "##ing", "fox", "jump", "##s"]
        (d / "vocab.txt").write_text("\n".join(words) + "\n")
        t = K.Tokenizer(models.WordPiece({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
        t.normalizer = normalizers.BertNormalizer(lowercase=True); t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        t.decoder = decoders.WordPiece()
        t.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
        t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
        t.save(str(d / "tokenizer.json"))
        (d / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": True, "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"}))
        c = json.loads(specs["bert"][1]().to_json_string(use_diff=False)); c.update(architectures=["BertModel"], vocab_size=len(words))
        (d / "config.json").write_text(json.dumps(c))
        finish(d, "bert", {"pre": "jina-v2-en"})
    except BaseException:
        log.append("FAILED make bert\n" + traceback.format_exc())
    (o / "log.txt").write_text("\n".join(log))
def main():
    OUT.mkdir(parents=True, exist_ok=True)
    info = {"torch": torch.__version__, "transformers": T.__version__, "numpy": np.__version__, "cpu": os.cpu_count(), "converter": CONV_ERROR or "imported"}
    try:
        import sentencepiece; info["sentencepiece"] = sentencepiece.__version__
    except Exception as e: info["sentencepiece"] = repr(e)
    (OUT / "info.json").write_text(json.dumps(info, indent=1))
    (OUT / "sequences.json").write_text(json.dumps(sequences()))
    jobs = list(F().items())
    only = sys.argv[4:] 
    todo = [("tokenizers", None)] + [j for j in jobs if not only or j[0] in only]
    running, end = {}, T0 + 74
    while (todo or running) and time.time() < end:
        while todo and len(running) < 15:
            name, spec = todo.pop(0)
            pid = os.fork()
            if pid == 0:
                try:
                    (OUT / name).mkdir(parents=True, exist_ok=True)
                    fd = os.open(str(OUT / name / "output.txt"), os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
                    os.dup2(fd, 1); os.dup2(fd, 2)
                    tokenizers_job() if spec is None else family(name, spec)
                except BaseException: traceback.print_exc()
                finally: sys.stdout.flush(); os._exit(0)
            running[pid] = name
        pid, _ = os.waitpid(-1, os.WNOHANG)
        if pid: running.pop(pid, None)
        else: time.sleep(0.05)
    for pid, name in running.items():
        os.kill(pid, signal.SIGKILL); print("stopped", name)
    for o in sorted(OUT.iterdir()):
        if (o / "log.txt").exists():
            t = (o / "log.txt").read_text()
            print(o.name, "FAILED" if "FAILED" in t else "ok")
    print(json.dumps(info))
if __name__ == "__main__": main()
