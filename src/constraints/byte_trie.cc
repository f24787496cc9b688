#include "constraints/byte_trie.h"

#include <algorithm>

namespace chimere::constraints {

namespace {

/// The bytes of a UTF-8 character that are still to come.
struct Utf8Rest {
  int left = 0;
  uint8_t low = 0x80;  ///< bounds of the next one
  uint8_t high = 0xBF;
};

/// The class of a character that `byte` begins or continues.
CharacterClasses read_class(Utf8Rest& rest, uint8_t byte) {
  if (rest.left > 0) {
    const bool fits = byte >= rest.low && byte <= rest.high;
    rest = {.left = fits ? rest.left - 1 : 0};
    return fits ? kNonAsciiClass : kOtherClass;
  }
  if (byte < 0x80) return kClassOfAscii[byte];
  if (byte < 0xC2 || byte > 0xF4) return kOtherClass;
  rest.left = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
  if (byte == 0xE0) rest.low = 0xA0;
  if (byte == 0xED) rest.high = 0x9F;
  if (byte == 0xF0) rest.low = 0x90;
  if (byte == 0xF4) rest.high = 0x8F;
  return kNonAsciiClass;
}

}  // namespace

ByteTrie ByteTrie::build(std::vector<std::pair<std::string_view, int32_t>> entries) {
  std::ranges::sort(entries);
  ByteTrie trie;
  trie.nodes.emplace_back();
  trie.tokens.reserve(entries.size());
  std::vector<uint32_t> path = {0};  // nodes from the root to the last entry's
  std::vector<Utf8Rest> rests = {{}};
  std::string_view last;
  const auto close = [&](size_t depth) {
    while (path.size() > depth + 1) {
      Node& node = trie.nodes[path.back()];
      node.end = static_cast<uint32_t>(trie.nodes.size());
      path.pop_back();
      rests.pop_back();
      Node& parent = trie.nodes[path.back()];
      parent.classes |= node.classes;
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
      Utf8Rest rest = rests.back();
      node.classes = read_class(rest, node.byte);
      rests.push_back(rest);
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
