// The mixer of Mamba: a selective scan (Gu and Dao 2023, arXiv:2312.00752), as in Mamba,
// FalconMamba and Jamba.
#ifndef CHIMERE_MODEL_LAYERS_MAMBA_MIXER_H_
#define CHIMERE_MODEL_LAYERS_MAMBA_MIXER_H_

#include <memory>
#include <vector>

#include "base/result.h"
#include "kernels/api.h"
#include "model/keys.h"
#include "model/sub_layer.h"

namespace chimere::model {

class MambaMixer final : public SubLayer {
 public:
  Status place(Placement& to) override;
  Status add_state(StateBuilder& states) override;
  void lay_out(BufferLayout& at, int64_t rows) const override { buffers(at, rows); }
  GpuScratch gpu_scratch() const override {
    return {.widest = shape_.channels, .bytes = conv_scratch_bytes(conv_shape_)};
  }
  bool recurrent() const override { return true; }
  void forward(const SubLayerRows& rows) const override;

 private:
  friend struct MambaSpec;
  /// Each [rows, ...].
  struct Buffers {
    MatrixView x;     ///< channels
    MatrixView z;     ///< channels: output gate
    MatrixView rank;  ///< dt_rank: what dt is projected from
    MatrixView b;     ///< state_dim
    MatrixView c;     ///< state_dim
    MatrixView dt;    ///< channels
    MatrixView out;   ///< channels
  };
  Buffers buffers(BufferLayout& at, int64_t rows) const;

  kernels::SelectiveShape shape_;
  kernels::ConvShape conv_shape_;
  int block_ = 0;
  float norm_eps_ = 0;
  WeightView x_;                      ///< [channels, n_embd]
  WeightView z_;                      ///< [channels, n_embd]
  WeightView rank_;                   ///< [dt_rank, channels]
  WeightView b_;                      ///< [state_dim, channels]
  WeightView c_;                      ///< [state_dim, channels]
  WeightView dt_;                     ///< [channels, dt_rank]
  WeightView out_;                    ///< [n_embd, channels]
  const float* conv_ = nullptr;       ///< [channels, conv_kernel]
  const float* conv_bias_ = nullptr;  ///< [channels]; nullptr: none
  kernels::SelectiveWeights scan_;
  const float* rank_norm_ = nullptr;  ///< [dt_rank]; nullptr: dt, B and C are not normalised
  const float* b_norm_ = nullptr;     ///< [state_dim], with rank_norm_
  const float* c_norm_ = nullptr;     ///< [state_dim], with rank_norm_
  std::vector<float> a_;              ///< memory of scan_.a
  std::vector<float> ones_;           ///< memory of norms without weights
  kernels::RecurrentView conv_state_;
  kernels::RecurrentView scan_state_;
};

struct MambaSpec {
  kernels::SelectiveShape shape;
  int conv_kernel = 0;
  int dt_rank = 0;
  /// RMS norms of dt (before its projection), B and C.
  enum class InnerNorms { kNone, kPlain, kWeighted };
  InnerNorms norms = InnerNorms::kNone;
  float inner_eps = 0;  ///< of those norms; 0: that of the layers' norms

  /// Binds "ssm_in" (x and z), "ssm_conv1d", "ssm_x" (dt, B and C), "ssm_dt", "ssm_a", "ssm_d",
  /// "ssm_out"; with weighted norms "ssm_dt_norm", "ssm_b_norm" and "ssm_c_norm".
  std::unique_ptr<MambaMixer> bind(const SubLayerBinding& to) const;
};

/// Reads "ssm.*"; plain norms if "ssm.dt_b_c_rms" says so. Errors: those of Keys; kUnsupported (a
/// width that is no whole number of vectors).
Result<MambaSpec> read_mamba(const Keys& keys);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_LAYERS_MAMBA_MIXER_H_
