// A vocabulary made of given texts, for tests.
#ifndef CHIMERE_CONSTRAINTS_TESTING_H_
#define CHIMERE_CONSTRAINTS_TESTING_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace chimere::constraints {

/// Encodes by the longest match. Tokens like <|x|> are control tokens; the last one ends a
/// generation.
class TestTokenizer final : public text::Tokenizer {
 public:
  explicit TestTokenizer(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {
    tokens_.emplace_back("<|end|>");
  }

  std::string token_bytes(int32_t id, bool special) const override {
    if (id < 0 || id >= n_tokens() || (is_control(id) && !special)) return {};
    return tokens_[static_cast<size_t>(id)];
  }
  int32_t n_tokens() const override { return static_cast<int32_t>(tokens_.size()); }
  int32_t bos() const override { return -1; }
  int32_t eos() const override { return n_tokens() - 1; }
  bool add_bos() const override { return false; }
  bool add_eos() const override { return false; }
  bool is_control(int32_t id) const override {
    return tokens_[static_cast<size_t>(id)].starts_with("<|");
  }
  bool is_end_of_generation(int32_t id) const override { return id == eos(); }
  int32_t find(std::string_view token_text) const override {
    for (int32_t id = 0; id < n_tokens(); ++id) {
      if (tokens_[static_cast<size_t>(id)] == token_text) return id;
    }
    return -1;
  }

 protected:
  std::vector<int32_t> encode_where(std::string_view text,
                                    const text::AddedTokenRanges& /*where*/) const override {
    std::vector<int32_t> ids;
    while (!text.empty()) {
      int32_t best = -1;
      size_t length = 0;
      for (int32_t id = 0; id < n_tokens(); ++id) {
        const std::string& token = tokens_[static_cast<size_t>(id)];
        if (!is_control(id) && token.size() > length && text.starts_with(token)) {
          best = id;
          length = token.size();
        }
      }
      if (best < 0) return ids;
      ids.push_back(best);
      text.remove_prefix(length);
    }
    return ids;
  }

 private:
  std::vector<std::string> tokens_;
};

/// The tokens of a text in which control tokens are written as their texts: the longest one at each
/// place, and of equal ones the first.
inline std::vector<int32_t> tokens_of(const TestTokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> out;
  while (!text.empty()) {
    int32_t best = -1;
    size_t length = 0;
    for (int32_t id = 0; id < tokenizer.n_tokens(); ++id) {
      const std::string token = tokenizer.token_bytes(id, true);
      if (token.size() <= length || !text.starts_with(token)) continue;
      best = id;
      length = token.size();
    }
    out.push_back(best);
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_TESTING_H_
