// The prefix trees of all scopes: which prefixes have a state, in which tiers, and how to assemble
// it.
#ifndef CHIMERE_ENGINE_PREFIX_CACHE_PREFIX_INDEX_H_
#define CHIMERE_ENGINE_PREFIX_CACHE_PREFIX_INDEX_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "state/prefix_file.h"
#include "state/prefix_tree.h"
#include "state/sequence_state.h"
#include "state/state_image.h"

namespace chimere::engine {

using PrefixNode = state::PrefixTree::Node;

/// How to assemble the pages and the slot of a node's state.
struct PrefixRecipe {
  struct Source {
    std::shared_ptr<const state::StateImage> memory;  ///< nullptr: the file
    state::PrefixName file;
  };
  std::shared_ptr<const state::Checkpoint> base;  ///< provides the pages before `sources`
  std::vector<Source> sources;  ///< shortest first; the last one is the node's own
  bool needs_disk = false;
};

/// Whether a sequence can continue from this state, in whichever tier it is.
inline bool has_state(const state::CachedState& s) {
  return s.device != nullptr || s.usable_memory() || s.on_disk;
}

/// One radix tree per scope, and the logical clock of uses. The tiers store their part of each
/// state in its node. Belongs to one thread.
class PrefixIndex {
 public:
  /// `page_tokens`: tokens per page of the state store.
  explicit PrefixIndex(int64_t page_tokens) : page_tokens_(static_cast<int32_t>(page_tokens)) {}

  /// The node of these tokens, created if missing.
  PrefixNode& insert(const std::string& scope, std::span<const int32_t> tokens);
  /// The nodes whose tokens are a prefix of `tokens`, shortest first.
  std::vector<PrefixNode*> path(const std::string& scope, std::span<const int32_t> tokens);
  /// The node of exactly these tokens; nullptr: none.
  PrefixNode* find(const std::string& scope, std::span<const int32_t> tokens);
  /// Calls fn for every node, parents first; fn must not add or erase nodes.
  void for_each(const std::function<void(PrefixNode&)>& fn);
  /// The least recently used node for which `passes` is true; nullptr: none.
  PrefixNode* oldest(const std::function<bool(PrefixNode&)>& passes);

  /// Erases the node if it stores nothing, has no children and is not pinned, then its parents
  /// likewise. Releases the context rows of a node without a state.
  void erase_unused(PrefixNode& node);
  /// The same for every node.
  void erase_unused_leaves();

  /// Marks the nodes as used now. Shorter prefixes count as used more recently: they serve more
  /// prompts.
  void touch(std::span<PrefixNode* const> path);
  /// Logical time of the newest use.
  uint64_t now() const { return clock_; }
  /// Advances the logical time and returns it.
  uint64_t tick() { return ++clock_; }

  /// Number of the first page that is not complete in a state of the node's prefix.
  int32_t end_page(const PrefixNode& node) const { return node.position / page_tokens_; }
  /// How to assemble the node's state from RAM and disk, with the pages of its ancestors in any
  /// tier. Absent if the node has no such state, or pages are missing.
  std::optional<PrefixRecipe> recipe_for(const PrefixNode& node) const;
  /// The states on `path` that exceed kMaxPrefixPoints in the state store and RAM together. States
  /// that are not at `points` (ascending positions) and not at branches come first, starting with
  /// the most closely spaced ones; the others are not returned.
  static std::vector<PrefixNode*> states_to_thin(std::span<PrefixNode* const> path,
                                                 std::span<const int64_t> points);

 private:
  int32_t page_tokens_;
  std::map<std::string, state::PrefixTree> trees_;
  uint64_t clock_ = 0;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_PREFIX_CACHE_PREFIX_INDEX_H_
