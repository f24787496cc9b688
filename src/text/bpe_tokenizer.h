// Byte-level byte-pair encoding ("gpt2" in GGUF).
#ifndef CHIMERE_TEXT_BPE_TOKENIZER_H_
#define CHIMERE_TEXT_BPE_TOKENIZER_H_

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/byte_pair.h"
#include "text/pre_tokenizer.h"
#include "text/vocabulary_tokenizer.h"

namespace chimere::text {

class BpeTokenizer final : public VocabularyTokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> create(Vocabulary vocabulary);

 private:
  class Encoder;

  BpeTokenizer(Vocabulary vocabulary, std::unique_ptr<PreTokenizer> splitter);
  std::unique_ptr<Fragments> start() const override;
  std::string piece_bytes(int32_t id) const override;
  void index_bytes();
  Status index_merges();

  std::unique_ptr<PreTokenizer> splitter_;
  std::array<int32_t, 256> byte_symbol_;
  MergeTable merges_;
  /// Symbols are token ids. Merges and bytes may name strings that are not tokens: these have the
  /// numbers from n_tokens() on, and their bytes are kept here. Each is written as byte tokens.
  std::vector<std::string> extra_symbols_;
};

}  // namespace chimere::text

#endif  // CHIMERE_TEXT_BPE_TOKENIZER_H_
