#include "model/arch/qwen35.h"

#include "model/hybrid_model.h"

namespace chimere::model {
namespace {

constexpr HybridKind kKind = {.name = "qwen35", .experts = false, .tiled_heads = true};

void forward(HybridPass& pass) {
  pass.embed();
  for (const HybridLayer& layer : pass.layers()) {
    pass.norm(layer.mixer_norm);
    pass.mix(layer);  // three gated delta nets, then gated attention, and so on
    if (pass.is_last(layer) && !pass.keep_wanted_rows()) return;
    pass.norm(layer.ffn_norm);
    pass.feed_forward(layer);  // a dense SwiGLU network
  }
  pass.head();
}

}  // namespace

Result<std::unique_ptr<Model>> load_qwen35(const gguf::Reader& file, kernels::Ops& ops,
                                           const ModelOptions& options) {
  return load_hybrid_model(file, ops, options, kKind, forward);
}

}  // namespace chimere::model
