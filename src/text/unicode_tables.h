// Data of unicode.cc; see make_unicode_tables.py.
#ifndef CHIMERE_TEXT_UNICODE_TABLES_H_
#define CHIMERE_TEXT_UNICODE_TABLES_H_

#include <array>
#include <cstdint>

namespace chimere::text {

/// A canonical decomposition. second: 0 for one character alone.
struct Decomposition {
  uint32_t code;
  uint32_t first;
  uint32_t second;
  bool composes;  ///< whether NFC puts the two together again
};

/// Case mappings of one character; from kLongCase on: an index into kLongCases.
struct CaseRow {
  uint32_t code;
  uint32_t lower;
  uint32_t upper;
  uint32_t title;
};
constexpr uint32_t kLongCase = 0x80000000;
using LongCase = std::array<uint32_t, 3>;  ///< zeros fill up

/// First code point of a run << 8 | value of the run; sorted.
extern const std::array<uint32_t, 3968> kCategoryRuns;
extern const std::array<uint32_t, 571> kCombiningRuns;
extern const std::array<Decomposition, 2061> kDecompositions;  ///< sorted by code
extern const std::array<CaseRow, 2927> kCases;                 ///< sorted by code
extern const std::array<LongCase, 151> kLongCases;

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_UNICODE_TABLES_H_
