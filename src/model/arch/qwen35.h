// Qwen3.5, the dense models: gated delta-net and gated attention layers, three to one, each
// followed by a dense feed-forward network.
#ifndef CHIMERE_MODEL_ARCH_QWEN35_H_
#define CHIMERE_MODEL_ARCH_QWEN35_H_

#include <memory>

#include "model/model.h"

namespace chimere::model {

/// load_model() for general.architecture "qwen35".
Result<std::unique_ptr<Model>> load_qwen35(const gguf::Reader& file, kernels::Ops& ops,
                                           const ModelOptions& options);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_ARCH_QWEN35_H_
