#include "text/bpe_tokenizer.h"

#include <unordered_map>

#include "text/unicode.h"
#include "text/utf8.h"

namespace chimere::text {

BpeTokenizer::BpeTokenizer(Vocabulary vocabulary, std::unique_ptr<PreTokenizer> splitter)
    : VocabularyTokenizer(std::move(vocabulary)),
      splitter_(std::move(splitter)),
      merges_(vocabulary_.merges.size()) {}

Result<std::unique_ptr<Tokenizer>> BpeTokenizer::create(Vocabulary vocabulary) {
  CHIMERE_TRY(auto splitter, PreTokenizer::create(vocabulary.pre));
  std::unique_ptr<BpeTokenizer> tokenizer(
      new BpeTokenizer(std::move(vocabulary), std::move(splitter)));
  CHIMERE_CHECK_OK(tokenizer->index());
  tokenizer->index_bytes();
  CHIMERE_CHECK_OK(tokenizer->index_merges());
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

void BpeTokenizer::index_bytes() {
  for (int b = 0; b < 256; ++b) {
    std::string text;
    append_utf8(text, ByteAlphabet::get().code_of(static_cast<uint8_t>(b)));
    byte_symbol_[b] = find(text);
    if (byte_symbol_[b] < 0) {
      byte_symbol_[b] = n_tokens() + static_cast<int32_t>(extra_symbols_.size());
      extra_symbols_.emplace_back();  // cannot be written
    }
  }
}

Status BpeTokenizer::index_merges() {
  std::unordered_map<std::string, int32_t> extra;
  for (int b = 0; b < 256; ++b) {
    if (byte_symbol_[b] < n_tokens()) continue;
    std::string text;
    append_utf8(text, ByteAlphabet::get().code_of(static_cast<uint8_t>(b)));
    extra[text] = byte_symbol_[b];
  }
  const auto symbol_of = [&](std::string_view text) {
    const int32_t id = find(text);
    if (id >= 0) return id;
    const auto it = extra.find(std::string(text));
    return it == extra.end() ? -1 : it->second;
  };
  for (size_t rank = 0; rank < vocabulary_.merges.size(); ++rank) {
    const std::string_view merge = vocabulary_.merges[rank];
    // The space that separates; one that belongs to a part would be at the beginning.
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 >= merge.size()) {
      return invalid_data("Merge " + std::to_string(rank) +
                          " of the vocabulary is not two parts with a space between them.");
    }
    const std::string_view left_text = merge.substr(0, space);
    const std::string_view right_text = merge.substr(space + 1);
    const int32_t left = symbol_of(left_text);
    const int32_t right = symbol_of(right_text);
    // A part that is no byte and no result of an earlier merge can never occur.
    if (left < 0 || right < 0) continue;
    const std::string whole = std::string(left_text) + std::string(right_text);
    int32_t symbol = symbol_of(whole);
    if (symbol >= 0 && symbol < n_tokens() && type(symbol) == TokenType::kControl) {
      continue;  // ordinary text must not become a control token
    }
    if (symbol < 0) {
      symbol = n_tokens() + static_cast<int32_t>(extra_symbols_.size());
      extra_symbols_.push_back(ByteAlphabet::get().decode(whole));
      extra[whole] = symbol;
    }
    merges_.add(left, right, {static_cast<int32_t>(rank), symbol});
  }
  return {};
}

class BpeTokenizer::Encoder final : public Fragments {
 public:
  explicit Encoder(const BpeTokenizer& owner) : t_(owner), merger_(owner.merges_) {}

  void encode(std::string_view text, std::vector<int32_t>& out) override {
    const auto write = [&](std::string_view word) { encode_word(word, out); };
    if (t_.vocabulary_.nfc.value_or(t_.splitter_->wants_nfc())) {
      t_.splitter_->split(nfc(text), write);
    } else {
      t_.splitter_->split(text, write);
    }
  }

 private:
  void encode_word(std::string_view word, std::vector<int32_t>& out) {
    if (t_.splitter_->whole_words_first()) {
      const int32_t id = t_.find(ByteAlphabet::get().encode(word));
      if (id >= 0 && !t_.is_added(id)) {
        out.push_back(id);
        return;
      }
    }
    symbols_.clear();
    for (const char c : word) symbols_.push_back(t_.byte_symbol_[static_cast<uint8_t>(c)]);
    merger_.merge(symbols_);
    for (const int32_t symbol : symbols_) append_symbol(symbol, out);
  }

  void append_symbol(int32_t symbol, std::vector<int32_t>& out) const {
    if (symbol < t_.n_tokens()) {
      out.push_back(symbol);
      return;
    }
    for (const char c : t_.extra_symbols_[symbol - t_.n_tokens()]) {
      const int32_t id = t_.byte_symbol_[static_cast<uint8_t>(c)];
      if (id < t_.n_tokens()) out.push_back(id);
    }
  }

  const BpeTokenizer& t_;
  BytePairMerger merger_;
  std::vector<int32_t> symbols_;
};

std::unique_ptr<VocabularyTokenizer::Fragments> BpeTokenizer::start() const {
  return std::make_unique<Encoder>(*this);
}

std::string BpeTokenizer::piece_bytes(int32_t id) const {
  return ByteAlphabet::get().decode(vocabulary_.tokens[id]);
}

}  // namespace chimere::text
