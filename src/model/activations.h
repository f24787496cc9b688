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

/// Of a gated delta-net layer, [rows, ...].
struct DeltaNetBuffers {
  MatrixView qkv;    ///< conv_dim: q heads, k heads, v heads
  MatrixView z;      ///< value_dim: output gate
  MatrixView alpha;  ///< n_v_heads
  MatrixView beta;   ///< n_v_heads
  MatrixView out;    ///< value_dim
};

/// Of an attention layer, [rows, ...].
struct AttentionBuffers {
  MatrixView qg;   ///< n_heads * query_stride: per head the query, then its gate if any
  MatrixView k;    ///< n_kv_heads * head_dim
  MatrixView v;    ///< n_kv_heads * head_dim
  MatrixView out;  ///< n_heads * head_dim
};

/// Of a dense feed-forward network, [rows, n_ff].
struct DenseBuffers {
  MatrixView gate;
  MatrixView up;
};

/// Of the experts, [rows, ...].
struct MoeBuffers {
  MatrixView router;  ///< n_experts
  kernels::Routing routing;
  MatrixView shared_gate;  ///< 1
  /// [rows], if experts are left out; empty: no row leaves any out.
  std::span<const kernels::RowClass> classes;
  kernels::ExpertUse* use = nullptr;  ///< where they are counted, in Ops::memory()
};

/// Rows on their way through the layers. All buffers share memory: one of them is in use at a time.
struct Activations {
  MatrixView x;  ///< [rows, n_embd] residual stream
  MatrixView h;  ///< [rows, n_embd] x, normalised
  DeltaNetBuffers delta_net;
  AttentionBuffers attention;
  DenseBuffers dense;
  MoeBuffers moe;
};

/// Of the MTP head, [rows, ...]; the rest of it uses the buffers of Activations.
struct MtpBuffers {
  MatrixView hidden;  ///< n_embd: what the head sees of the model, or of this block
  MatrixView before;  ///< n_embd: `hidden` of the row before
  MatrixView token;   ///< n_embd: the row's token
  MatrixView joined;  ///< 2 * n_embd: token and `before`, each normalised
};

struct StepBuffers {
  Activations all;     ///< every row of the step
  Activations wanted;  ///< rows whose logits are wanted; has its own x, and no buffers of mixers
  MtpBuffers mtp;      ///< every row
  MatrixView logits;   ///< [wanted, n_outputs]
  kernels::TopLogit* top = nullptr;    ///< [wanted, kMaxTopLogits]
  float* selected = nullptr;           ///< [wanted, kMaxSelectedLogits]
  kernels::LogSumExp* sums = nullptr;  ///< [wanted]
  int32_t* chosen = nullptr;           ///< [kMaxChoices], at the same address in every layout
};

/// One block of memory at a fixed address, backed as far as steps have used it.
class Workspace {
 public:
  /// Errors: kOutOfMemory (address space).
  static Result<Workspace> create(const Hparams& h, int max_rows, Memory& memory);

  /// The views of a step with so many rows; the previous step's are void. rows, wanted <= max_rows.
  /// Errors: kOutOfMemory.
  Result<StepBuffers> lay_out(const Hparams& h, int64_t rows, int64_t wanted);

  /// Bytes that steps of so many rows take.
  static int64_t bytes(const Hparams& h, int64_t rows, int64_t wanted);

 private:
  std::unique_ptr<MemoryRange> range_;
};

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_ACTIVATIONS_H_
