// A dense feed-forward network, with a gated unit (SwiGLU and others, Shazeer 2020,
// arXiv:2002.05202) or without.
#ifndef CHIMERE_MODEL_LAYERS_DENSE_NETWORK_H_
#define CHIMERE_MODEL_LAYERS_DENSE_NETWORK_H_

#include <memory>
#include <vector>

#include "base/result.h"
#include "kernels/api.h"
#include "model/keys.h"
#include "model/sub_layer.h"

namespace chimere::model {

/// x += down(f(gate h) ∘ up h), or without a gate down(f(up h)).
class DenseNetwork final : public SubLayer {
 public:
  Status place(Placement& to) override;
  void lay_out(BufferLayout& at, int64_t rows) const override { buffers(at, rows); }
  GpuScratch gpu_scratch() const override { return {.widest = up_.n_out}; }
  void forward(const SubLayerRows& rows) const override;

 private:
  friend struct DenseSpec;
  /// Each [rows, n_ff].
  struct Buffers {
    MatrixView gate;  ///< unused without a gate
    MatrixView up;
  };
  Buffers buffers(BufferLayout& at, int64_t rows) const;

  kernels::Activation activation_ = kernels::Activation::kSilu;
  WeightView gate_;                   ///< [n_ff, n_embd], or empty
  WeightView up_;                     ///< [n_ff, n_embd]
  WeightView down_;                   ///< [n_embd, n_ff]
  const float* gate_bias_ = nullptr;  ///< [n_ff]; nullptr: none
  const float* up_bias_ = nullptr;    ///< [n_ff]
  const float* down_bias_ = nullptr;  ///< [n_embd], times the scale of the output
  std::vector<float> scaled_;         ///< memory of down_bias_
};

struct DenseSpec {
  int n_ff = 0;  ///< inner width
  bool gated = true;
  kernels::Activation activation = kernels::Activation::kSilu;
  bool fused = false;  ///< gated only: "ffn_up" holds the rows of the gate, then those of up

  /// Binds "ffn_gate" (if gated), "ffn_up" and "ffn_down", each with its bias if the file has one.
  std::unique_ptr<DenseNetwork> bind(const SubLayerBinding& to) const;
};

/// Reads "feed_forward_length" of one block. Errors: those of Keys.
Result<DenseSpec> read_dense(const Keys& keys, int block);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_LAYERS_DENSE_NETWORK_H_
