// The codebooks (quant/codebooks.h) in the layouts that vector lookups need.
#ifndef CHIMERE_KERNELS_CPU_CODEBOOK_TABLES_H_
#define CHIMERE_KERNELS_CPU_CODEBOOK_TABLES_H_

#include <cstdint>

namespace chimere::kernels::cpu {

/// A plain array, because std::array has member functions (see matmul.h).
template <class Entry, int kEntries>
struct CodebookTable {
  Entry entry[kEntries];
};

/// quant::kIq4NlValues, and quant::kMxfp4Values plus 16.
alignas(16) extern const CodebookTable<int8_t, 16> kIq4Values;
alignas(16) extern const CodebookTable<int8_t, 16> kMxfp4Bytes;
inline constexpr int kMxfp4OffsetBits = 4;
/// The values of IQ2_K and IQ3_K, repeated, and of IQ5_K.
alignas(16) extern const CodebookTable<int8_t, 16> kIq2KTable;
alignas(16) extern const CodebookTable<int8_t, 16> kIq3KTable;
alignas(16) extern const CodebookTable<int8_t, 32> kIq5KTable;

/// Byte i: bits 2 j and 2 j + 1 are 0, 1 or 2 for element j (0 to 3) of entry i being 8, 25 or 43;
/// byte n + i: the same of elements 4 to 7.
alignas(64) extern const CodebookTable<uint8_t, 2 * 256> kIq2XxsCodes;
alignas(64) extern const CodebookTable<uint8_t, 2 * 512> kIq2XsCodes;
alignas(64) extern const CodebookTable<uint8_t, 2 * 1024> kIq2SCodes;

/// Byte i: digits of elements 0 (low nibble) and 1 of entry i; byte n + i: of elements 2 and 3. The
/// digit of an IQ3_XXS element is its index among the magnitudes, that of an IQ3_S element the
/// element itself.
alignas(64) extern const CodebookTable<uint8_t, 2 * 256> kIq3XxsDigits;
alignas(64) extern const CodebookTable<uint8_t, 2 * 512> kIq3SDigits;

/// quant::kIq3SGrid plus 16 in every byte.
alignas(64) extern const CodebookTable<uint32_t, 512> kIq3SBytes;
inline constexpr int kIq3SOffsetBits = 4;

/// Like the IQ2 codes, with 0, 1 or 2 for -1, 0 or 1.
alignas(64) extern const CodebookTable<uint8_t, 2 * 2048> kIq1Codes;
/// Byte j: 8 (element j) + 17, which is rule 4's integer plus 16 if delta is positive.
alignas(64) extern const CodebookTable<uint64_t, 2048> kIq1Bytes;
inline constexpr int kIq1OffsetBits = 4;

}  // namespace chimere::kernels::cpu

#endif  // CHIMERE_KERNELS_CPU_CODEBOOK_TABLES_H_
