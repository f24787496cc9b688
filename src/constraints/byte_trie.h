// Byte strings with token ids as a flat trie.
#ifndef CHIMERE_CONSTRAINTS_BYTE_TRIE_H_
#define CHIMERE_CONSTRAINTS_BYTE_TRIE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "constraints/character_class.h"

namespace chimere::constraints {

struct ByteTrie {
  /// In depth-first order: the children of a node follow it, each behind the other's subtree.
  struct Node {
    uint32_t end = 0;          ///< behind the last node of the subtree
    uint32_t first_token = 0;  ///< in `tokens`; those of the node end where the next node's begin
    uint8_t byte = 0;
    uint8_t height = 0;  ///< of the subtree, at most 255
    /// Of the characters that begin at the node and in its subtree, where the bytes before the node
    /// are whole characters.
    CharacterClasses classes = 0;
  };

  std::vector<Node> nodes;      ///< the root first; a sentinel behind the last
  std::vector<int32_t> tokens;  ///< in the order of their nodes

  /// Takes O(n log n) time.
  static ByteTrie build(std::vector<std::pair<std::string_view, int32_t>> entries);

  std::span<const int32_t> tokens_at(uint32_t node) const {
    return std::span(tokens).subspan(nodes[node].first_token,
                                     nodes[node + 1].first_token - nodes[node].first_token);
  }
  std::span<const int32_t> tokens_below(uint32_t node) const {
    return std::span(tokens).subspan(nodes[node].first_token,
                                     nodes[nodes[node].end].first_token - nodes[node].first_token);
  }
  /// The node that a byte leads to.
  std::optional<uint32_t> child(uint32_t node, uint8_t byte) const;
  size_t memory() const { return nodes.size() * sizeof(Node) + tokens.size() * sizeof(int32_t); }
};

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_BYTE_TRIE_H_
