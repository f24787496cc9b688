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

  /// Whether published tokenizers of this kind put text into normal form C first. split() does not.
  bool wants_nfc() const;

  /// Calls fn with each word in order; together the words are the whole text, byte for byte. Bytes
  /// that are not valid UTF-8 count as symbols. Time grows linearly with the length.
  void split(std::string_view text, const std::function<void(std::string_view word)>& fn) const;

  /// Published vocabularies of this kind take a whole word that is a token as it is, without
  /// looking whether merges lead to it (Llama 3 and its relatives).
  bool whole_words_first() const;

  static std::vector<std::string> known_names();

 private:
  struct Impl;
  explicit PreTokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// split(), after nfc() where it is wanted, for callers that have only a name.
Status for_each_word(std::string_view pre, std::string_view text,
                     const std::function<void(std::string_view word)>& fn);

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_PRE_TOKENIZER_H_
