// IQ3_S with its codebook looked up, for processors that cannot permute bytes over a codebook:
// eight weight rows side by side, four bits a weight. DType::kIQ3_S_UNPACKED on the CPU.
//
// The magnitudes are 1, 3, ..., 15, so that a weight is 2 q - 15 with q of 0 to 15. A block has 256
// elements of eight rows in 1,072 bytes, 22 % more than the eight blocks of the file that it
// replaces. A matrix is blocks in the order of the elements, then of the rows: row r begins at byte
// r * row_bytes, if r is a multiple of 8.
#ifndef CHIMERE_KERNELS_CPU_UNPACKED_IQ3_S_H_
#define CHIMERE_KERNELS_CPU_UNPACKED_IQ3_S_H_

#include <cstdint>

namespace chimere::kernels::cpu {

struct UnpackedIq3S {
  static constexpr int kRows = 8;
  static constexpr int kElements = 256;

  uint16_t d[kRows];   ///< f16
  uint32_t scales[8];  ///< [group of 32] nibble r: the scale of row r
  /// [group][i, of 4][row][c, of 4] low nibble: q of element 4 i + c of the group; high nibble: of
  /// element 4 (i + 4) + c.
  uint8_t q[8][128];
};
static_assert(sizeof(UnpackedIq3S) == 1072);

/// Bytes of a weight row of n elements, a multiple of 256.
[[gnu::always_inline]] constexpr int64_t unpacked_row_bytes(int64_t n) {
  return n / UnpackedIq3S::kElements * static_cast<int64_t>(sizeof(UnpackedIq3S)) /
         UnpackedIq3S::kRows;
}

/// Unpacks eight rows of n elements in the file's layout.
void unpack_iq3_s(const uint8_t* rows, int64_t n, UnpackedIq3S* out);

}  // namespace chimere::kernels::cpu

#endif  // CHIMERE_KERNELS_CPU_UNPACKED_IQ3_S_H_
