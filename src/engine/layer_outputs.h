// Outputs of a model's layers for some rows of a step.
#ifndef CHIMERE_ENGINE_LAYER_OUTPUTS_H_
#define CHIMERE_ENGINE_LAYER_OUTPUTS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/model.h"
#include "model/step.h"
#include "tensor/view.h"

namespace chimere::engine {

/// Makes the outputs of these layers, rising, part of the plan's taps.
void add_taps(std::span<const int32_t> layers, model::StepPlan& plan);

/// The outputs of `layers` for rows [first, first + rows) of a step, where the model has them:
/// parts of its StepResult::taps. None if the plan did not tap all of the layers.
std::vector<ConstMatrixView> rows_of_taps(std::span<const ConstMatrixView> taps,
                                          const model::StepPlan& plan,
                                          std::span<const int32_t> layers, int64_t first,
                                          int64_t rows);

/// The same in host memory.
class LayerOutputs {
 public:
  /// Copies them from the model's last step, whose plan was `plan`. Errors: those of read_taps().
  static Result<LayerOutputs> read(model::Model& model, const model::StepPlan& plan,
                                   std::span<const int32_t> layers, int64_t first, int64_t rows);

  /// [rows, n_embd] of each layer.
  std::span<const ConstMatrixView> views() const { return views_; }

 private:
  std::vector<float> values_;
  std::vector<ConstMatrixView> views_;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_LAYER_OUTPUTS_H_
