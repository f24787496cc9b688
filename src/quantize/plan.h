// Which format each tensor of the output has, and why.
#ifndef CHIMERE_QUANTIZE_PLAN_H_
#define CHIMERE_QUANTIZE_PLAN_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "gguf/reader.h"
#include "quantize/tensor_rules.h"
#include "tensor/dtype.h"

namespace chimere::quantize {

struct PlannedTensor {
  const gguf::TensorInfo* source = nullptr;
  Role role = Role::kOther;
  DType type = DType::kF32;  ///< in the output
  std::string reason;        ///< a few words for the decision log
  bool fixed = false;        ///< not the allocator's to choose

  int64_t n_in() const { return source->dims[0]; }
  int64_t rows() const;  ///< of all its matrices
  /// Matrices of a tensor of three dimensions (experts); 1 for others.
  int64_t matrices() const { return source->dims.size() > 2 ? rows() / source->dims[1] : 1; }
  uint64_t bytes() const { return bytes_as(type); }
  uint64_t bytes_as(DType t) const {
    return static_cast<uint64_t>(rows()) * static_cast<uint64_t>(row_bytes(t, n_in()));
  }
};

/// In the order of the source's tensors.
struct Plan {
  std::vector<PlannedTensor> tensors;

  uint64_t tensor_bytes() const;
  /// Of the tensors that are quantised: bits of the output by number of weights.
  double mean_bits() const;
};

/// What the user demands of any plan.
struct Rules {
  std::vector<std::string> keep;               ///< patterns of tensors copied as they are
  std::vector<std::pair<Role, DType>> floors;  ///< formats with fewer bits are replaced by these
  /// Patterns of tensors that have this format; the first that matches counts, before floors.
  std::vector<std::pair<std::string, DType>> types;
};

/// Every weight matrix in `type`, subject to the rules; other tensors as they are. The file must
/// outlive the plan. Errors: kInvalidArgument (a pattern that matches no such tensor, a floor that
/// no tensor has the role of).
Result<Plan> plan_uniform(const gguf::Reader& file, DType type, const Rules& rules);

}  // namespace chimere::quantize

#endif  // CHIMERE_QUANTIZE_PLAN_H_
