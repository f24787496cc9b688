// Plans that fit a budget of bytes.
#ifndef CHIMERE_QUANTIZE_PLAN_BUDGET_H_
#define CHIMERE_QUANTIZE_PLAN_BUDGET_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/settings.h"
#include "gguf/reader.h"
#include "quantize/importance.h"
#include "quantize/plan.h"
#include "quantize/sensitivity.h"
#include "runtime/runtime.h"

namespace chimere::quantize {

/// What each format of each tensor would cost the model, for a separable loss: the sum over
/// tensors of sensitivity times relative output error.
struct LossTable {
  Plan plan;                                ///< tensors that are not fixed have no type yet
  std::vector<std::vector<DType>> types;    ///< of each tensor; empty for fixed ones
  std::vector<std::vector<double>> losses;  ///< of these types
  std::vector<double> sensitivity;          ///< of each tensor
};

struct LossOptions {
  Rules rules;
  const ImportanceMatrix* importance = nullptr;  ///< nullptr: white inputs
  std::string calibration;   ///< a text to measure sensitivities on; empty: those of the roles
  int64_t sample = 1 << 14;  ///< elements of each tensor that the errors are measured on
  /// Receives what is being done, the tensors done, and their number.
  std::function<void(std::string_view, size_t, size_t)> progress;
  std::function<bool()> cancelled;
};

/// Errors: those of plan_uniform(), type_errors() and measure_sensitivity().
Result<LossTable> measure_losses(const gguf::Reader& file, const LossOptions& options,
                                 const Settings& settings, const runtime::Runtime& runtime);

/// The plan of least loss whose tensors take at most `tensor_bytes` together, fixed ones included.
/// Errors: kInvalidArgument (the smallest formats take more).
Result<Plan> plan_within(const LossTable& table, uint64_t tensor_bytes);

/// Bytes of all tensors if those that are quantised have `bits` bits a weight.
uint64_t tensor_bytes_at(const LossTable& table, double bits);

}  // namespace chimere::quantize

#endif  // CHIMERE_QUANTIZE_PLAN_BUDGET_H_
