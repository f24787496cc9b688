// The mixer of Mamba 2: state-space duality (Dao and Gu 2024, arXiv:2405.21060) with heads and
// groups, as in Mamba 2, Nemotron-H, Granite 4, Bamba and Falcon-H1.
#ifndef CHIMERE_MODEL_LAYERS_MAMBA2_MIXER_H_
#define CHIMERE_MODEL_LAYERS_MAMBA2_MIXER_H_

#include <memory>

#include "base/result.h"
#include "kernels/api.h"
#include "model/keys.h"
#include "model/sub_layer.h"

namespace chimere::model {

class Mamba2Mixer final : public SubLayer {
 public:
  Status place(Placement& to) override;
  Status add_state(StateBuilder& states) override;
  void lay_out(BufferLayout& at, int64_t rows) const override { buffers(at, rows); }
  GpuScratch gpu_scratch() const override;
  bool recurrent() const override { return true; }
  void forward(const SubLayerRows& rows) const override;

 private:
  friend struct Mamba2Spec;
  /// Each [rows, ...].
  struct Buffers {
    MatrixView z;    ///< inner: output gate
    MatrixView xbc;  ///< conv_dim: x heads, B groups, C groups
    MatrixView dt;   ///< n_heads
    MatrixView out;  ///< inner
  };
  Buffers buffers(BufferLayout& at, int64_t rows) const;

  kernels::SsdShape shape_;
  kernels::ConvShape conv_shape_;
  int block_ = 0;
  float norm_eps_ = 0;
  WeightView z_;                      ///< [inner, n_embd]
  WeightView xbc_;                    ///< [conv_dim, n_embd]
  WeightView dt_;                     ///< [n_heads, n_embd]
  WeightView out_;                    ///< [n_embd, inner]
  const float* conv_ = nullptr;       ///< [conv_dim, conv_kernel]
  const float* conv_bias_ = nullptr;  ///< [conv_dim]; nullptr: none
  kernels::SsdWeights scan_;
  const float* norm_ = nullptr;  ///< [inner], one group after the other; nullptr: no norm
  kernels::RecurrentView conv_state_;
  kernels::RecurrentView scan_state_;
};

struct Mamba2Spec {
  kernels::SsdShape shape;
  int conv_kernel = 0;
  bool norm_required = true;  ///< else the output is normalised if the file has "ssm_norm"

  /// Binds "ssm_in" (z, x, B, C and dt), "ssm_conv1d", "ssm_dt.bias", "ssm_a", "ssm_d", "ssm_norm"
  /// and "ssm_out".
  std::unique_ptr<Mamba2Mixer> bind(const SubLayerBinding& to) const;
};

/// Reads "ssm.*". Errors: those of Keys; kInvalidData (keys that contradict each other),
/// kUnsupported (widths that are no whole vectors).
Result<Mamba2Spec> read_mamba2(const Keys& keys);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_LAYERS_MAMBA2_MIXER_H_
