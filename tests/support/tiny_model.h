// Random but valid qwen35moe files of any small shape and format, for tests.
#ifndef CHIMERE_TESTS_SUPPORT_TINY_MODEL_H_
#define CHIMERE_TESTS_SUPPORT_TINY_MODEL_H_

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "gguf/writer.h"
#include "tensor/dtype.h"

namespace chimere::test {

/// Shapes and formats. The defaults make a model of about 0.5 MB in f32.
struct TinyModel {
  uint64_t seed = 1;
  int n_layers = 4;
  int attention_interval = 4;  ///< every so many layers one of attention
  int n_mtp_layers = 0;
  int n_embd = 64;
  int n_heads = 4;
  int n_kv_heads = 2;
  int head_dim = 32;
  int rope_dims = 8;
  int n_k_heads = 2;
  int n_v_heads = 4;
  int state_dim = 16;  ///< of the delta net's heads
  int n_experts = 6;
  int n_used = 2;
  int n_ff = 32;
  int n_ff_shared = 32;
  /// From 260 on, the vocabulary is a byte-level BPE: 256 bytes, "th", fillers, and at the end
  /// <|endoftext|>, <|im_start|>, <|im_end|>. Smaller ones have tokens "<t0>", "<t1>", ...
  int n_vocab = 64;
  bool tied_head = false;
  /// f32, f16, bf16, q8_0, q4_K, q5_K, q6_K or iq3_s. A tensor whose rows are no multiple of the
  /// format's block is written as q8_0, or else f32.
  DType experts = DType::kF32;
  DType mixers = DType::kF32;
  DType embedding = DType::kF32;
  DType head = DType::kF32;
};

/// The same bytes for the same argument on every machine. Weights have a standard deviation near
/// 1/sqrt(fan-in). Errors: kInvalidArgument (shape or format).
Result<gguf::Writer> make_tiny_model(const TinyModel& model);

}  // namespace chimere::test

#endif  // CHIMERE_TESTS_SUPPORT_TINY_MODEL_H_
