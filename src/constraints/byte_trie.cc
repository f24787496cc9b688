#include "constraints/byte_trie.h"

#include <algorithm>

namespace chimere::constraints {

uint8_t ByteTrie::plainness(uint8_t byte) {
  constexpr std::string_view kOthers = "\"\\<>[]{}`";
  const auto in = [byte](char first, char last) { return byte >= first && byte <= last; };
  if (in('a', 'z') || in('A', 'Z') || in('0', '9') || byte == '_') return 2;
  if (byte < 0x20 || byte >= 0x7F) return 0;
  return kOthers.find(static_cast<char>(byte)) == std::string_view::npos ? 1 : 0;
}

ByteTrie ByteTrie::build(std::vector<std::pair<std::string_view, int32_t>> entries) {
  std::ranges::sort(entries);
  ByteTrie trie;
  trie.nodes.emplace_back();
  trie.tokens.reserve(entries.size());
  std::vector<uint32_t> path = {0};  // nodes from the root to the last entry's
  std::string_view last;
  const auto close = [&](size_t depth) {
    while (path.size() > depth + 1) {
      Node& node = trie.nodes[path.back()];
      node.end = static_cast<uint32_t>(trie.nodes.size());
      path.pop_back();
      Node& parent = trie.nodes[path.back()];
      parent.plain = std::min(parent.plain, node.plain);
      parent.height = std::max(parent.height, static_cast<uint8_t>(std::min(node.height + 1, 255)));
    }
  };
  for (const auto& [text, token] : entries) {
    const size_t common = static_cast<size_t>(std::ranges::mismatch(text, last).in1 - text.begin());
    close(common);
    for (size_t i = common; i < text.size(); ++i) {
      path.push_back(static_cast<uint32_t>(trie.nodes.size()));
      Node node;
      node.first_token = static_cast<uint32_t>(trie.tokens.size());
      node.byte = static_cast<uint8_t>(text[i]);
      node.plain = plainness(node.byte);
      trie.nodes.push_back(node);
    }
    trie.tokens.push_back(token);
    last = text;
  }
  close(0);
  trie.nodes[0].end = static_cast<uint32_t>(trie.nodes.size());
  Node sentinel;
  sentinel.end = trie.nodes[0].end + 1;
  sentinel.first_token = static_cast<uint32_t>(trie.tokens.size());
  trie.nodes.push_back(sentinel);
  return trie;
}

std::optional<uint32_t> ByteTrie::child(uint32_t node, uint8_t byte) const {
  const uint32_t end = nodes[node].end;
  for (uint32_t child = node + 1; child < end; child = nodes[child].end) {
    if (nodes[child].byte == byte) return child;
  }
  return std::nullopt;
}

}  // namespace chimere::constraints
