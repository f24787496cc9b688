#include "model/arch/qwen3next.h"

#include "model/hybrid_model.h"

namespace chimere::model {
namespace {

// As published: v heads stand with their k head, and the projections of a delta net may be fused in
// that order (ssm_in, ssm_ba).
constexpr HybridKind kKind = {.name = "qwen3next", .experts = true, .tiled_heads = false};

}  // namespace

Result<std::unique_ptr<Model>> load_qwen3next(const gguf::Reader& file, kernels::Ops& ops,
                                              const ModelOptions& options) {
  return load_hybrid_model(file, ops, options, kKind);
}

}  // namespace chimere::model
