// The hybrid layers of Zamba 2 (Glorioso et al. 2024, arXiv:2411.15242): a transformer block whose
// weights several layers share, with low-rank adapters of each layer's own, before Mamba 2.
#ifndef CHIMERE_MODEL_LAYERS_SHARED_BLOCK_H_
#define CHIMERE_MODEL_LAYERS_SHARED_BLOCK_H_

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/api.h"
#include "model/layers/mamba2_mixer.h"
#include "model/layers/self_attention.h"
#include "model/sub_layer.h"

namespace chimere::model {

/// With e, the embedding rows:
///   n = norm([x, e]);  a = out(attention(q n, k n, v n));  m = norm(a)
///   t = down(GELU(gate m) ∘ up m);  x += mamba2(norm(x + join t))
/// where q, k, v, gate and up are W + B A: the shared matrix and the layer's adapter. The block has
/// no residual connections. Reads rows.x and rows.embedding in place of rows.h.
class SharedBlock final : public SubLayer {
 public:
  Status place(Placement& to) override;
  Status add_state(StateBuilder& states) override;
  void lay_out(BufferLayout& at, int64_t rows) const override;
  GpuScratch gpu_scratch() const override;
  bool recurrent() const override { return true; }
  void forward(const SubLayerRows& rows) const override;

 private:
  friend struct SharedBlockSpec;
  static constexpr size_t kMaxAdapted = 3;
  /// B A, added to a matrix.
  struct LowRank {
    WeightView a;  ///< [rank, n_in]; empty: there is none
    WeightView b;  ///< [n_out, rank]
  };
  /// Each [rows, ...].
  struct Buffers {
    MatrixView joined;              ///< 2 n_embd: the residual stream, then the embedding
    MatrixView q;                   ///< n_heads * head_dim
    MatrixView k;                   ///< n_kv_heads * head_dim
    MatrixView v;                   ///< n_kv_heads * head_dim
    MatrixView attention;           ///< n_heads * head_dim
    MatrixView block;               ///< n_embd: outputs of attention and network
    MatrixView gate;                ///< n_ff
    MatrixView up;                  ///< n_ff
    MatrixView inner[kMaxAdapted];  ///< rank: products with A
  };
  Buffers buffers(BufferLayout& at, int64_t rows) const;
  /// y = W h + B A h for each of up to kMaxAdapted matrices.
  struct Adapted {
    const WeightView& shared;
    const LowRank& own;
    MatrixView y;
  };
  static void project(kernels::Ops& ops, const kernels::Operand& h, std::span<const Adapted> jobs,
                      const MatrixView* inner);

  kernels::AttentionShape shape_;
  int block_ = 0;
  int n_embd_ = 0;
  int n_ff_ = 0;
  int64_t rank_ = 0;  ///< of the widest adapter
  float norm_eps_ = 0;
  const float* attention_norm_ = nullptr;  ///< [2 n_embd]
  const float* network_norm_ = nullptr;    ///< [n_embd]
  const float* mixer_norm_ = nullptr;      ///< [n_embd]
  WeightView q_;                           ///< [n_heads * head_dim, 2 n_embd]
  WeightView k_;                           ///< [n_kv_heads * head_dim, 2 n_embd]
  WeightView v_;                           ///< [n_kv_heads * head_dim, 2 n_embd]
  WeightView out_;                         ///< [n_embd, n_heads * head_dim]
  WeightView gate_;                        ///< [n_ff, n_embd]
  WeightView up_;                          ///< [n_ff, n_embd]
  WeightView down_;                        ///< [n_embd, n_ff]
  WeightView join_;                        ///< [n_embd, n_embd], of this layer
  LowRank own_q_;
  LowRank own_k_;
  LowRank own_v_;
  LowRank own_gate_;  ///< its A is that of own_up_, too
  LowRank own_up_;
  std::vector<float> divisors_;  ///< memory of shape_.rope_factors
  kernels::KvView kv_;
  std::unique_ptr<Mamba2Mixer> mamba_;
};

struct SharedBlockSpec {
  AttentionSpec attention;
  int n_ff = 0;
  int shared = 0;  ///< number of the shared block
  Mamba2Spec mamba;

  /// Binds the block's tensors ("shared.<shared>.attn_norm", "attn_q", "attn_k", "attn_v",
  /// "attn_output", "ffn_norm", "ffn_gate", "ffn_up" and "ffn_down") and the layer's: "attn_norm",
  /// "shared_out", those of Mamba2Spec, and adapters if the file has them ("attn_q_adapter_a" and
  /// "_b", the same of k and v, "ffn_adapter_a" and "ffn_adapter_b" for gate and up).
  std::unique_ptr<SharedBlock> bind(const SubLayerBinding& to) const;
};

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_LAYERS_SHARED_BLOCK_H_
