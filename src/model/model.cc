#include "model/model.h"

#include <string>

namespace chimere::model {

Status Model::read_logits(int64_t row, std::span<float> /*out*/) {
  return invalid_argument("the last step kept no logits of row " + std::to_string(row) +
                          ", or not of this size");
}

Status Model::read_taps(int64_t first_row, std::span<float> /*out*/) {
  return invalid_argument("the last step has no taps of row " + std::to_string(first_row) +
                          ", or of fewer rows than fit in the destination");
}

Status Model::launch(const StepPlan& /*plan*/) {
  return unsupported("this model does not support overlap scheduling; use forward()");
}

Result<StepResult> Model::wait() { return invalid_argument("no step is in flight"); }

Status Model::draft(std::span<const DraftStart> /*starts*/, int /*depth*/,
                    const ChooseDraft& /*choose*/) {
  return unsupported("The model was loaded without an MTP head.");
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): models that take adapters keep it
Result<int32_t> Model::add_adapter(Adapter /*adapter*/) {
  return unsupported("this model takes no adapters");
}

}  // namespace chimere::model
