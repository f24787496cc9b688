// The states of hybrid models: what each layer stores per sequence, and where.
#ifndef CHIMERE_MODEL_HYBRID_STATES_H_
#define CHIMERE_MODEL_HYBRID_STATES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "kernels/api.h"
#include "model/hparams.h"
#include "model/model.h"
#include "state/state_store.h"
#include "tensor/memory.h"

namespace chimere::model {

/// Where one layer's state lies: conv and scan of a recurrent layer, kv of an attention layer.
struct LayerStates {
  kernels::RecurrentView conv;
  kernels::RecurrentView scan;
  kernels::KvView kv;
};

struct HybridStates {
  std::unique_ptr<state::StateStore> store;
  std::vector<LayerStates> layers;
  /// State of the MTP head, if it is run: its KV, and the hidden state [n_embd] after each
  /// sequence's last row.
  kernels::KvView mtp_kv;
  kernels::RecurrentView last_hidden;
};

/// Whether the MTP head is run.
inline bool runs_mtp(const ModelOptions& options, const Hparams& h) {
  return options.drafts && h.n_mtp_layers > 0;
}

/// Errors: kInvalidArgument (limits), kUnsupported (cache types), kOutOfMemory (address space).
Result<HybridStates> make_hybrid_states(const Hparams& h, kernels::Ops& ops,
                                        const ModelOptions& options, uint64_t model_key);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_HYBRID_STATES_H_
