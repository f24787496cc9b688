// The buffers of one step.
#ifndef CHIMERE_MODEL_STEP_BUFFERS_H_
#define CHIMERE_MODEL_STEP_BUFFERS_H_

#include <cstdint>
#include <vector>

#include "kernels/api.h"
#include "model/buffer_layout.h"
#include "model/layers/mtp_head.h"
#include "model/model_spec.h"
#include "model/model_weights.h"
#include "tensor/view.h"

namespace chimere::model {

/// Rows between sub-layers.
struct RowBuffers {
  MatrixView x;  ///< [rows, n_embd] residual stream
  MatrixView h;  ///< [rows, n_embd] x, normalised
};

struct StepBuffers {
  RowBuffers all;                      ///< every row of the step
  RowBuffers wanted;                   ///< rows whose logits are requested; has its own x
  MatrixView embedding;                ///< [rows, n_embd] if ModelSpec::keeps_embedding
  MatrixView context;                  ///< [rows, context_width] of a block drafter
  BufferLayout sub_layer;              ///< memory of one sub-layer at a time, or of context rows
  MtpHead::Buffers mtp;                ///< every row; empty if the MTP head is not run
  MatrixView logits;                   ///< [wanted, n_outputs]
  kernels::TopLogit* top = nullptr;    ///< [wanted, kMaxTopLogits]
  float* selected = nullptr;           ///< [wanted, kMaxSelectedLogits]
  kernels::LogSumExp* sums = nullptr;  ///< [wanted]
  int32_t* chosen = nullptr;           ///< [kMaxChoices], at the same address in every layout
  std::vector<MatrixView> taps;        ///< [rows, n_embd] for each tapped layer; laid out apart
};

/// The buffers of a step of `rows` rows, of which `wanted` have their logits computed.
StepBuffers lay_out_step(BufferLayout& at, const ModelSpec& model, const ModelWeights& weights,
                         int64_t rows, int64_t wanted);

/// Bytes of these buffers.
int64_t step_buffer_bytes(const ModelSpec& model, const ModelWeights& weights, int64_t rows,
                          int64_t wanted);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_STEP_BUFFERS_H_
