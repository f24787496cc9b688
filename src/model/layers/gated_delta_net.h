// The linear-time mixer: gated delta rule over a fixed-size state (Yang et al. 2024,
// arXiv:2412.06464), as used by Qwen3-Next and Qwen3.5.
#ifndef CHIMERE_MODEL_LAYERS_GATED_DELTA_NET_H_
#define CHIMERE_MODEL_LAYERS_GATED_DELTA_NET_H_

#include <memory>

#include "base/result.h"
#include "kernels/api.h"
#include "model/keys.h"
#include "model/sub_layer.h"

namespace chimere::model {

class GatedDeltaNet final : public SubLayer {
 public:
  Status place(Placement& to) override;
  Status add_state(StateBuilder& states) override;
  void lay_out(BufferLayout& at, int64_t rows) const override { buffers(at, rows); }
  GpuScratch gpu_scratch() const override;
  bool recurrent() const override { return true; }
  void forward(const SubLayerRows& rows) const override;

 private:
  friend struct DeltaNetSpec;
  /// Each [rows, ...].
  struct Buffers {
    MatrixView qkv;    ///< conv_dim: q heads, k heads, v heads
    MatrixView z;      ///< value_dim: output gate
    MatrixView alpha;  ///< n_v_heads
    MatrixView beta;   ///< n_v_heads
    MatrixView out;    ///< value_dim
  };
  Buffers buffers(BufferLayout& at, int64_t rows) const;

  kernels::GdnShape shape_;
  int block_ = 0;
  float norm_eps_ = 0;
  WeightView qkv_;                  ///< [conv_dim, n_embd]
  WeightView z_;                    ///< [value_dim, n_embd] output gate
  WeightView alpha_;                ///< [n_v_heads, n_embd] decay
  WeightView beta_;                 ///< [n_v_heads, n_embd] write strength
  WeightView out_;                  ///< [n_embd, value_dim]
  const float* conv_ = nullptr;     ///< [conv_dim, conv_kernel]
  const float* a_ = nullptr;        ///< [n_v_heads], negative
  const float* dt_bias_ = nullptr;  ///< [n_v_heads]
  const float* norm_ = nullptr;     ///< [head_dim]
  kernels::RecurrentView conv_state_;
  kernels::RecurrentView scan_state_;
};

struct DeltaNetSpec {
  kernels::GdnShape shape;

  /// Binds "attn_qkv", "attn_gate", "ssm_*". Where v heads are grouped by k head, z may be fused
  /// with q, k and v in "ssm_in", and beta with alpha in "ssm_ba".
  std::unique_ptr<GatedDeltaNet> bind(const SubLayerBinding& to) const;
};

/// Which k head a v head reads: an architecture's convention, which no key of a file states.
enum class HeadOrder {
  kTiled,    ///< v head h reads k head h % n_k_heads
  kGrouped,  ///< v head h reads k head h / (n_v_heads / n_k_heads)
};

/// Reads "ssm.*". Errors: those of Keys; kInvalidData (keys that contradict each other).
Result<DeltaNetSpec> read_delta_net(const Keys& keys, HeadOrder order);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_LAYERS_GATED_DELTA_NET_H_
