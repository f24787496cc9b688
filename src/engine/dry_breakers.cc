#include "engine/dry_breakers.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace chimere::engine {
namespace {

constexpr size_t kMaxBytes = 40;
constexpr size_t kMaxTokens = 20;

}  // namespace

std::shared_ptr<const sampling::DryBreakers> make_dry_breakers(
    const text::Tokenizer& tokenizer, std::span<const std::string> breakers) {
  auto out = std::make_shared<sampling::DryBreakers>();
  // The tokens of each proper suffix of each breaker; they do not depend on the preceding token.
  struct Breaker {
    std::string_view text;
    std::vector<std::vector<int32_t>> rests;  ///< of text.substr(i), from i = 1
  };
  std::vector<Breaker> prepared;
  for (const std::string& b : breakers) {
    const std::string_view text = std::string_view(b).substr(0, kMaxBytes);
    if (text.empty()) continue;
    Breaker& breaker = prepared.emplace_back(Breaker{text, {}});
    for (size_t from = 1; from < text.size(); ++from) {
      std::vector<int32_t> rest = tokenizer.encode(text.substr(from), false);
      rest.resize(std::min(rest.size(), kMaxTokens));
      breaker.rests.push_back(std::move(rest));
    }
  }
  for (int32_t id = 0; id < tokenizer.n_tokens(); ++id) {
    const std::string word = tokenizer.token_bytes(id, true);
    for (const Breaker& b : prepared) {
      if (word.find(b.text) != std::string::npos) {
        out->single.insert(id);
        continue;
      }
      for (size_t from = 1; from < b.text.size() && from <= word.size(); ++from) {
        if (word.ends_with(b.text.substr(0, from))) {
          out->longer[id].push_back(b.rests[from - 1]);
        }
      }
    }
  }
  return out;
}

}  // namespace chimere::engine
