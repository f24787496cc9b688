#include "model/arch/qwen35.h"

#include "model/hybrid_model.h"

namespace chimere::model {
namespace {

constexpr HybridKind kKind = {.name = "qwen35", .experts = false, .tiled_heads = true};

}  // namespace

Result<std::unique_ptr<Model>> load_qwen35(const gguf::Reader& file, kernels::Ops& ops,
                                           const ModelOptions& options) {
  return load_hybrid_model(file, ops, options, kKind);
}

}  // namespace chimere::model
