// Qwen3-Next: gated delta-net and gated attention layers, three to one, each followed by routed
// experts.
#ifndef CHIMERE_MODEL_ARCH_QWEN3NEXT_H_
#define CHIMERE_MODEL_ARCH_QWEN3NEXT_H_

#include <memory>

#include "model/model.h"

namespace chimere::model {

/// load_model() for general.architecture "qwen3next".
Result<std::unique_ptr<Model>> load_qwen3next(const gguf::Reader& file, kernels::Ops& ops,
                                              const ModelOptions& options);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_ARCH_QWEN3NEXT_H_
