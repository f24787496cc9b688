// Trains a byte-level BPE vocabulary on word counts.
#ifndef CHIMERE_TRAIN_VOCABULARY_BPE_TRAINER_H_
#define CHIMERE_TRAIN_VOCABULARY_BPE_TRAINER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace chimere::train {

/// How often each pre-tokenised word occurs, by its raw bytes.
using WordCounts = std::unordered_map<std::string, int64_t>;

/// Adds the words of a text. Errors: an unknown pre-tokeniser.
Status count_words(std::string_view pre, std::string_view text, WordCounts& counts);

struct BpeTrainOptions {
  std::string pre = "qwen2";  ///< the rule that split the words; becomes Vocabulary::pre
  int32_t vocab_size = 8192;  ///< all tokens: 256 bytes, merges, special and user-defined ones
  int64_t min_count = 2;      ///< less frequent pairs are not merged
  size_t max_token_bytes = 64;
  std::vector<std::string> control_tokens;       ///< get the highest ids, in this order
  std::vector<std::string> user_defined_tokens;  ///< get the ids before them
};

/// Tokens are the 256 bytes in byte order, then the merges in the order of training, then the named
/// tokens. Each merge joins the most frequent pair; ties go to the lower left id, then to the lower
/// right id, so that the result is deterministic. Too few repeated pairs give a smaller vocabulary.
/// The caller sets eos, bos and padding. Errors: kInvalidArgument (vocab_size is too small for the
/// bytes and the named tokens).
Result<text::Vocabulary> train_bpe(const WordCounts& words, const BpeTrainOptions& options);

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_VOCABULARY_BPE_TRAINER_H_
