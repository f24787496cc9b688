#include "engine/layer_outputs.h"

#include <algorithm>

namespace chimere::engine {

void add_taps(std::span<const int32_t> layers, model::StepPlan& plan) {
  for (const int32_t layer : layers) {
    const auto at = std::ranges::lower_bound(plan.taps, layer);
    if (at == plan.taps.end() || *at != layer) plan.taps.insert(at, layer);
  }
}

Result<LayerOutputs> LayerOutputs::read(model::Model& model, const model::StepPlan& plan,
                                        std::span<const int32_t> layers, int64_t first,
                                        int64_t rows) {
  LayerOutputs out;
  if (!std::ranges::includes(plan.taps, layers)) return out;
  const int64_t n_embd = model.n_embd();
  const auto size = static_cast<size_t>(rows * n_embd);
  out.values_.resize(layers.size() * size);
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto tap = std::ranges::lower_bound(plan.taps, layers[i]) - plan.taps.begin();
    const std::span<float> values = std::span(out.values_).subspan(i * size, size);
    CHIMERE_CHECK_OK(model.read_tap(static_cast<size_t>(tap), first, values));
    out.views_.emplace_back(values.data(), rows, n_embd, n_embd);
  }
  return out;
}

}  // namespace chimere::engine
