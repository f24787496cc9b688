// The states of hybrid models: what their layers keep for each sequence, and where.
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

/// Where one layer's states lie: conv and scan of a recurrent layer, else kv.
struct LayerStates {
  kernels::RecurrentView conv;
  kernels::RecurrentView scan;
  kernels::KvView kv;
};

struct HybridStates {
  std::unique_ptr<state::StateStore> store;
  std::vector<LayerStates> layers;
  /// Of the MTP head, where it is run: its keys and values, and the hidden state
  /// [n_embd] behind each sequence's last row.
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
