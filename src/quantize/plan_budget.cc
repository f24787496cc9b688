#include "quantize/plan_budget.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include "quantize/allocate.h"
#include "quantize/type_errors.h"

namespace chimere::quantize {
namespace {

// The format that a tensor is rounded to when its sensitivity is measured: coarse enough that the
// divergence is well above rounding noise.
DType probe_type(int64_t n_in) { return fitting_type(DType::kIQ3_S, n_in); }

constexpr std::string_view kOutputName = "output.weight";

std::string short_number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", v);
  return text;
}

DType floor_of(Role role, const Rules& rules) {
  DType floor = DType::kF32;  // none
  for (const auto& [floor_role, type] : rules.floors) {
    if (floor_role == role &&
        (floor == DType::kF32 || bits_per_weight(type) > bits_per_weight(floor)))
      floor = type;
  }
  return floor;
}

}  // namespace

Result<LossTable> measure_losses(const gguf::Reader& file, const LossOptions& options,
                                 const Settings& settings, const runtime::Runtime& runtime) {
  LossTable table;
  CHIMERE_TRY(table.plan, plan_uniform(file, DType::kIQ3_S, options.rules));
  const size_t n = table.plan.tensors.size();
  table.types.resize(n);
  table.losses.resize(n);
  table.sensitivity.resize(n);
  std::vector<DType> probes(n);
  std::vector<double> probe_errors(n);
  for (size_t t = 0; t < n; ++t) {
    const PlannedTensor& tensor = table.plan.tensors[t];
    if (tensor.fixed) continue;
    if (options.progress) options.progress("errors of the formats", t, n);
    if (options.cancelled && options.cancelled()) {
      return Error{Error::Code::kCancelled, "Interrupted."};
    }
    std::vector<float> squares;
    if (options.importance != nullptr) {
      CHIMERE_TRY(squares, options.importance->weights(tensor.source->name, tensor.n_in(),
                                                       tensor.matrices()));
    }
    std::vector<DType>& types = table.types[t];
    types = candidate_types(tensor.n_in(), floor_of(tensor.role, options.rules));
    if (types.empty()) types.push_back(DType::kF32);
    probes[t] = probe_type(tensor.n_in());
    std::vector<DType> measured = types;
    measured.push_back(probes[t]);
    CHIMERE_TRY(std::vector<double> errors,
                type_errors(file, tensor, squares, measured, options.sample, *runtime.pool()));
    probe_errors[t] = errors.back();
    errors.pop_back();
    table.losses[t] = std::move(errors);
    // A tied embedding is the output matrix too.
    const bool output = tensor.role == Role::kEmbedding && file.find_tensor(kOutputName) == nullptr;
    table.sensitivity[t] =
        expected_sensitivity(tensor.source->name, output ? Role::kOutput : tensor.role);
  }
  if (!options.calibration.empty()) {
    SensitivityOptions measure;
    measure.cancelled = options.cancelled;
    if (options.progress) {
      measure.progress = [&](size_t done, size_t count, std::string_view) {
        options.progress("loss of single changes", done, count);
      };
    }
    CHIMERE_TRY(table.sensitivity,
                measure_sensitivity(file, table.plan, probes, probe_errors, options.importance,
                                    options.calibration, settings, runtime, measure));
  }
  for (size_t t = 0; t < n; ++t) {
    for (double& loss : table.losses[t]) loss *= table.sensitivity[t];
  }
  return table;
}

uint64_t tensor_bytes_at(const LossTable& table, double bits) {
  double weights = 0;
  uint64_t others = 0;
  for (const PlannedTensor& t : table.plan.tensors) {
    if (is_quantised_tensor(*t.source)) {
      weights += static_cast<double>(t.rows()) * static_cast<double>(t.n_in());
    } else {
      others += t.bytes();
    }
  }
  return others + static_cast<uint64_t>(weights * bits / 8);
}

Result<Plan> plan_within(const LossTable& table, uint64_t tensor_bytes) {
  Plan plan = table.plan;
  std::vector<std::vector<Choice>> items;
  std::vector<size_t> tensors;
  uint64_t fixed = 0;
  for (size_t t = 0; t < plan.tensors.size(); ++t) {
    if (plan.tensors[t].fixed) {
      fixed += plan.tensors[t].bytes();
      continue;
    }
    std::vector<Choice>& choices = items.emplace_back();
    tensors.push_back(t);
    for (size_t c = 0; c < table.types[t].size(); ++c) {
      choices.push_back({plan.tensors[t].bytes_as(table.types[t][c]), table.losses[t][c]});
    }
  }
  if (fixed > tensor_bytes) {
    return invalid_argument(
        "The tensors whose formats are not to be chosen (no weight matrices, "
        "--keep, --tensor-type) take " +
        std::to_string(fixed) + " bytes, more than the " + std::to_string(tensor_bytes) +
        " of the budget; allow more bytes, or keep fewer tensors.");
  }
  CHIMERE_TRY(const Allocation allocation, allocate(items, tensor_bytes - fixed));
  for (size_t i = 0; i < tensors.size(); ++i) {
    const size_t t = tensors[i];
    const size_t chosen = allocation.chosen[i];
    plan.tensors[t].type = table.types[t][chosen];
    plan.tensors[t].reason = "loss " + short_number(table.losses[t][chosen]) + " sensitivity " +
                             short_number(table.sensitivity[t]);
  }
  return plan;
}

}  // namespace chimere::quantize
