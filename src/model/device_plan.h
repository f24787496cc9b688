// The GPU memory that a model needs, computed before anything is copied there.
#ifndef CHIMERE_MODEL_DEVICE_PLAN_H_
#define CHIMERE_MODEL_DEVICE_PLAN_H_

#include <cstdint>
#include <vector>

#include "gguf/reader.h"
#include "model/model.h"

namespace chimere::model {

/// All sizes in bytes.
struct DevicePlan {
  /// All weights that go to the GPU: not the embedding table, unless it is the output head, and not
  /// an MTP head that is not run.
  int64_t weights = 0;
  /// The part of `weights` in the routed experts of each layer that has some. The MTP head's
  /// experts are not included: they always stay on the GPU.
  std::vector<int64_t> experts;
  int host_expert_layers = 0;  ///< number of these layers whose experts stay in host memory
  int64_t unpacking_bytes =
      0;                  ///< additional size of weights that are stored unpacked (WeightPlacement)
  bool unpacked = false;  ///< whether they are stored unpacked
  int64_t kv = 0;         ///< KV cache of all positions
  int64_t state = 0;      ///< recurrent state of one sequence, over all layers
  int64_t states = 0;     ///< number of such states that must fit
  int64_t pending_row = 0;   ///< what a pending row keeps, over all layers
  int64_t pending_rows = 0;  ///< number of such rows that must fit
  int64_t work = 0;          ///< activations, logits, scratch memory and captured graphs
  int64_t interleaved = 0;   ///< `work` of interleaved decode steps; none with experts on the host

  /// The MTP head's part of the numbers above; zero without one.
  struct Drafts {
    int64_t weights = 0;
    int64_t unpacking_bytes = 0;
    int64_t kv = 0;
    int64_t state = 0;
    int64_t pending_row = 0;
    int64_t work = 0;
    int64_t interleaved = 0;
  };
  Drafts drafts;

  /// The plan without the MTP head.
  DevicePlan without_drafts() const;
  /// Bytes that without_drafts() saves.
  int64_t drafts_total() const {
    return drafts.weights + drafts.kv + drafts.state * states + drafts.pending_row * pending_rows +
           drafts.work + (host_expert_layers == 0 ? drafts.interleaved : 0);
  }

  /// Bytes of the experts that stay on the host.
  int64_t host_experts() const;
  /// Bytes of the GPU's staging buffers, which hold one or two of these layers during prefill.
  int64_t staging() const;
  int64_t weights_on_gpu() const {
    return weights - host_experts() + staging() + (unpacked ? unpacking_bytes : 0);
  }
  int64_t work_on_gpu() const { return work + (host_expert_layers == 0 ? interleaved : 0); }
  /// Bytes of the states that must fit: keys, values, recurrent states, pending rows.
  int64_t state_total() const { return kv + state * states + pending_row * pending_rows; }
  int64_t total() const { return weights_on_gpu() + state_total() + work_on_gpu(); }

  /// Sets host_expert_layers to the smallest number with which total() is at most `allowed`.
  /// Returns false if there is none.
  bool fit(int64_t allowed);

  /// Numbers of positions, recurrent states and pending rows in all.
  struct Reserve {
    int64_t positions = 0;
    int64_t states = 0;
    int64_t pending_rows = 0;
  };
  /// What the device can hold beside the plan, at least `positions` and `states`: at most an eighth
  /// of the bytes that are left for pending rows, then half for each; what one of them does not
  /// need up to `max_positions` and `max_states` goes to the other.
  Reserve reserve(int64_t allowed, int64_t positions, int64_t max_positions, int64_t max_states,
                  int64_t max_pending_rows) const;
  /// The pending rows that an eighth of what is left can hold, at least those of the plan.
  int64_t reserve_pending_rows(int64_t allowed, int64_t max_pending_rows) const;

  /// Stores weights unpacked if that costs no memory needed elsewhere: all experts are on the GPU,
  /// and a sixteenth of `allowed` remains free for more sequences.
  void unpack(int64_t allowed);
};

/// `on_host` is the file's model loaded for the host (which copies no weights), with its MTP head
/// if the GPU is to run it. `positions`: size of the KV pool, in tokens; `states`: the smallest
/// acceptable number of recurrent states; `rows`, `wanted`: size of the largest step.
DevicePlan plan_for_device(const gguf::Reader& file, Model& on_host, int64_t positions,
                           int64_t states, int64_t rows, int64_t wanted);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_DEVICE_PLAN_H_
