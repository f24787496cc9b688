// The gated short convolution of LFM2: out (c ∘ conv(b ∘ x)).
#ifndef CHIMERE_MODEL_LAYERS_SHORT_CONVOLUTION_H_
#define CHIMERE_MODEL_LAYERS_SHORT_CONVOLUTION_H_

#include <memory>

#include "base/result.h"
#include "kernels/api.h"
#include "model/keys.h"
#include "model/sub_layer.h"

namespace chimere::model {

class ShortConvolution final : public SubLayer {
 public:
  Status place(Placement& to) override;
  Status add_state(StateBuilder& states) override;
  void lay_out(BufferLayout& at, int64_t rows) const override { buffers(at, rows); }
  GpuScratch gpu_scratch() const override {
    return {.widest = shape_.channels, .bytes = conv_scratch_bytes(shape_)};
  }
  bool recurrent() const override { return true; }
  void forward(const SubLayerRows& rows) const override;

 private:
  friend struct ShortConvolutionSpec;
  /// Each [rows, n_embd].
  struct Buffers {
    MatrixView b;  ///< gate of the input
    MatrixView c;  ///< gate of the output
    MatrixView x;
  };
  Buffers buffers(BufferLayout& at, int64_t rows) const;

  kernels::ConvShape shape_;
  int block_ = 0;
  WeightView b_;                 ///< [n_embd, n_embd]
  WeightView c_;                 ///< [n_embd, n_embd]
  WeightView x_;                 ///< [n_embd, n_embd]
  WeightView out_;               ///< [n_embd, n_embd]
  const float* conv_ = nullptr;  ///< [n_embd, taps]
  kernels::RecurrentView state_;
};

struct ShortConvolutionSpec {
  int taps = 0;

  /// Binds "shortconv.in_proj" (b, c and x), "shortconv.conv" and "shortconv.out_proj".
  std::unique_ptr<ShortConvolution> bind(const SubLayerBinding& to) const;
};

/// Reads "shortconv.l_cache". Errors: those of Keys; kUnsupported (a width that is no whole number
/// of vectors).
Result<ShortConvolutionSpec> read_short_convolution(const Keys& keys);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_LAYERS_SHORT_CONVOLUTION_H_
