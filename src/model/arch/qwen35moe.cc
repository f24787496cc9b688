#include "model/arch/qwen35moe.h"

#include "model/hybrid_model.h"

namespace chimere::model {
namespace {

constexpr HybridKind kKind = {.name = "qwen35moe", .experts = true, .tiled_heads = true};

}  // namespace

Result<std::unique_ptr<Model>> load_qwen35moe(const gguf::Reader& file, kernels::Ops& ops,
                                              const ModelOptions& options) {
  return load_hybrid_model(file, ops, options, kKind);
}

}  // namespace chimere::model
