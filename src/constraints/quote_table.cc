#include "constraints/quote_table.h"

#include <algorithm>
#include <numeric>

namespace chimere::constraints {
namespace {

/// Tails beyond this are not looked for.
constexpr size_t kMostTails = 4'000'000;

}  // namespace

std::vector<QuoteTable::Tail> QuoteTable::find_tails(const ByteTrie& trie) {
  std::vector<Tail> found;
  std::vector<uint32_t> ends;
  for (uint32_t i = 1; i < trie.nodes[0].end; ++i) {
    while (!ends.empty() && i >= ends.back()) ends.pop_back();
    ends.push_back(trie.nodes[i].end);
    if (trie.nodes[i].byte != '"') continue;
    const auto below = trie.tokens_below(i).subspan(trie.tokens_at(i).size());
    for (const int32_t token : below) {
      found.push_back({i, token, static_cast<uint32_t>(ends.size())});
    }
    if (found.size() > kMostTails) break;
  }
  return found;
}

void QuoteTable::fill(const std::vector<Tail>& found,
                      std::vector<std::pair<std::string_view, int32_t>> entries) {
  if (found.size() > kMostTails) return;
  known = true;
  std::vector<bool> strings(entries.size());
  for (const auto& [tail, id] : entries) {
    strings[static_cast<size_t>(id)] = std::ranges::count(tail, '"') > 1;
  }
  tails = ByteTrie::build(std::move(entries));
  std::vector<uint32_t> number(found.size());
  tokens.resize(found.size());
  with_strings.resize(words());
  for (size_t i = 0; i < found.size(); ++i) {
    const auto at = static_cast<size_t>(tails.tokens[i]);
    number[at] = static_cast<uint32_t>(i);
    tokens[i] = found[at].token;
    if (strings[at]) with_strings[i / 64] |= uint64_t{1} << (i % 64);
  }
  std::iota(tails.tokens.begin(), tails.tokens.end(), 0);
  numbers = std::move(number);
  for (size_t i = 0; i < found.size();) {
    Range range;
    range.begin = static_cast<uint32_t>(i);
    const uint32_t node = found[i].node;
    while (i < found.size() && found[i].node == node) ++i;
    range.end = static_cast<uint32_t>(i);
    at_node.insert(node, range);
  }
}

void QuoteTable::add(TailSet& set, uint32_t node) const {
  const Range* const range = at_node.find(node);
  if (range == nullptr) return;
  set.resize(words());
  for (uint32_t i = range->begin; i < range->end; ++i) {
    set[numbers[i] / 64] |= uint64_t{1} << (numbers[i] % 64);
  }
}

}  // namespace chimere::constraints
