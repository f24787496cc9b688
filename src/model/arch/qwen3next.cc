#include "model/arch/qwen3next.h"

#include "model/hybrid_model.h"

namespace chimere::model {
namespace {

// The published order: v heads grouped by k head; a delta net's projections may be fused in that
// order (ssm_in, ssm_ba).
constexpr HybridKind kKind = {.name = "qwen3next", .experts = true, .tiled_heads = false};

void forward(HybridPass& pass) {
  pass.embed();
  for (const HybridLayer& layer : pass.layers()) {
    pass.norm(layer.mixer_norm);
    pass.mix(layer);  // three gated delta nets, then gated attention, and so on
    if (pass.is_last(layer) && !pass.keep_wanted_rows()) return;
    pass.norm(layer.ffn_norm);
    pass.feed_forward(layer);  // routed experts and a shared one behind its own gate
  }
  pass.head();
}

}  // namespace

Result<std::unique_ptr<Model>> load_qwen3next(const gguf::Reader& file, kernels::Ops& ops,
                                              const ModelOptions& options) {
  return load_hybrid_model(file, ops, options, kKind, forward);
}

}  // namespace chimere::model
