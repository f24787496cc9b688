// What a GGUF file says: the values of its keys and the descriptions of its tensors.
#ifndef CHIMERE_GGUF_METADATA_H_
#define CHIMERE_GGUF_METADATA_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "tensor/dtype.h"

namespace chimere::gguf {

/// Metadata arrays have one element type. Integers of all widths are widened to (u)int64, floats to
/// double.
struct Array {
  std::variant<std::vector<int64_t>, std::vector<uint64_t>, std::vector<double>, std::vector<bool>,
               std::vector<std::string>>
      items;
  bool operator==(const Array&) const = default;
};
using Value = std::variant<int64_t, uint64_t, double, bool, std::string, Array>;

struct TensorInfo {
  std::string name;
  std::vector<int64_t> dims;  ///< GGUF order: dims[0] is contiguous
  DType type = DType::kF32;
  uint64_t offset = 0;  ///< from the start of the file that contains it
  uint64_t bytes = 0;
  const void* data = nullptr;  ///< into the mapping; valid for the Reader's lifetime
};

}  // namespace chimere::gguf

#endif  // CHIMERE_GGUF_METADATA_H_
