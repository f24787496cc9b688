#include "retrieval/near_duplicates.h"

#include <algorithm>
#include <cctype>

namespace chimere::retrieval {
namespace {

constexpr uint64_t kSeed = 0xcbf29ce484222325U;

uint64_t mixed(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15U;
  return hash ^ (hash >> 32U);
}

}  // namespace

std::vector<uint64_t> shingles(std::string_view text) {
  std::vector<uint64_t> words;
  uint64_t word = kSeed;
  bool open = false;
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (std::isalnum(u) != 0 || u >= 0x80) {
      word = mixed(word, static_cast<uint64_t>(std::tolower(u)));
      open = true;
    } else if (open) {
      words.push_back(word);
      word = kSeed;
      open = false;
    }
  }
  if (open) words.push_back(word);
  std::vector<uint64_t> found;
  constexpr size_t kWords = 3;
  for (size_t i = 0; i + kWords <= words.size(); ++i)
    found.push_back(mixed(mixed(mixed(kSeed, words[i]), words[i + 1]), words[i + 2]));
  if (found.empty() && !words.empty()) {
    uint64_t all = kSeed;
    for (const uint64_t w : words) all = mixed(all, w);
    found.push_back(all);
  }
  std::ranges::sort(found);
  const auto rest = std::ranges::unique(found);
  found.erase(rest.begin(), rest.end());
  return found;
}

double resemblance(const std::vector<uint64_t>& a, const std::vector<uint64_t>& b) {
  if (a.empty() && b.empty()) return 1;
  size_t shared = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i] == b[j]) {
      ++shared;
      ++i;
      ++j;
    } else if (a[i] < b[j]) {
      ++i;
    } else {
      ++j;
    }
  }
  return static_cast<double>(shared) / static_cast<double>(a.size() + b.size() - shared);
}

}  // namespace chimere::retrieval
