// How much the model's predictions suffer from the error of one tensor.
#ifndef CHIMERE_QUANTIZE_SENSITIVITY_H_
#define CHIMERE_QUANTIZE_SENSITIVITY_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/settings.h"
#include "base/thread_pool.h"
#include "gguf/reader.h"
#include "quantize/importance.h"
#include "quantize/plan.h"
#include "runtime/runtime.h"

namespace chimere::quantize {

/// Sensitivity of a tensor without data, by its name and role: about the KL divergence in nats for
/// a relative output error of 1, extrapolated from small errors; only the ratios between tensors of
/// a model count. docs/quantize.md says where the figures come from.
double expected_sensitivity(std::string_view tensor, Role role);

struct SensitivityOptions {
  int64_t window = 256;
  int64_t windows = 2;  ///< of the text
  /// Receives the tensors done, their number, and the name of the next one.
  std::function<void(size_t, size_t, std::string_view)> progress;
  std::function<bool()> cancelled;
};

/// For each tensor of the plan (0 for fixed ones) the KL divergence in nats that its error causes,
/// for a relative output error of 1: the tensor alone is rounded to its probe format, the model
/// runs over the text, and the mean divergence from the unrounded model is divided by the error of
/// that format (`probe_errors`). The model is held in memory in f32. Errors: kOutOfMemory (no room
/// for that), kInvalidArgument (the text is too short), kCancelled, those of runtime::load().
Result<std::vector<double>> measure_sensitivity(const gguf::Reader& file, const Plan& plan,
                                                std::span<const DType> probes,
                                                std::span<const double> probe_errors,
                                                const ImportanceMatrix* importance,
                                                const std::string& text, const Settings& settings,
                                                const runtime::Runtime& runtime,
                                                const SensitivityOptions& options);

}  // namespace chimere::quantize

#endif  // CHIMERE_QUANTIZE_SENSITIVITY_H_
