// Qwen3, the dense transformers, and the embedding models made of them: attention, then a dense
// feed-forward network, in every layer.
#ifndef CHIMERE_MODEL_ARCH_QWEN3_H_
#define CHIMERE_MODEL_ARCH_QWEN3_H_

#include <memory>

#include "model/model.h"

namespace chimere::model {

/// load_model() for general.architecture "qwen3".
Result<std::unique_ptr<Model>> load_qwen3(const gguf::Reader& file, kernels::Ops& ops,
                                          const ModelOptions& options);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_ARCH_QWEN3_H_
