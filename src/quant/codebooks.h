// Codebooks of the i-quants and value tables of the non-linear formats, as the GGUF file format
// defines them; decoders and the kernels of every module share them. Use by each format:
// docs/formats.md.
#ifndef CHIMERE_QUANT_CODEBOOKS_H_
#define CHIMERE_QUANT_CODEBOOKS_H_

#include <array>
#include <bit>
#include <cstdint>

namespace chimere::quant {

// A grid entry packs the magnitudes of consecutive elements, one byte each: element j is
// `(entry >> 8 * j) & 255`, so in memory (little endian) byte j is element j, and a gather of
// entries yields elements in order.

/// IQ2_XXS: 8-bit index -> 8 elements from {8, 25, 43}.
alignas(64) extern const std::array<uint64_t, 256> kIq2XxsGrid;
/// IQ2_XS: 9-bit index -> 8 elements from {8, 25, 43}.
alignas(64) extern const std::array<uint64_t, 512> kIq2XsGrid;
/// IQ2_S: 10-bit index -> 8 elements from {8, 25, 43}.
alignas(64) extern const std::array<uint64_t, 1024> kIq2SGrid;
/// IQ3_XXS: 8-bit index -> 4 elements from {4, 12, 20, 28, 36, 44, 52, 62}.
alignas(64) extern const std::array<uint32_t, 256> kIq3XxsGrid;
/// IQ3_S: 9-bit index -> 4 elements from {1, 3, 5, 7, 9, 11, 13, 15}.
alignas(64) extern const std::array<uint32_t, 512> kIq3SGrid;
/// IQ1_S and IQ1_M: 11-bit index -> 8 signed elements (int8) from {-1, 0, 1}.
alignas(64) extern const std::array<uint64_t, 2048> kIq1Grid;

/// IQ1_S and IQ1_M add plus or minus this to every element of a group of the grid.
inline constexpr float kIq1Delta = 0.125F;

/// The eight signs of a group of IQ2_XXS, IQ2_XS and IQ3_XXS, stored as 7 bits: the eighth makes
/// the number of ones even. Bit j set: element j is negative. (IQ2_S and IQ3_S store all eight
/// bits.)
constexpr uint8_t even_signs(unsigned seven_bits) {
  return static_cast<uint8_t>(seven_bits |
                              ((static_cast<unsigned>(std::popcount(seven_bits)) & 1U) << 7));
}
/// even_signs() of 0..127 as a table, for kernels that gather.
alignas(64) inline constexpr std::array<uint8_t, 128> kEvenSigns = [] {
  std::array<uint8_t, 128> t{};
  for (unsigned i = 0; i < t.size(); ++i) t[i] = even_signs(i);
  return t;
}();

/// IQ4_NL and IQ4_XS: nibble -> value.
alignas(16) inline constexpr std::array<int8_t, 16> kIq4NlValues = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// MXFP4: nibble (E2M1) -> twice its value; the block's scale is halved to match.
alignas(16) inline constexpr std::array<int8_t, 16> kMxfp4Values = {0, 1,  2,  3,  4,  6,  8,  12,
                                                                    0, -1, -2, -3, -4, -6, -8, -12};

/// IQ2_K to IQ5_K: index -> value, before the shift that a sub-block may have.
alignas(16) inline constexpr std::array<int8_t, 4> kIq2KValues = {-31, -13, 1, 17};
alignas(16) inline constexpr std::array<int8_t, 8> kIq3KValues = {-63, -40, -23, -10,
                                                                  1,   13,  28,  47};
alignas(16) inline constexpr std::array<int8_t, 32> kIq5KValues = {
    -126, -114, -103, -92, -83, -74, -65, -57, -50, -43, -36, -30, -24, -18, -12, -6,
    -1,   5,    11,   17,  23,  29,  36,  43,  51,  59,  68,  77,  87,  97,  109, 121};
inline constexpr int kIq2KShift = 5;
inline constexpr int kIq3KShift = 4;
inline constexpr int kIq4KShift = 4;  ///< of kIq4NlValues
inline constexpr int kIq5KShift = 2;

}  // namespace chimere::quant

#endif  // CHIMERE_QUANT_CODEBOOKS_H_
