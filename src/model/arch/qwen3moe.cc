#include "model/arch/qwen3moe.h"

#include "model/hybrid_model.h"

namespace chimere::model {
namespace {

constexpr HybridKind kKind = {.name = "qwen3moe", .experts = true, .transformer = true};

void forward(HybridPass& pass) {
  pass.embed();
  for (const HybridLayer& layer : pass.layers()) {
    pass.norm(layer.mixer_norm);
    pass.mix(layer);  // attention over all positions
    if (pass.is_last(layer) && !pass.keep_wanted_rows()) return;
    pass.norm(layer.ffn_norm);
    pass.feed_forward(layer);  // the routed experts
  }
  pass.head();
}

}  // namespace

Result<std::unique_ptr<Model>> load_qwen3moe(const gguf::Reader& file, kernels::Ops& ops,
                                             const ModelOptions& options) {
  return load_hybrid_model(file, ops, options, kKind, forward);
}

}  // namespace chimere::model
