// Constants of the GGUF file format (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
#ifndef CHIMERE_GGUF_FORMAT_H_
#define CHIMERE_GGUF_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace chimere::gguf {

inline constexpr uint32_t kMagic = 0x46554747;  // "GGUF", little endian
inline constexpr uint32_t kDefaultAlignment = 32;
inline constexpr std::string_view kAlignmentKey = "general.alignment";
inline constexpr size_t kMaxKeyBytes = 65535;
inline constexpr size_t kMaxTensorNameBytes = 64;
inline constexpr uint32_t kMaxDims = 4;

enum class ValueType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

/// Tensor data is read in aligned units of up to 8 bytes, so smaller alignments are refused.
inline bool valid_alignment(uint64_t a) { return a >= 8 && a <= UINT32_MAX && (a & (a - 1)) == 0; }
inline uint64_t align_up(uint64_t n, uint64_t alignment) {
  return (n + alignment - 1) / alignment * alignment;
}

}  // namespace chimere::gguf

#endif  // CHIMERE_GGUF_FORMAT_H_
