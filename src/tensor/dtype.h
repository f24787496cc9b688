// Element types. The numeric values are those of the GGUF file format (ggml_type).
#ifndef CHIMERE_TENSOR_DTYPE_H_
#define CHIMERE_TENSOR_DTYPE_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace chimere {

/// Type of a tensor's elements or blocks. The values are those of GGUF, see
/// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
enum class DType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kI8 = 24,
  kI16 = 25,
  kI32 = 26,
  kI64 = 27,
  kF64 = 28,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
  // Formats of ik_llama.cpp; llama.cpp does not read them.
  kIQ2_K = 137,
  kIQ3_K = 138,
  kIQ4_K = 139,
  kIQ5_K = 140,
  /// Never in a file, and without a DTypeInfo: IQ3_S as unpacked on a GPU
  /// (kernels/cuda/packed_layout.h) or a CPU (kernels/cpu/unpacked_iq3_s.h).
  kIQ3_S_UNPACKED = 0x10000 + kIQ3_S,
};

/// Static facts of a type. A row of n elements takes n / block_elements * block_bytes bytes.
struct DTypeInfo {
  DType type;
  std::string_view name;  ///< as llama.cpp prints it: "q4_K", "iq3_s", "f16"
  int block_elements;
  int block_bytes;
  bool quantised;
};

/// nullptr if the value is not a known type.
const DTypeInfo* find_dtype(uint32_t ggml_type);
/// By name, case-insensitive; nullopt if unknown.
std::optional<DType> parse_dtype(std::string_view name);
const DTypeInfo& dtype_info(DType t);
inline std::string_view dtype_name(DType t) { return dtype_info(t).name; }
/// Bytes of a row of n elements; n must be a multiple of block_elements.
inline int64_t row_bytes(DType t, int64_t n) {
  const DTypeInfo& i = dtype_info(t);
  return n / i.block_elements * i.block_bytes;
}

}  // namespace chimere

#endif  // CHIMERE_TENSOR_DTYPE_H_
