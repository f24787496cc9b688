// What a model will take of a card's memory, known before anything is copied there.
#ifndef CHIMERE_MODEL_DEVICE_PLAN_H_
#define CHIMERE_MODEL_DEVICE_PLAN_H_

#include <cstdint>

#include "gguf/reader.h"
#include "model/model.h"

namespace chimere::model {

/// In bytes.
struct DevicePlan {
  int64_t weights =
      0;              ///< as they lie on a card; without the embedding table, unless it is the head
  int64_t kv = 0;     ///< of all positions
  int64_t state = 0;  ///< recurrent state of one sequence, over all layers
  int64_t states = 0;  ///< how many of them must fit
  int64_t work = 0;    ///< activations, logits, scratch memory and recorded steps

  int64_t total() const { return weights + kv + state * states + work; }
};

/// `on_host` is the file's model, loaded for the host (which copies nothing); `positions` are those
/// of the whole KV pool, `states` the least number of recurrent states, `rows` and `wanted` the
/// largest step.
DevicePlan plan_for_device(const gguf::Reader& file, Model& on_host, int64_t positions,
                           int64_t states, int64_t rows, int64_t wanted);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_DEVICE_PLAN_H_
