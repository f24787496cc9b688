#include "text/vocabulary_tokenizer.h"

#include <algorithm>

namespace chimere::text {
namespace {

/// Real ones have at most a few dozen bytes; the search takes this many steps a byte at worst.
constexpr size_t kMaxSpecialBytes = 1024;

/// Texts of tokens that end a generation in published vocabularies, whatever their declared type.
constexpr std::string_view kEndNames[] = {
    "<|im_end|>",  "<|endoftext|>",      "<|eot_id|>",   "<|eom_id|>",
    "<|end|>",     "<|end_of_text|>",    "<|return|>",   "<|call|>",
    "<EOT>",       "<end_of_turn>",      "[EOT]",        "[EOS]",
    "</s>",        "<end_of_utterance>", "<eos>",        "<｜end▁of▁sentence｜>",
    "<|fim_pad|>", "<|repo_name|>",      "<|file_sep|>", "<|END_OF_TURN_TOKEN|>",
};

}  // namespace

Status VocabularyTokenizer::index() {
  Vocabulary& v = vocabulary_;
  if (v.tokens.empty()) {
    return invalid_data("The vocabulary has no tokens (tokenizer.ggml.tokens).");
  }
  // Symbols of merges come on top of the tokens, and all are counted in 32 bits.
  if (v.tokens.size() + v.merges.size() > (size_t{1} << 30)) {
    return invalid_data("The vocabulary has more than a thousand million tokens and merges.");
  }
  if (v.types.empty()) v.types.assign(v.tokens.size(), static_cast<int32_t>(TokenType::kNormal));
  if (v.types.size() != v.tokens.size()) {
    return invalid_data("The vocabulary has " + std::to_string(v.tokens.size()) + " tokens but " +
                        std::to_string(v.types.size()) +
                        " token types (tokenizer.ggml.token_type).");
  }
  for (const int32_t id : {v.bos, v.eos, v.eot, v.padding, v.unknown}) {
    if (id < -1 || id >= n_tokens()) {
      return invalid_data("A special token of the vocabulary has the id " + std::to_string(id) +
                          ", but there are only " + std::to_string(n_tokens()) + " tokens.");
    }
  }
  if (v.unknown < 0) {
    const auto type = std::ranges::find(v.types, static_cast<int32_t>(TokenType::kUnknown));
    if (type != v.types.end()) v.unknown = static_cast<int32_t>(type - v.types.begin());
  }
  mark_end_of_generation();
  by_text_.reserve(v.tokens.size());
  for (int32_t id = 0; id < n_tokens(); ++id) {
    by_text_[v.tokens[id]] = id;
    if (!is_added(id)) continue;
    const std::string text = added_text(id);
    if (text.size() > kMaxSpecialBytes) {
      return invalid_data("The special token " + std::to_string(id) + " has " +
                          std::to_string(text.size()) + " bytes; at most " +
                          std::to_string(kMaxSpecialBytes) + " are allowed.");
    }
    specials_.add(text, id, type(id));
  }
  return {};
}

/// A normal token with such a name was declared wrongly and becomes a control token (otherwise a
/// user could end the turn), unless merges lead to it: then it is an ordinary word ("</s>" in
/// Qwen's vocabulary).
void VocabularyTokenizer::mark_end_of_generation() {
  end_of_generation_.assign(vocabulary_.tokens.size(), false);
  std::unordered_map<std::string, int32_t> normal;
  int32_t message_end = -1;
  bool returns = false;
  bool calls = false;
  for (int32_t id = 0; id < n_tokens(); ++id) {
    if (std::ranges::find(kEndNames, vocabulary_.tokens[id]) == std::end(kEndNames)) continue;
    end_of_generation_[id] = true;
    if (vocabulary_.tokens[id] == "<|end|>") message_end = id;
    returns |= vocabulary_.tokens[id] == "<|return|>";
    calls |= vocabulary_.tokens[id] == "<|call|>";
    if (type(id) == TokenType::kNormal) normal[vocabulary_.tokens[id]] = id;
  }
  if (!normal.empty()) {
    for (const std::string& merge : vocabulary_.merges) {
      const size_t space = std::min(merge.find(' ', 1), merge.size());
      const auto word =
          normal.find(merge.substr(0, space) + merge.substr(std::min(space + 1, merge.size())));
      if (word == normal.end()) continue;
      end_of_generation_[word->second] = false;
      normal.erase(word);
    }
  }
  for (const auto& [text, id] : normal) {
    vocabulary_.types[id] = static_cast<int32_t>(TokenType::kControl);
  }
  // In gpt-oss's format <|end|> ends a message, and a generation has several.
  if (returns && calls && message_end >= 0) end_of_generation_[message_end] = false;
  if (vocabulary_.eos >= 0) end_of_generation_[vocabulary_.eos] = true;
  if (vocabulary_.eot >= 0) end_of_generation_[vocabulary_.eot] = true;
}

bool VocabularyTokenizer::is_added(int32_t id) const {
  return type(id) == TokenType::kControl || type(id) == TokenType::kUserDefined ||
         type(id) == TokenType::kUnknown;
}

std::vector<int32_t> VocabularyTokenizer::encode_where(std::string_view text,
                                                       const AddedTokenRanges& where) const {
  std::vector<int32_t> out;
  const std::unique_ptr<Fragments> fragments = start();
  size_t done = 0;
  while (done < text.size()) {
    const auto match = specials_.search(text, done, where);
    const size_t begin = match ? match->begin : text.size();
    if (begin > done) fragments->encode(text.substr(done, begin - done), out);
    if (!match) break;
    out.push_back(match->id);
    done = match->end;
  }
  return out;
}

int32_t VocabularyTokenizer::find(std::string_view token_text) const {
  const auto it = by_text_.find(token_text);
  return it == by_text_.end() ? -1 : it->second;
}

std::string VocabularyTokenizer::token_bytes(int32_t id, bool special) const {
  if (!in_range(id)) return {};
  switch (type(id)) {
    case TokenType::kNormal:
    case TokenType::kByte:
      return piece_bytes(id);
    case TokenType::kUserDefined:
      return added_bytes(id);
    case TokenType::kControl:
    case TokenType::kUnknown:
    case TokenType::kUnused:
      break;
  }
  return special ? added_bytes(id) : std::string();
}

bool VocabularyTokenizer::is_control(int32_t id) const {
  return in_range(id) && type(id) == TokenType::kControl;
}

bool VocabularyTokenizer::is_end_of_generation(int32_t id) const {
  return in_range(id) && end_of_generation_[id];
}

}  // namespace chimere::text
