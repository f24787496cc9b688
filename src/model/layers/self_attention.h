// Grouped-query attention; as the spec says, with normalised queries and keys (Qwen3), rotary
// positions of whole heads or parts, and a sigmoid gate on the output (Qwen3-Next, Qwen3.5).
#ifndef CHIMERE_MODEL_LAYERS_SELF_ATTENTION_H_
#define CHIMERE_MODEL_LAYERS_SELF_ATTENTION_H_

#include <memory>

#include "base/result.h"
#include "kernels/api.h"
#include "model/keys.h"
#include "model/sub_layer.h"

namespace chimere::model {

class SelfAttention final : public SubLayer {
 public:
  Status place(Placement& to) override;
  Status add_state(StateBuilder& states) override;
  void lay_out(BufferLayout& at, int64_t rows) const override { buffers(at, rows); }
  GpuScratch gpu_scratch() const override;
  void forward(const SubLayerRows& rows) const override;
  /// Appends the KV of rows.h; does not change rows.x.
  void append(const SubLayerRows& rows) const;

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

  kernels::AttentionShape shape_;
  int block_ = 0;
  float norm_eps_ = 0;
  WeightView qg_;   ///< [n_heads * query_stride, n_embd] per head the query, then its gate if any
  WeightView k_;    ///< [n_kv_heads * head_dim, n_embd]
  WeightView v_;    ///< [n_kv_heads * head_dim, n_embd]
  WeightView out_;  ///< [n_embd, n_heads * head_dim]
  const float* q_norm_ = nullptr;  ///< [head_dim]; nullptr: none
  const float* k_norm_ = nullptr;  ///< [head_dim]; nullptr: none
  kernels::KvView kv_;
};

struct AttentionSpec {
  kernels::AttentionShape shape;
  bool qk_norm = true;  ///< queries and keys are normalised, each head for itself

  /// Binds "attn_q", "attn_k" and "attn_v", or all three in "attn_qkv"; "attn_output"; with
  /// `qk_norm` "attn_q_norm" and "attn_k_norm".
  std::unique_ptr<SelfAttention> bind(const SubLayerBinding& to) const;
};

/// Reads "attention.*" and "rope.*" for one block. `gated`: each query is followed by a gate, and
/// the file must say how many elements are rotated. Errors: those of Keys; kInvalidData (keys that
/// contradict each other), kUnsupported (a variant of the arithmetic that is not implemented).
Result<AttentionSpec> read_attention(const Keys& keys, int block, bool gated);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_LAYERS_SELF_ATTENTION_H_
