// The splitting rules of published byte-level vocabularies, by the names of tokenizer.ggml.pre.
#ifndef CHIMERE_TEXT_PRE_TOKENIZER_RULES_H_
#define CHIMERE_TEXT_PRE_TOKENIZER_RULES_H_

#include <string_view>
#include <vector>

namespace chimere::text {

struct PreTokenizerRule {
  std::vector<std::string_view> names;
  /// Patterns over characters; each splits the parts left by the previous one into matches and
  /// gaps.
  std::vector<const char*> stages;
  /// Further patterns, over the byte-level alphabet instead of the text.
  std::vector<const char*> byte_stages;
  bool nfc = false;                ///< the text is put into normal form C first
  bool whole_words_first = false;  ///< see PreTokenizer
};

const std::vector<PreTokenizerRule>& pre_tokenizer_rules();

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_PRE_TOKENIZER_RULES_H_
