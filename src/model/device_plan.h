// What a model will take of a GPU's memory, known before anything is copied there.
#ifndef CHIMERE_MODEL_DEVICE_PLAN_H_
#define CHIMERE_MODEL_DEVICE_PLAN_H_

#include <cstdint>
#include <vector>

#include "gguf/reader.h"
#include "model/model.h"

namespace chimere::model {

/// In bytes.
struct DevicePlan {
  /// As they lie on a GPU: without the embedding table, unless it is the head, and without blocks
  /// for drafts that are not run.
  int64_t weights = 0;
  /// Of `weights`, the routed experts of each layer that has some. Those of a MTP head are
  /// not among them: they stay on the card.
  std::vector<int64_t> experts;
  int host_expert_layers = 0;   ///< how many of these layers' experts stay in the host's memory
  int64_t unpacking_bytes = 0;  ///< that weights take more if they lie wide (WeightPlacement)
  bool unpacked = false;        ///< whether they do
  int64_t kv = 0;               ///< of all positions
  int64_t state = 0;            ///< recurrent state of one sequence, over all layers
  int64_t states = 0;           ///< how many of them must fit
  int64_t work = 0;             ///< activations, logits, scratch memory and captured graphs
  int64_t interleaved = 0;      ///< `work` of steps within steps: none with experts on the host

  /// What the MTP head takes of the numbers above; nothing without one.
  struct Drafts {
    int64_t weights = 0;
    int64_t unpacking_bytes = 0;
    int64_t kv = 0;
    int64_t state = 0;
  };
  Drafts drafts;

  /// The plan without the MTP head.
  DevicePlan without_drafts() const;
  /// Bytes that this saves.
  int64_t drafts_total() const { return drafts.weights + drafts.kv + drafts.state * states; }

  /// Experts that stay on the host; for prompts the GPU keeps room for one or two layers of them.
  int64_t host_experts() const;
  int64_t staging() const;
  int64_t weights_on_gpu() const {
    return weights - host_experts() + staging() + (unpacked ? unpacking_bytes : 0);
  }
  int64_t work_on_gpu() const { return work + (host_expert_layers == 0 ? interleaved : 0); }
  int64_t total() const { return weights_on_gpu() + kv + state * states + work_on_gpu(); }

  /// Whether it is at most `allowed` bytes with the fewest layers' experts on the host, which
  /// host_expert_layers is then.
  bool fit(int64_t allowed);

  /// Numbers of positions and recurrent states in all.
  struct Reserve {
    int64_t positions = 0;
    int64_t states = 0;
  };
  /// What the device can hold beside the plan, whose least numbers are `positions` and `states`: of
  /// the bytes that are left a half goes to each, and what one of them does not need up to
  /// `max_positions` and `max_states` goes to the other.
  Reserve reserve(int64_t allowed, int64_t positions, int64_t max_positions,
                  int64_t max_states) const;

  /// Makes weights wide if that takes no memory that would be missed: all experts are on the GPU,
  /// and a sixteenth of the allowed bytes is left for more sequences.
  void unpack(int64_t allowed);
};

/// `on_host` is the file's model, loaded for the host (which copies nothing), with the block for
/// drafts if the GPU is to run it; `positions` are those of the whole KV pool, `states` the least
/// number of recurrent states, `rows` and `wanted` the largest step.
DevicePlan plan_for_device(const gguf::Reader& file, Model& on_host, int64_t positions,
                           int64_t states, int64_t rows, int64_t wanted);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_DEVICE_PLAN_H_
