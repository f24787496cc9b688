// Memory for the activations of one step.
#ifndef CHIMERE_MODEL_ACTIVATIONS_H_
#define CHIMERE_MODEL_ACTIVATIONS_H_

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "kernels/api.h"
#include "model/hparams.h"
#include "tensor/memory.h"
#include "tensor/view.h"

namespace chimere::model {

/// Buffers of a gated delta-net layer, each [rows, ...].
struct DeltaNetBuffers {
  MatrixView qkv;    ///< conv_dim: q heads, k heads, v heads
  MatrixView z;      ///< value_dim: output gate
  MatrixView alpha;  ///< n_v_heads
  MatrixView beta;   ///< n_v_heads
  MatrixView out;    ///< value_dim
};

/// Buffers of an attention layer, each [rows, ...].
struct AttentionBuffers {
  MatrixView qg;   ///< n_heads * query_stride: per head the query, then its gate if any
  MatrixView k;    ///< n_kv_heads * head_dim
  MatrixView v;    ///< n_kv_heads * head_dim
  MatrixView out;  ///< n_heads * head_dim
};

/// Buffers of a dense feed-forward network, each [rows, n_ff].
struct DenseBuffers {
  MatrixView gate;
  MatrixView up;
};

/// Buffers of an expert layer, each [rows, ...].
struct MoeBuffers {
  MatrixView router;  ///< n_experts
  kernels::Routing routing;
  MatrixView shared_gate;  ///< 1
  /// [rows] if decode rows may skip experts (MoeShape::top_p < 1); empty: every row uses all.
  std::span<const kernels::RowClass> classes;
  kernels::ExpertUse* use = nullptr;  ///< counters of the experts used, in Ops::memory()
};

/// The buffers that rows pass through in the layers. The mixers' and networks' buffers overlap:
/// only one set is in use at a time.
struct Activations {
  MatrixView x;  ///< [rows, n_embd] residual stream
  MatrixView h;  ///< [rows, n_embd] x, normalised
  DeltaNetBuffers delta_net;
  AttentionBuffers attention;
  DenseBuffers dense;
  MoeBuffers moe;
};

/// Buffers of the MTP head, each [rows, ...]; its attention and network use those of Activations.
struct MtpBuffers {
  MatrixView hidden;  ///< n_embd: what the output head reads, of the main model or of this block
  MatrixView before;  ///< n_embd: `hidden` of the previous row
  MatrixView token;   ///< n_embd: embedding of the row's token
  MatrixView joined;  ///< 2 * n_embd: token and `before`, each normalised
};

struct StepBuffers {
  Activations all;     ///< every row of the step
  Activations wanted;  ///< rows whose logits are requested; has its own x and no mixer buffers
  MtpBuffers mtp;      ///< every row
  MatrixView logits;   ///< [wanted, n_outputs]
  kernels::TopLogit* top = nullptr;    ///< [wanted, kMaxTopLogits]
  float* selected = nullptr;           ///< [wanted, kMaxSelectedLogits]
  kernels::LogSumExp* sums = nullptr;  ///< [wanted]
  int32_t* chosen = nullptr;           ///< [kMaxChoices], at the same address in every layout
};

/// One range of memory at a fixed address, backed as far as steps have used it.
class Workspace {
 public:
  /// Reserves address space for the largest step. Errors: kOutOfMemory (address space).
  static Result<Workspace> create(const Hparams& h, int max_rows, Memory& memory);

  /// The views of a step of `rows` rows, of which `wanted` have their logits computed; both at most
  /// max_rows. Invalidates the views of the previous call. Errors: kOutOfMemory.
  Result<StepBuffers> lay_out(const Hparams& h, int64_t rows, int64_t wanted);

  /// Bytes that a step of these sizes needs.
  static int64_t bytes(const Hparams& h, int64_t rows, int64_t wanted);

 private:
  std::unique_ptr<MemoryRange> range_;
};

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_ACTIVATIONS_H_
