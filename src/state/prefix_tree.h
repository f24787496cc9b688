// A radix tree over token ids: which prefixes have a cached state, and where it is stored.
#ifndef CHIMERE_STATE_PREFIX_TREE_H_
#define CHIMERE_STATE_PREFIX_TREE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "state/sequence_state.h"
#include "state/state_image.h"

namespace chimere::state {

/// The state after a prefix, in up to three places.
struct CachedState {
  std::shared_ptr<const Checkpoint> device;  ///< in the state store
  std::shared_ptr<const StateImage> memory;  ///< in host memory; may lack its slot
  /// What a drafter's own model has of the prefix, in that model's store; no place of the state.
  std::shared_ptr<const Checkpoint> context_rows;
  bool on_disk = false;
  std::string disk_name;    ///< of the file
  uint64_t disk_since = 0;  ///< `used` of when the file became known
  int32_t disk_first_page = 0;
  int64_t disk_bytes = 0;

  const std::string* scope = nullptr;  ///< owned by the tree; set with the first place
  bool loading = false;                ///< being read from disk
  uint64_t used = 0;                   ///< logical time of the last use
  int64_t used_at = 0;                 ///< seconds since 1970 of the last use
  int pins = 0;                        ///< background tasks that still refer to it
  bool unsaved = false;                ///< to be written to disk
  bool use_unsaved = false;            ///< the file does not know of the last use

  bool usable_memory() const { return memory != nullptr && memory->slot != nullptr; }
  bool anywhere() const { return device != nullptr || memory != nullptr || on_disk; }
};

class PrefixTree {
 public:
  struct Node {
    Node* parent = nullptr;
    std::vector<int32_t> edge;  ///< tokens from the parent to here; empty only at the root
    int32_t position = 0;       ///< tokens from the root
    std::map<int32_t, std::unique_ptr<Node>> children;  ///< by the first token of their edge
    CachedState state;
  };

  PrefixTree();

  /// The node of these tokens, created if missing. Nodes keep their address until erase_unused().
  Node& insert(std::span<const int32_t> tokens);
  /// The nodes whose tokens are a prefix of `tokens`, shortest first, without the root.
  std::vector<Node*> path(std::span<const int32_t> tokens);
  /// Removes the node if it stores nothing and has no children, then its parents likewise.
  void erase_unused(Node& node);
  /// Calls fn for every node but the root, parents first; fn must not change the tree.
  void for_each(const std::function<void(Node&)>& fn);

  static std::vector<int32_t> tokens_of(const Node& node);
  static void for_each_below(Node& node, const std::function<void(Node&)>& fn);

 private:
  static Node& split(Node& child, size_t at);

  std::unique_ptr<Node> root_;
};

}  // namespace chimere::state

#endif  // CHIMERE_STATE_PREFIX_TREE_H_
