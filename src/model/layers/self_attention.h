// Grouped-query attention; as the spec says, with normalised queries and keys (Qwen3), biases
// (Qwen2), rotary positions of whole heads or parts, and a sigmoid gate on the output (Qwen3-Next,
// Qwen3.5).
#ifndef CHIMERE_MODEL_LAYERS_SELF_ATTENTION_H_
#define CHIMERE_MODEL_LAYERS_SELF_ATTENTION_H_

#include <memory>
#include <vector>

#include "base/result.h"
#include "kernels/api.h"
#include "model/keys.h"
#include "model/rope_scaling.h"
#include "model/sub_layer.h"

namespace chimere::model {

struct AttentionSpec;

class SelfAttention final : public SubLayer {
 public:
  Status place(Placement& to) override;
  Status add_state(StateBuilder& states) override;
  void lay_out(BufferLayout& at, int64_t rows) const override { buffers(at, rows); }
  GpuScratch gpu_scratch() const override;
  void forward(const SubLayerRows& rows) const override;
  void lay_out_append(BufferLayout& at, int64_t rows) const override { append_buffers(at, rows); }
  void project_append(const SubLayerRows& rows,
                      std::vector<kernels::LinearJob>& jobs) const override;
  void append(const SubLayerRows& rows) const override;

 private:
  friend struct AttentionSpec;
  /// Each [rows, ...].
  struct Buffers {
    MatrixView qg;   ///< n_heads * query_stride: per head the query, then its gate if any
    MatrixView k;    ///< n_kv_heads * head_dim
    MatrixView v;    ///< n_kv_heads * head_dim
    MatrixView out;  ///< n_heads * head_dim
  };
  Buffers buffers(BufferLayout& at, int64_t rows) const;
  /// For append(), which needs no query: as many as the op takes at least, and no output.
  Buffers append_buffers(BufferLayout& at, int64_t rows) const;
  void add_biases(kernels::Ops& ops, const Buffers& b) const;
  /// Multiplies the elements of `count` heads that will be rotated by rotated_scale_. heads [rows,
  /// count * stride].
  void scale_rotated(kernels::Ops& ops, const MatrixView& heads, int count, int stride) const;
  kernels::AttentionShape shape_;
  int block_ = 0;
  float norm_eps_ = 0;
  float rotated_scale_ = 1;  ///< of rotated elements of queries and keys
  WeightView qg_;   ///< [n_heads * query_stride, n_embd] per head the query, then its gate if any
  WeightView k_;    ///< [n_kv_heads * head_dim, n_embd]
  WeightView v_;    ///< [n_kv_heads * head_dim, n_embd]
  WeightView out_;  ///< [n_embd, n_heads * head_dim]
  const float* q_norm_ = nullptr;              ///< [head_dim]; nullptr: none
  const float* k_norm_ = nullptr;              ///< [head_dim]; nullptr: none
  const float* q_bias_ = nullptr;              ///< [n_heads * query_stride]; nullptr: none
  const float* k_bias_ = nullptr;              ///< [n_kv_heads * head_dim]; nullptr: none
  const float* v_bias_ = nullptr;              ///< [n_kv_heads * head_dim]; nullptr: none
  const float* out_bias_ = nullptr;            ///< [n_embd]; nullptr: none
  const float* sinks_ = nullptr;               ///< [n_heads]; nullptr: none
  std::vector<std::vector<float>> reordered_;  ///< memory of biases
  std::vector<float> divisors_;                ///< memory of shape_.rope_factors
  kernels::KvView kv_;
};

/// Which elements of a head are rotated together: an architecture's convention, which no key of a
/// file states.
enum class RopePairs {
  kHalves,    ///< i and i + rope_dims / 2
  kAdjacent,  ///< 2 i and 2 i + 1; rows of weights are reordered at loading
};

/// Biases of the projections to queries, keys and values ("attn_q.bias", ...).
enum class QkvBias { kNone, kOptional, kRequired };

/// Larger windows than any context.
inline constexpr int kMaxWindow = 1 << 30;

/// What says how many positions the rows of a layer see (AttentionShape::window).
enum class Window {
  kOfFile,  ///< "attention.sliding_window", or all if the file has no such key
  kAll,     ///< rows see all positions before them
};

struct AttentionSpec {
  kernels::AttentionShape shape;
  bool qk_norm = true;  ///< queries and keys are normalised, each head for itself
  RopePairs rope_pairs = RopePairs::kHalves;
  QkvBias bias = QkvBias::kNone;
  RopeScaling scaling;
  bool user_base = false;  ///< the user has set the base of the frequencies
  /// The frequencies are divided by "rope_freqs.weight" (Llama 3.1), if the file has it.
  bool rope_freqs = false;
  bool sinks = false;  ///< "attn_sinks": AttentionShape::sinks

  /// Binds "attn_q", "attn_k" and "attn_v", or all three in "attn_qkv"; "attn_output", with its
  /// bias if the file has one; with `qk_norm` "attn_q_norm" and "attn_k_norm"; for longrope
  /// "rope_factors_long" or "rope_factors_short".
  std::unique_ptr<SelfAttention> bind(const SubLayerBinding& to) const;
};

/// Sets shape.rope_factors to the divisors of the frequencies, which `memory` may hold, and
/// declares what the user has set of them.
void bind_rope(const AttentionSpec& spec, WeightBinder& weights, kernels::AttentionShape& shape,
               std::vector<float>& memory);

/// Reads "attention.*" and "rope.*" for one block. `gated`: each query is followed by a gate, and
/// the file must say how many elements are rotated. Errors: those of Keys; kInvalidData (keys that
/// contradict each other), kUnsupported (a variant of the arithmetic that is not implemented).
Result<AttentionSpec> read_attention(const Keys& keys, int block, bool gated,
                                     Window window = Window::kAll);

/// The attention of Llama and its relatives: queries and keys are not normalised, pairs are
/// adjacent; biases and "rope_freqs" are used if the file has them, and so is "attention.scale".
/// Errors: those of read_attention().
Result<AttentionSpec> read_llama_attention(const Keys& keys, int block);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_LAYERS_SELF_ATTENTION_H_
