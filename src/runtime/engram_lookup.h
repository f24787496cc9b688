// What an n-gram table knows about a text.
#ifndef CHIMERE_RUNTIME_ENGRAM_LOOKUP_H_
#define CHIMERE_RUNTIME_ENGRAM_LOOKUP_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "engram/table.h"

namespace chimere::runtime {

/// A part of a text that a table knows: each of its tokens but the first `context` is a known
/// successor of the tokens before it.
struct EngramMatch {
  int64_t begin = 0;  ///< tokens of the text
  int64_t end = 0;
  int context = 0;  ///< tokens of the shortest context that predicted a token of the part
  float count = 0;  ///< smallest count of its n-grams
};
/// The longest such parts with contexts of at least `least` tokens, in order. Errors: those of
/// Table::find().
Result<std::vector<EngramMatch>> search_engram(const engram::Table& table,
                                               std::span<const int32_t> tokens, int least);

struct EngramPrediction {
  int32_t token = 0;
  double probability = 0;
  float count = 0;  ///< after the longest context that it followed
  int context = 0;  ///< tokens of that context
};
/// The most likely next tokens, with the probabilities of interpolated Kneser-Ney over the table's
/// contexts; what they leave of 1 is the model's share. Errors: those of Table::find().
Result<std::vector<EngramPrediction>> predict_engram(const engram::Table& table,
                                                     std::span<const int32_t> tokens, size_t most);

}  // namespace chimere::runtime

#endif  // CHIMERE_RUNTIME_ENGRAM_LOOKUP_H_
