// From a checkpoint's tensors to those of a GGUF file, by a family's rules.
#ifndef CHIMERE_CONVERT_PLAN_H_
#define CHIMERE_CONVERT_PLAN_H_

#include <string>
#include <vector>

#include "convert/checkpoint.h"
#include "convert/family.h"

namespace chimere::convert {

struct TensorPlan {
  NamedTensors tensors;              ///< in order of layers, then of names
  std::vector<std::string> dropped;  ///< of the source: not part of the file's model
};

/// The checkpoint must outlive the plan. Errors: kUnsupported for a tensor without a rule or of a
/// type that cannot be read, kInvalidData for experts that are missing or differ, names that
/// collide, shapes that do not match config.json, no embedding in a model that is no drafter.
Result<TensorPlan> plan_tensors(const Family& family, const Config& config,
                                const Checkpoint& checkpoint);

struct PlacedTensors {
  NamedTensors tensors;  ///< empty: not part of the file's model
  int expert = -1;       ///< that they are parts of; -1: they are whole
};
/// What plan_tensors() makes of one tensor of the source with these values. Errors: its errors.
Result<PlacedTensors> place_tensor(const Family& family, const Config& config,
                                   const std::string& name, const Tensor& values);

/// The type of a tensor in a file of the type `wanted` (F32, F16, BF16 or Q8_0), which llama.cpp's
/// converter chooses too: vectors, norms, routers, convolutions and positions stay F32; rows that
/// are no multiple of a block become F16. MXFP4 stays as it is.
DType file_type_of(const NamedTensor& tensor, DType wanted);

}  // namespace chimere::convert

#endif  // CHIMERE_CONVERT_PLAN_H_
