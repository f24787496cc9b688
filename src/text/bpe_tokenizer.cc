#include "text/bpe_tokenizer.h"

#include <algorithm>

#include "text/utf8.h"

namespace chimere::text {
namespace {

/// Real ones have at most a few dozen bytes; the search takes this many steps a byte at worst.
constexpr size_t kMaxSpecialBytes = 1024;

/// Texts of tokens that end a reply in published vocabularies, whatever their declared type.
constexpr std::string_view kEndNames[] = {
    "<|im_end|>",  "<|endoftext|>",      "<|eot_id|>",   "<|eom_id|>",
    "<|end|>",     "<|end_of_text|>",    "<|return|>",   "<|call|>",
    "<EOT>",       "<end_of_turn>",      "[EOT]",        "[EOS]",
    "</s>",        "<end_of_utterance>", "<eos>",        "<｜end▁of▁sentence｜>",
    "<|fim_pad|>", "<|repo_name|>",      "<|file_sep|>",
};

bool is_special(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUserDefined ||
         type == TokenType::kUnknown;
}

}  // namespace

BpeTokenizer::BpeTokenizer(Vocabulary vocabulary, std::unique_ptr<PreTokenizer> splitter)
    : vocabulary_(std::move(vocabulary)),
      splitter_(std::move(splitter)),
      merges_(vocabulary_.merges.size()) {}

Result<std::unique_ptr<Tokenizer>> BpeTokenizer::create(Vocabulary vocabulary) {
  if (vocabulary.tokens.empty()) {
    return invalid_data("The vocabulary has no tokens (tokenizer.ggml.tokens).");
  }
  // Symbols of merges come on top of the tokens, and all are counted in 32 bits.
  if (vocabulary.tokens.size() + vocabulary.merges.size() > (size_t{1} << 30)) {
    return invalid_data("The vocabulary has more than a thousand million tokens and merges.");
  }
  if (vocabulary.types.empty()) {
    vocabulary.types.assign(vocabulary.tokens.size(), static_cast<int32_t>(TokenType::kNormal));
  }
  if (vocabulary.types.size() != vocabulary.tokens.size()) {
    return invalid_data("The vocabulary has " + std::to_string(vocabulary.tokens.size()) +
                        " tokens but " + std::to_string(vocabulary.types.size()) +
                        " token types (tokenizer.ggml.token_type).");
  }
  const auto n = static_cast<int32_t>(vocabulary.tokens.size());
  for (int32_t* id : {&vocabulary.bos, &vocabulary.eos, &vocabulary.eot, &vocabulary.padding}) {
    if (*id < -1 || *id >= n) {
      return invalid_data("A special token of the vocabulary has the id " + std::to_string(*id) +
                          ", but there are only " + std::to_string(n) + " tokens.");
    }
  }
  CHIMERE_TRY(auto splitter, PreTokenizer::create(vocabulary.pre));
  std::unique_ptr<BpeTokenizer> tokenizer(
      new BpeTokenizer(std::move(vocabulary), std::move(splitter)));
  tokenizer->mark_end_of_generation();
  CHIMERE_CHECK_OK(tokenizer->index_tokens());
  CHIMERE_CHECK_OK(tokenizer->index_merges());
  return std::unique_ptr<Tokenizer>(std::move(tokenizer));
}

void BpeTokenizer::mark_end_of_generation() {
  end_of_generation_.assign(vocabulary_.tokens.size(), false);
  for (int32_t id = 0; id < n_tokens(); ++id) {
    if (std::ranges::find(kEndNames, vocabulary_.tokens[id]) == std::end(kEndNames)) continue;
    end_of_generation_[id] = true;
    // Some published files declare them as ordinary tokens; then a user could end the turn.
    vocabulary_.types[id] = static_cast<int32_t>(TokenType::kControl);
  }
  if (vocabulary_.eos >= 0) end_of_generation_[vocabulary_.eos] = true;
  if (vocabulary_.eot >= 0) end_of_generation_[vocabulary_.eot] = true;
}

Status BpeTokenizer::index_tokens() {
  by_text_.reserve(vocabulary_.tokens.size());
  for (int32_t id = 0; id < n_tokens(); ++id) {
    const std::string& text = vocabulary_.tokens[id];
    by_text_[text] = id;
    if (!is_special(type(id))) continue;
    if (text.size() > kMaxSpecialBytes) {
      return invalid_data("The special token " + std::to_string(id) + " has " +
                          std::to_string(text.size()) + " bytes; at most " +
                          std::to_string(kMaxSpecialBytes) + " are allowed.");
    }
    specials_.add(text, id, type(id) != TokenType::kUserDefined);
  }
  for (int b = 0; b < 256; ++b) {
    std::string text;
    append_utf8(text, ByteAlphabet::get().code_of(static_cast<uint8_t>(b)));
    byte_symbol_[b] = find(text);
    if (byte_symbol_[b] < 0) {
      byte_symbol_[b] = n_tokens() + static_cast<int32_t>(extra_symbols_.size());
      extra_symbols_.emplace_back();  // cannot be written
    }
  }
  return {};
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
    // A part that no byte and no earlier merge makes can never stand in a text.
    if (left < 0 || right < 0) continue;
    const std::string whole = std::string(left_text) + std::string(right_text);
    int32_t symbol = symbol_of(whole);
    if (symbol < 0) {
      symbol = n_tokens() + static_cast<int32_t>(extra_symbols_.size());
      extra_symbols_.push_back(ByteAlphabet::get().decode(whole));
      extra[whole] = symbol;
    }
    merges_.add(left, right, {static_cast<int32_t>(rank), symbol});
  }
  return {};
}

int32_t BpeTokenizer::find(std::string_view token_text) const {
  const auto it = by_text_.find(token_text);
  return it == by_text_.end() ? -1 : it->second;
}

void BpeTokenizer::append_symbol(int32_t symbol, std::vector<int32_t>& out) const {
  if (symbol < n_tokens()) {
    out.push_back(symbol);
    return;
  }
  for (const char c : extra_symbols_[symbol - n_tokens()]) {
    const int32_t id = byte_symbol_[static_cast<uint8_t>(c)];
    if (id < n_tokens()) out.push_back(id);
  }
}

void BpeTokenizer::encode_word(std::string_view word, BytePairMerger& merger,
                               std::vector<int32_t>& symbols, std::vector<int32_t>& out) const {
  if (splitter_->whole_words_first()) {
    const int32_t id = find(ByteAlphabet::get().encode(word));
    if (id >= 0 && !is_special(type(id))) {
      out.push_back(id);
      return;
    }
  }
  symbols.clear();
  for (const char c : word) symbols.push_back(byte_symbol_[static_cast<uint8_t>(c)]);
  merger.merge(symbols);
  for (const int32_t s : symbols) append_symbol(s, out);
}

std::vector<int32_t> BpeTokenizer::encode_trusted(std::string_view text,
                                                  std::span<const TextRange> trusted) const {
  std::vector<int32_t> out;
  std::vector<int32_t> symbols;
  BytePairMerger merger(merges_);
  const auto control_allowed = [&](size_t begin, size_t end) {
    const auto after = std::ranges::upper_bound(trusted, begin, {}, &TextRange::begin);
    return after != trusted.begin() && end <= (after - 1)->end;
  };
  size_t done = 0;
  while (done < text.size()) {
    const auto match = specials_.search(text, done, control_allowed);
    const size_t begin = match ? match->begin : text.size();
    splitter_->split(text.substr(done, begin - done),
                     [&](std::string_view word) { encode_word(word, merger, symbols, out); });
    if (!match) break;
    out.push_back(match->id);
    done = match->end;
  }
  return out;
}

std::string BpeTokenizer::token_bytes(int32_t id, bool special) const {
  if (!in_range(id)) return {};
  const std::string& text = vocabulary_.tokens[id];
  switch (type(id)) {
    case TokenType::kNormal:
    case TokenType::kByte:
      return ByteAlphabet::get().decode(text);
    case TokenType::kUserDefined:
      return text;
    case TokenType::kControl:
    case TokenType::kUnknown:
    case TokenType::kUnused:
      break;
  }
  return special ? text : std::string();
}

bool BpeTokenizer::is_control(int32_t id) const {
  return in_range(id) && type(id) == TokenType::kControl;
}

bool BpeTokenizer::is_end_of_generation(int32_t id) const {
  return in_range(id) && end_of_generation_[id];
}

}  // namespace chimere::text
