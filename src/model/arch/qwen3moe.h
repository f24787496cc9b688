// Qwen3 mixture-of-experts: attention, then routed experts, in every layer.
#ifndef CHIMERE_MODEL_ARCH_QWEN3MOE_H_
#define CHIMERE_MODEL_ARCH_QWEN3MOE_H_

#include <memory>

#include "model/model.h"

namespace chimere::model {

/// load_model() for general.architecture "qwen3moe".
Result<std::unique_ptr<Model>> load_qwen3moe(const gguf::Reader& file, kernels::Ops& ops,
                                             const ModelOptions& options);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_ARCH_QWEN3MOE_H_
