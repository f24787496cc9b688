#include "model/arch/qwen3.h"

#include "model/hybrid_model.h"

namespace chimere::model {
namespace {

constexpr HybridKind kKind = {.name = "qwen3", .experts = false, .transformer = true};

void forward(HybridPass& pass) {
  pass.embed();
  for (const HybridLayer& layer : pass.layers()) {
    pass.norm(layer.mixer_norm);
    pass.mix(layer);  // attention over all positions
    if (pass.is_last(layer) && !pass.keep_wanted_rows()) return;
    pass.norm(layer.ffn_norm);
    pass.feed_forward(layer);  // a dense SwiGLU network
  }
  pass.head();
}

}  // namespace

Result<std::unique_ptr<Model>> load_qwen3(const gguf::Reader& file, kernels::Ops& ops,
                                          const ModelOptions& options) {
  return load_hybrid_model(file, ops, options, kKind, forward);
}

}  // namespace chimere::model
