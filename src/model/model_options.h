// Options of loading a model.
#ifndef CHIMERE_MODEL_MODEL_OPTIONS_H_
#define CHIMERE_MODEL_MODEL_OPTIONS_H_

#include <cstdint>
#include <optional>

#include "model/pooling.h"
#include "model/rope_options.h"
#include "tensor/dtype.h"

namespace chimere::model {

/// Limits reserve address space, not memory: pages, states and activations are backed when first
/// used.
struct ModelOptions {
  /// KV positions of all sequences together; each sequence occupies whole pages of 64.
  int64_t max_tokens = 4096;
  /// Recurrent states of all sequences and checkpoints together.
  int64_t max_states = 64;
  /// States with KV of layers with a window at the same time, sequences and checkpoints; 0: as the
  /// numbers above allow.
  int64_t max_window_states = 0;
  /// Revocable rows, and rows that are not folded yet, of all sequences and checkpoints together.
  int64_t max_pending_rows = 256;
  /// Most memory of pages, states and pending rows together; 0: what the numbers above amount to.
  int64_t max_state_bytes = 0;
  /// In place of the "pooling_type" of the file.
  std::optional<Pooling> pooling = std::nullopt;
  int max_step_rows = 512;  ///< rows of one step; larger plans are refused
  DType cache_k = DType::kF16;
  DType cache_v = DType::kF16;
  /// Run the MTP head, if the file has one, for Model::draft(). Its KV and the last hidden state
  /// then become part of every sequence's state.
  bool drafts = false;
  /// draft() chooses among the first `draft_tokens` tokens of the vocabulary; 0: a default that
  /// depends on the vocabulary's size.
  int64_t draft_tokens = 0;
  /// The routed experts of the first so many layers that have some stay in host memory, if ops have
  /// a memory of their own (a GPU's that is too small for them). The MTP head's are not counted.
  int host_expert_layers = 0;
  /// In (0, 1]. Below 1, each decode row uses its routed experts in order of falling weight only
  /// until their weights sum to this; prefill rows use all. No effect on models without experts.
  /// Part of the model key of every stored state.
  float expert_top_p = 1;
  /// Part of the model key of every stored state, like the top-p.
  RopeOptions rope = {};
};

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_MODEL_OPTIONS_H_
