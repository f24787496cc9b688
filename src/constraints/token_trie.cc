#include "constraints/token_trie.h"

#include <algorithm>
#include <utility>

#include "constraints/leaf_masks.h"

namespace chimere::constraints {
namespace {

bool outside_of_text(std::string_view bytes) {
  return bytes.empty() || bytes.find(static_cast<char>(kTokenByte)) != std::string_view::npos;
}

}  // namespace

std::array<uint8_t, kSymbolBytes> token_symbol(int32_t token) {
  const auto id = static_cast<uint32_t>(token);
  return {kTokenByte, static_cast<uint8_t>(id >> 24), static_cast<uint8_t>(id >> 16),
          static_cast<uint8_t>(id >> 8), static_cast<uint8_t>(id)};
}

TokenTrie::TokenTrie() : leaf_masks_(std::make_unique<LeafMasks>()) {}
TokenTrie::~TokenTrie() = default;

std::shared_ptr<const TokenTrie> TokenTrie::create(const text::Tokenizer& tokenizer,
                                                   int32_t vocabulary_size) {
  std::shared_ptr<TokenTrie> trie(new TokenTrie());
  const int32_t n = tokenizer.n_tokens();
  trie->vocabulary_size_ = std::max(n, vocabulary_size);
  trie->offsets_.push_back(0);
  for (int32_t id = 0; id < trie->vocabulary_size_; ++id) {
    if (id < n && tokenizer.is_end_of_generation(id)) {
      trie->end_tokens_.push_back(id);
    } else if (id < n) {
      const std::string bytes = tokenizer.token_bytes(id, false);
      if (outside_of_text(bytes)) {
        if (tokenizer.is_control(id)) trie->controls_.emplace(tokenizer.token_bytes(id, true), id);
        for (const uint8_t byte : token_symbol(id)) trie->bytes_ += static_cast<char>(byte);
      } else {
        trie->bytes_ += bytes;
      }
    }
    trie->offsets_.push_back(static_cast<uint32_t>(trie->bytes_.size()));
  }
  std::vector<std::pair<std::string_view, int32_t>> entries;
  for (int32_t id = 0; id < n; ++id) {
    const std::string_view bytes = trie->bytes(id);
    trie->longest_ = std::max(trie->longest_, static_cast<int32_t>(bytes.size()));
    if (!bytes.empty()) entries.emplace_back(bytes, id);
  }
  trie->trie_ = ByteTrie::build(std::move(entries));
  trie->quotes_ = QuoteTable::build(trie->trie_, [&](int32_t token) { return trie->bytes(token); });
  trie->all_.assign(trie->mask_words(), 0);
  for (const int32_t token : trie->trie_.tokens) {
    trie->all_[static_cast<uint32_t>(token) / 32] |= 1U << (static_cast<uint32_t>(token) % 32);
  }
  return trie;
}

std::string_view TokenTrie::bytes(int32_t token) const {
  if (token < 0 || token >= vocabulary_size_) return {};
  const auto id = static_cast<size_t>(token);
  return std::string_view(bytes_).substr(offsets_[id], offsets_[id + 1] - offsets_[id]);
}

int32_t TokenTrie::control(std::string_view text) const {
  const auto found = controls_.find(std::string(text));
  return found == controls_.end() ? -1 : found->second;
}

bool TokenTrie::is_end_of_generation(int32_t token) const {
  return std::ranges::binary_search(end_tokens_, token);
}

}  // namespace chimere::constraints
