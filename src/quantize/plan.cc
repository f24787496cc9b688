#include "quantize/plan.h"

#include <algorithm>

namespace chimere::quantize {

int64_t PlannedTensor::rows() const {
  int64_t rows = 1;
  for (size_t d = 1; d < source->dims.size(); ++d) rows *= source->dims[d];
  return rows;
}

uint64_t Plan::tensor_bytes() const {
  uint64_t bytes = 0;
  for (const PlannedTensor& t : tensors) bytes += t.bytes();
  return bytes;
}

double Plan::mean_bits() const {
  double bits = 0;
  double weights = 0;
  for (const PlannedTensor& t : tensors) {
    if (!is_quantised_tensor(*t.source)) continue;
    bits += 8.0 * static_cast<double>(t.bytes());
    weights += static_cast<double>(t.rows()) * static_cast<double>(t.n_in());
  }
  return weights > 0 ? bits / weights : 0;
}

DType with_floor(DType type, Role role, const Rules& rules) {
  for (const auto& [floor_role, floor] : rules.floors) {
    if (floor_role == role && bits_per_weight(type) < bits_per_weight(floor)) type = floor;
  }
  return type;
}

Result<Plan> plan_uniform(const gguf::Reader& file, DType type, const Rules& rules) {
  Plan plan;
  std::vector<bool> pattern_used(rules.keep.size());
  std::vector<bool> floor_used(rules.floors.size());
  const std::vector<bool> recurrent = recurrent_blocks(file.tensors());
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    PlannedTensor out;
    out.source = &tensor;
    out.type = tensor.type;
    out.fixed = true;
    const auto block = static_cast<size_t>(std::max(0, block_of(tensor.name)));
    out.role = role_of(tensor.name, block < recurrent.size() && recurrent[block]);
    bool kept = false;
    for (size_t i = 0; i < rules.keep.size(); ++i) {
      if (!matches(rules.keep[i], tensor.name)) continue;
      pattern_used[i] = true;
      kept = true;
    }
    if (!is_quantised_tensor(tensor)) {
      out.reason = "not a weight matrix";
    } else if (kept) {
      out.reason = "kept on request";
    } else {
      for (size_t i = 0; i < rules.floors.size(); ++i) {
        if (rules.floors[i].first == out.role) floor_used[i] = true;
      }
      const DType wanted = with_floor(type, out.role, rules);
      out.type = fitting_type(wanted, out.n_in());
      out.fixed = false;
      out.reason = out.type != wanted ? "rows of " + std::to_string(out.n_in()) + " do not fit " +
                                            std::string(dtype_name(wanted))
                   : wanted != type ? "floor of " + std::string(role_name(out.role))
                                    : "uniform";
    }
    plan.tensors.push_back(std::move(out));
  }
  for (size_t i = 0; i < rules.keep.size(); ++i) {
    if (!pattern_used[i]) {
      return invalid_argument("--keep '" + rules.keep[i] +
                              "' matches no tensor of this model; `chimere inspect --tensors` "
                              "lists their names");
    }
  }
  for (size_t i = 0; i < rules.floors.size(); ++i) {
    if (!floor_used[i]) {
      return invalid_argument("--floor " + std::string(role_name(rules.floors[i].first)) +
                              ": no quantised tensor of this model has this role");
    }
  }
  return plan;
}

}  // namespace chimere::quantize
