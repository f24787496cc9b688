// The feed-forward network after a layer's mixer.
#ifndef CHIMERE_MODEL_LAYERS_FEED_FORWARD_H_
#define CHIMERE_MODEL_LAYERS_FEED_FORWARD_H_

#include <variant>

#include "model/layers/dense_ffn.h"
#include "model/layers/moe.h"

namespace chimere::model {

using FeedForward = std::variant<DenseFfn, Moe>;

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_LAYERS_FEED_FORWARD_H_
