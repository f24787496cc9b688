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

namespace {

/// The format with at least the bits of the role's floor, if there is one.
DType with_floor(DType type, Role role, const Rules& rules) {
  for (const auto& [floor_role, floor] : rules.floors) {
    if (floor_role == role && bits_per_weight(type) < bits_per_weight(floor)) type = floor;
  }
  return type;
}

/// Which rules some tensor used.
struct RuleUse {
  explicit RuleUse(const Rules& rules)
      : keep(rules.keep.size()), floors(rules.floors.size()), types(rules.types.size()) {}
  std::vector<bool> keep;
  std::vector<bool> floors;
  std::vector<bool> types;
};

/// The format and the reason of a weight matrix, whose role is known.
void decide(PlannedTensor& out, DType type, const Rules& rules, RuleUse& used) {
  const std::string& name = out.source->name;
  bool kept = false;
  for (size_t i = 0; i < rules.keep.size(); ++i) {
    if (!matches(rules.keep[i], name)) continue;
    used.keep[i] = true;
    kept = true;
  }
  DType wanted = type;
  std::string reason = "uniform";
  bool chosen = false;
  for (size_t i = 0; i < rules.types.size(); ++i) {
    if (!matches(rules.types[i].first, name)) continue;
    used.types[i] = true;
    if (chosen) continue;
    chosen = true;
    wanted = rules.types[i].second;
    reason = "type on request";
  }
  if (kept) {
    out.reason = "kept on request";
    return;
  }
  for (size_t i = 0; i < rules.floors.size(); ++i) {
    if (rules.floors[i].first == out.role) used.floors[i] = true;
  }
  if (!chosen) {
    wanted = with_floor(type, out.role, rules);
    if (wanted != type) reason = "floor of " + std::string(role_name(out.role));
  }
  out.type = fitting_type(wanted, out.n_in());
  out.fixed = chosen;
  out.reason = out.type == wanted ? reason
                                  : "rows of " + std::to_string(out.n_in()) + " do not fit " +
                                        std::string(dtype_name(wanted));
}

Status check_used(const Rules& rules, const RuleUse& used) {
  const auto no_match = [](const std::string& rule, const char* what) {
    return invalid_argument(rule + " matches no " + what +
                            " of this model; `chimere inspect --tensors` lists their names");
  };
  for (size_t i = 0; i < rules.keep.size(); ++i) {
    if (!used.keep[i]) return no_match("--keep '" + rules.keep[i] + "'", "tensor");
  }
  for (size_t i = 0; i < rules.types.size(); ++i) {
    if (used.types[i]) continue;
    return no_match("--tensor-type '" + rules.types[i].first + "'", "weight matrix");
  }
  for (size_t i = 0; i < rules.floors.size(); ++i) {
    if (!used.floors[i]) {
      return invalid_argument("--floor " + std::string(role_name(rules.floors[i].first)) +
                              ": no quantised tensor of this model has this role");
    }
  }
  return {};
}

}  // namespace

Result<Plan> plan_uniform(const gguf::Reader& file, DType type, const Rules& rules) {
  Plan plan;
  RuleUse used(rules);
  const std::vector<bool> recurrent = recurrent_blocks(file.tensors());
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    PlannedTensor out;
    out.source = &tensor;
    out.type = tensor.type;
    out.fixed = true;
    const auto block = static_cast<size_t>(std::max(0, block_of(tensor.name)));
    out.role = role_of(tensor.name, block < recurrent.size() && recurrent[block]);
    if (is_quantised_tensor(tensor)) {
      decide(out, type, rules, used);
    } else {
      out.reason = "not a weight matrix";
      for (size_t i = 0; i < rules.keep.size(); ++i) {  // kept anyway
        if (matches(rules.keep[i], tensor.name)) used.keep[i] = true;
      }
    }
    plan.tensors.push_back(std::move(out));
  }
  CHIMERE_CHECK_OK(check_used(rules, used));
  return plan;
}

}  // namespace chimere::quantize
