// Attention of encoders: every position sees all others, or those within a window, and nothing is
// stored for later steps.
#ifndef CHIMERE_MODEL_LAYERS_ENCODER_ATTENTION_H_
#define CHIMERE_MODEL_LAYERS_ENCODER_ATTENTION_H_

#include <memory>
#include <vector>

#include "base/result.h"
#include "kernels/api.h"
#include "model/keys.h"
#include "model/rope_scaling.h"
#include "model/sub_layer.h"

namespace chimere::model {

class EncoderAttention final : public SubLayer {
 public:
  Status place(Placement& to) override;
  void lay_out(BufferLayout& at, int64_t rows) const override { buffers(at, rows); }
  GpuScratch gpu_scratch() const override { return {.widest = out_.n_in}; }
  void forward(const SubLayerRows& rows) const override;

 private:
  friend struct EncoderAttentionSpec;
  /// Each [rows, heads * head_dim].
  struct Buffers {
    MatrixView q;
    MatrixView k;
    MatrixView v;
    MatrixView out;
  };
  Buffers buffers(BufferLayout& at, int64_t rows) const;

  /// A projection, and what its result passes before it attends.
  struct Projection {
    WeightView weight;            ///< [heads * head_dim, n_embd]
    const float* bias = nullptr;  ///< [heads * head_dim]; nullptr: none
    /// A layer norm of all heads together, and its bias; nullptr: none.
    const float* norm = nullptr;
    const float* norm_bias = nullptr;

    Status place(kernels::Ops& ops);
    void finish(kernels::Ops& ops, MatrixView y, float eps, kernels::StepRows rows) const;
  };

  kernels::SequenceAttentionShape shape_;
  float norm_eps_ = 0;
  Projection q_;
  Projection k_;
  Projection v_;
  WeightView out_;                   ///< [n_embd, n_heads * head_dim]
  const float* out_bias_ = nullptr;  ///< [n_embd]; nullptr: none
  std::vector<float> slopes_;        ///< memory of shape_.alibi_slopes before it is placed
  std::vector<float> divisors_;      ///< memory of shape_.heads.rope_factors
};

struct EncoderAttentionSpec {
  kernels::SequenceAttentionShape shape;
  RopeScaling scaling;
  float alibi_bias = 0;  ///< of the first head's slope, 2^(-alibi_bias / heads); 0: no ALiBi

  /// Binds "attn_q", "attn_k" and "attn_v", or all three in "attn_qkv"; "attn_output"; their biases
  /// and "attn_q_norm", "attn_k_norm" where the file has them.
  std::unique_ptr<EncoderAttention> bind(const SubLayerBinding& to) const;
};

/// Reads "attention.*" for one block, and with `rotary` "rope.*". Errors: those of Keys;
/// kInvalidData (keys that contradict each other), kUnsupported (causal attention, a variant that
/// is not implemented).
Result<EncoderAttentionSpec> read_encoder_attention(const Keys& keys, int block, bool rotary);

/// The slopes of ALiBi for `heads` heads (Press et al. 2021, arXiv:2108.12409, and for numbers that
/// are no power of two the authors' code): with n the largest power of two up to `heads`, head h <
/// n has 2^(-bias (h + 1) / n), the others 2^(-bias (2 (h - n) + 1) / (2 n)).
std::vector<float> alibi_slopes(int heads, float bias);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_LAYERS_ENCODER_ATTENTION_H_
