// Training data of the companions: passages and questions about them.
#ifndef CHIMERE_TRAIN_COMPANION_DATA_H_
#define CHIMERE_TRAIN_COMPANION_DATA_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "companion_model.h"
#include "token_file.h"

namespace chimere::train {

using Text = std::span<const uint16_t>;

/// Records per group: passages near one another.
constexpr int64_t kGroup = 4;

/// The control tokens of texts: found by name in a vocabulary. Errors: kInvalidData (it lacks one).
struct Marks {
  uint16_t question_end = 0;  ///< <|im_start|>
  uint16_t passage_end = 0;   ///< <|im_end|>; it separates the parts of a record, too
  int64_t yes = 0, no = 0;    ///< the words, as tokens that begin a text

  static Result<Marks> find(const gguf::Reader& vocabulary);
};

/// The documents of a token file in parts, without the separators. The spans are into the file.
std::vector<std::vector<Text>> read_records(const TokenFile& file, const Marks& marks);

/// Selects the records and questions of each step, as a pure function of seed and step.
/// Every epoch visits each group of kGroup records once, in a shuffled order.
class PairOrder {
 public:
  struct Pair {
    Text question, passage;
  };
  /// `records`: each a passage and at least one question; must outlive this.
  PairOrder(const std::vector<std::vector<Text>>& records, uint64_t seed)
      : records_(records), seed_(seed) {}

  /// kGroup * `groups` pairs, in groups. `groups`: at most those of the file.
  std::vector<Pair> pairs(int64_t step, int64_t groups);

 private:
  const std::vector<std::vector<Text>>& records_;
  uint64_t seed_;
  int64_t epoch_ = -1;
  std::vector<int64_t> order_;
};

/// Texts of at least one token, cut to `longest` tokens.
Batch make_batch(const std::vector<std::vector<uint16_t>>& texts, int64_t longest,
                 torch::Device device);

/// The input of a reranker: question <|im_start|> passage <|im_end|>; the passage is cut so that
/// all has at most `longest` tokens.
std::vector<uint16_t> question_and_passage(Text question, Text passage, const Marks& marks,
                                           int64_t longest);

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_COMPANION_DATA_H_
