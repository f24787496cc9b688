// Random but valid model files of any small shape and format, for tests.
#ifndef CHIMERE_TESTS_SUPPORT_TINY_MODEL_H_
#define CHIMERE_TESTS_SUPPORT_TINY_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/writer.h"
#include "tensor/dtype.h"

namespace chimere::test {

/// Shapes and formats. The default model has about 0.5 MB in f32.
struct TinyModel {
  /// Or qwen35 (dense), qwen3next, the transformers qwen3moe and qwen3 (dense), and those of
  /// family_model.h.
  std::string architecture = "qwen35moe";
  uint64_t seed = 1;
  int n_layers = 4;
  int attention_interval = 4;  ///< every n-th layer is full attention
  int n_mtp_layers = 0;
  bool mtp_tables = false;  ///< the MTP head has its own embedding and output matrix
  int n_embd = 64;
  int n_heads = 4;
  int n_kv_heads = 2;
  int head_dim = 32;
  int rope_dims = 8;
  int n_k_heads = 2;
  int n_v_heads = 4;
  int state_dim = 16;  ///< of the delta net's heads; of families, heads and states of Mamba 2
  int n_experts = 6;
  int n_used = 2;
  int n_ff = 32;         ///< inner width of an expert, or of the dense network
  int n_ff_shared = 32;  ///< of the shared expert
  /// From 260 on, the vocabulary is a byte-level BPE: 256 bytes, "th", fillers, and at the end
  /// <|endoftext|>, <|im_start|>, <|im_end|>. Smaller ones have tokens "<t0>", "<t1>", ...
  int n_vocab = 64;
  bool tied_head = false;
  int pooling = 0;  ///< of embedding models (transformers): 1 the mean, 3 the last token
  /// Tensors that released files store fused or separately; the weights are the same.
  bool fused_attention = false;  ///< attn_qkv of attention layers
  bool fused_gate_up = false;    ///< ffn_gate_up_exps
  bool fused_ba = false;         ///< ssm_ba (qwen3next)
  bool fused_in = false;         ///< ssm_in (qwen3next)
  bool bare_dt = false;          ///< ssm_dt without ".bias", as Ollama writes it
  bool qkv_bias = false;         ///< biases of attention (llama)
  float rope_scale = 1;          ///< "rope.scaling.factor" (families with attention)
  bool yarn = false;             ///< with rope_scale
  bool rope_freqs = false;       ///< divisors of the rotary frequencies (llama)
  /// "attention.sliding_window" of llama, and of every second layer of gpt-oss; 0: none in llama,
  /// 24 in gpt-oss.
  int window = 0;
  bool all_biases = false;        ///< of attention's output and the dense network (llama)
  bool llama_experts = false;     ///< experts (llama, as in Mixtral)
  bool separate_experts = false;  ///< one tensor for each expert (llama)
  /// Format of the weights. A tensor whose rows are not a multiple of the format's block is written
  /// as q8_0, or else f32.
  DType experts = DType::kF32;
  DType mixers = DType::kF32;
  DType embedding = DType::kF32;
  DType head = DType::kF32;
};

/// All formats of weights.
inline constexpr DType kWeightFormats[] = {
    DType::kF32,     DType::kF16,   DType::kBF16,   DType::kQ4_0,    DType::kQ4_1,   DType::kQ5_0,
    DType::kQ5_1,    DType::kQ8_0,  DType::kQ2_K,   DType::kQ3_K,    DType::kQ4_K,   DType::kQ5_K,
    DType::kQ6_K,    DType::kIQ1_S, DType::kIQ1_M,  DType::kIQ2_XXS, DType::kIQ2_XS, DType::kIQ2_S,
    DType::kIQ3_XXS, DType::kIQ3_S, DType::kIQ4_NL, DType::kIQ4_XS,  DType::kMXFP4,  DType::kTQ1_0,
    DType::kTQ2_0,   DType::kIQ2_K, DType::kIQ3_K,  DType::kIQ4_K,   DType::kIQ5_K};

/// Deterministic on every machine. Weights have a standard deviation near
/// 1/sqrt(fan-in). Errors: kInvalidArgument (shape or format).
Result<gguf::Writer> make_tiny_model(const TinyModel& model);

}  // namespace chimere::test

#endif  // CHIMERE_TESTS_SUPPORT_TINY_MODEL_H_
