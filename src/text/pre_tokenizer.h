// Splits text into the words that byte-pair merges never cross.
#ifndef CHIMERE_TEXT_PRE_TOKENIZER_H_
#define CHIMERE_TEXT_PRE_TOKENIZER_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace chimere::text {

/// One of the named splitting rules of published byte-level vocabularies (tokenizer.ggml.pre).
/// Safe to use from several threads at once.
class PreTokenizer {
 public:
  /// Errors: kUnsupported (the known names are listed).
  static Result<std::unique_ptr<PreTokenizer>> create(std::string_view name);
  ~PreTokenizer();

  /// Whether published tokenizers of this kind normalise text to NFC first. split() does not.
  bool wants_nfc() const;

  /// Calls fn with each word in order; the concatenation of the words is the text, byte for byte.
  /// Invalid UTF-8 bytes are treated as symbols. Linear time.
  void split(std::string_view text, const std::function<void(std::string_view word)>& fn) const;

  /// Whether a word that is a token is encoded as that token even if no merges lead to it, as in
  /// published vocabularies of this kind (Llama 3 and its relatives).
  bool whole_words_first() const;

  static std::vector<std::string> known_names();

 private:
  struct Impl;
  explicit PreTokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// split(), after nfc() if the rule wants it, for callers that have only a name.
Status for_each_word(std::string_view pre, std::string_view text,
                     const std::function<void(std::string_view word)>& fn);

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_PRE_TOKENIZER_H_
