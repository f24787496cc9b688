// Qwen3.5 mixture-of-experts: three gated delta-net layers, then one of gated attention, and so on,
// each followed by routed experts.
#ifndef CHIMERE_MODEL_ARCH_QWEN35MOE_H_
#define CHIMERE_MODEL_ARCH_QWEN35MOE_H_

#include <memory>

#include "model/model.h"

namespace chimere::model {

/// load_model() for general.architecture "qwen35moe".
Result<std::unique_ptr<Model>> load_qwen35moe(const gguf::Reader& file, kernels::Ops& ops,
                                              const ModelOptions& options);

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_ARCH_QWEN35MOE_H_
