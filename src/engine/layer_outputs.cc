#include "engine/layer_outputs.h"

#include <algorithm>
#include <cstddef>

namespace chimere::engine {
namespace {

/// Indices of tapped layers in StepPlan::taps.
std::vector<size_t> indices_of(std::span<const int32_t> layers, const model::StepPlan& plan) {
  std::vector<size_t> indices;
  for (const int32_t layer : layers) {
    const auto tap = std::ranges::lower_bound(plan.taps, layer) - plan.taps.begin();
    indices.push_back(static_cast<size_t>(tap));
  }
  return indices;
}

}  // namespace

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
  if (layers.empty() || !std::ranges::includes(plan.taps, layers)) return out;
  const auto width = static_cast<int64_t>(plan.taps.size()) * model.n_embd();
  out.values_.resize(static_cast<size_t>(rows * width));
  CHIMERE_CHECK_OK(model.read_taps(first, out.values_));
  const ConstMatrixView all = {out.values_.data(), rows, model.n_embd(), width};
  for (const size_t tap : indices_of(layers, plan)) {
    out.views_.emplace_back(all.data + static_cast<int64_t>(tap) * all.cols, rows, all.cols, width);
  }
  return out;
}

std::vector<ConstMatrixView> rows_of_taps(std::span<const ConstMatrixView> taps,
                                          const model::StepPlan& plan,
                                          std::span<const int32_t> layers, int64_t first,
                                          int64_t rows) {
  std::vector<ConstMatrixView> views;
  if (!std::ranges::includes(plan.taps, layers)) return views;
  for (const size_t i : indices_of(layers, plan)) {
    views.emplace_back(taps[i].row(first), rows, taps[i].cols, taps[i].stride);
  }
  return views;
}

}  // namespace chimere::engine
