#include "kernels/cpu/codebook_tables.h"

#include <array>
#include <cstddef>

#include "quant/codebooks.h"

namespace chimere::kernels::cpu {
namespace {

template <class Entry>
unsigned element(Entry entry, size_t j) {
  return static_cast<unsigned>(entry >> (8 * j)) & 255U;
}

/// `code` maps an element's byte to 0..3.
template <size_t kEntries, class Code>
CodebookTable<uint8_t, 2 * kEntries> two_bit_codes(const std::array<uint64_t, kEntries>& grid,
                                                   Code code) {
  CodebookTable<uint8_t, 2 * kEntries> codes{};
  for (size_t i = 0; i < kEntries; ++i) {
    for (size_t j = 0; j < 8; ++j) {
      uint8_t& byte = codes.entry[j / 4 * kEntries + i];
      byte = static_cast<uint8_t>(byte | code(element(grid[i], j)) << (2 * (j % 4)));
    }
  }
  return codes;
}

unsigned iq2_code(unsigned magnitude) { return magnitude == 8 ? 0 : magnitude == 25 ? 1 : 2; }
unsigned iq1_code(unsigned byte) { return (byte + 1U) & 3U; }

/// `digit` maps a magnitude to 0..15.
template <size_t kEntries, class Digit>
CodebookTable<uint8_t, 2 * kEntries> digits(const std::array<uint32_t, kEntries>& grid,
                                            Digit digit) {
  CodebookTable<uint8_t, 2 * kEntries> bytes{};
  for (size_t i = 0; i < kEntries; ++i) {
    for (size_t half = 0; half < 2; ++half) {
      const unsigned low = digit(element(grid[i], 2 * half));
      const unsigned high = digit(element(grid[i], 2 * half + 1));
      bytes.entry[half * kEntries + i] = static_cast<uint8_t>(low | high << 4);
    }
  }
  return bytes;
}

CodebookTable<int8_t, 16> values_plus(const std::array<int8_t, 16>& values, int offset) {
  CodebookTable<int8_t, 16> bytes{};
  for (size_t i = 0; i < values.size(); ++i) {
    bytes.entry[i] = static_cast<int8_t>(values[i] + offset);
  }
  return bytes;
}

template <int kBytes, size_t kValues>
CodebookTable<int8_t, kBytes> repeated(const std::array<int8_t, kValues>& values) {
  CodebookTable<int8_t, kBytes> bytes{};
  for (size_t i = 0; i < kBytes; ++i) bytes.entry[i] = values[i % kValues];
  return bytes;
}

}  // namespace

alignas(16) const CodebookTable<int8_t, 16> kIq2KTable = repeated<16>(quant::kIq2KValues);
alignas(16) const CodebookTable<int8_t, 16> kIq3KTable = repeated<16>(quant::kIq3KValues);
alignas(16) const CodebookTable<int8_t, 32> kIq5KTable = repeated<32>(quant::kIq5KValues);
alignas(16) const CodebookTable<int8_t, 16> kIq4Values = values_plus(quant::kIq4NlValues, 0);
alignas(16) const CodebookTable<int8_t, 16> kMxfp4Bytes = values_plus(quant::kMxfp4Values,
                                                                      1 << kMxfp4OffsetBits);

alignas(64) const CodebookTable<uint8_t, 2 * 256> kIq2XxsCodes = two_bit_codes(quant::kIq2XxsGrid,
                                                                               iq2_code);
alignas(64) const CodebookTable<uint8_t, 2 * 512> kIq2XsCodes = two_bit_codes(quant::kIq2XsGrid,
                                                                              iq2_code);
alignas(64) const CodebookTable<uint8_t, 2 * 1024> kIq2SCodes = two_bit_codes(quant::kIq2SGrid,
                                                                              iq2_code);

// The magnitudes are 4 + 8 k, except the last, which is 62.
alignas(64) const CodebookTable<uint8_t, 2 * 256> kIq3XxsDigits = digits(quant::kIq3XxsGrid,
                                                                         [](unsigned m) {
                                                                           return m / 8;
                                                                         });
alignas(64) const CodebookTable<uint8_t, 2 * 512> kIq3SDigits = digits(quant::kIq3SGrid,
                                                                       [](unsigned m) {
                                                                         return m;
                                                                       });

alignas(64) const CodebookTable<uint32_t, 512> kIq3SBytes = [] {
  CodebookTable<uint32_t, 512> bytes{};
  for (size_t i = 0; i < 512; ++i) {
    bytes.entry[i] = quant::kIq3SGrid[i] + (0x01010101U << kIq3SOffsetBits);
  }
  return bytes;
}();

alignas(64) const CodebookTable<uint8_t, 2 * 2048> kIq1Codes = two_bit_codes(quant::kIq1Grid,
                                                                             iq1_code);
alignas(64) const CodebookTable<uint64_t, 2048> kIq1Bytes = [] {
  CodebookTable<uint64_t, 2048> bytes{};
  for (size_t i = 0; i < 2048; ++i) {
    for (size_t j = 0; j < 8; ++j) {
      const auto value = static_cast<int8_t>(element(quant::kIq1Grid[i], j));
      bytes.entry[i] |= static_cast<uint64_t>(8 * value + 17) << (8 * j);
    }
  }
  return bytes;
}();

}  // namespace chimere::kernels::cpu
