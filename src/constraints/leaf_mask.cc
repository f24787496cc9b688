#include "constraints/leaf_mask.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace chimere::constraints {
namespace {

/// Shared masks beyond this are dropped and computed again when they are needed.
constexpr size_t kSharedMaskBytes = size_t{256} << 20;

/// The states of a machine that a walk reaches, with dense indices and rows of transitions.
class WalkStates {
 public:
  explicit WalkStates(Machine& machine) : machine_(machine) { add(kDead); }

  static constexpr uint32_t kDeadIndex = 0;

  uint32_t add(State state) {
    const auto [found, is_new] = indices_.try_emplace(state, static_cast<uint32_t>(infos_.size()));
    if (is_new) {
      Info info;
      info.state = state;
      info.accepts = state != kDead && machine_.accepts(state);
      infos_.push_back(info);
      rows_.resize(rows_.size() + 256, kUnknown);
    }
    return found->second;
  }
  uint32_t next(uint32_t index, uint8_t byte) {
    const uint32_t known = rows_[size_t{index} * 256 + byte];
    if (known != kUnknown) return known;
    const uint32_t target = add(machine_.next(infos_[index].state, byte));
    rows_[size_t{index} * 256 + byte] = target;
    return target;
  }
  /// A state that allows the same texts of up to `length` bytes.
  uint32_t same(uint32_t index, int32_t length) {
    const Info& info = infos_[index];
    if (length <= info.same_up_to) return info.same;
    if (length >= info.differs_from) return index;
    const State state = machine_.mask_class(info.state, length);
    const uint32_t same = add(state);
    if (same == index) {
      infos_[index].differs_from = length;
    } else {
      infos_[index].same = same;
      infos_[index].same_up_to = length;
    }
    return same;
  }
  /// Whether all bytes that are at least as plain (1 or 2) lead back to the state, which does not
  /// accept.
  bool loops(uint32_t index, uint8_t plainness) {
    if (infos_[index].loops == kUnknownLoops) infos_[index].loops = plainest_loop(index);
    return plainness >= infos_[index].loops;
  }
  bool accepts(uint32_t index) const { return infos_[index].accepts; }
  State state(uint32_t index) const { return infos_[index].state; }

 private:
  static constexpr uint32_t kUnknown = UINT32_MAX;
  static constexpr uint8_t kUnknownLoops = UINT8_MAX;
  static constexpr uint8_t kNoLoop = 3;
  struct Info {
    State state = kDead;
    uint32_t same = 0;                 ///< the same state for texts of up to `same_up_to` bytes
    int32_t same_up_to = -1;           ///< -1: none is known
    int32_t differs_from = INT32_MAX;  ///< for texts of that length there is none
    bool accepts = false;
    uint8_t loops = kUnknownLoops;  ///< least plainness that loops; kNoLoop: none
  };
  uint8_t plainest_loop(uint32_t index) {
    if (index == kDeadIndex || infos_[index].accepts) return kNoLoop;
    uint8_t least = 1;
    for (int i = 0; i < 256; ++i) {
      const auto byte = static_cast<uint8_t>(i);
      const uint8_t plainness = ByteTrie::plainness(byte);
      if (plainness < least) continue;
      // Counters that do not matter are no difference.
      const uint32_t to = next(index, byte);
      if (to != index && same(to, kAnyLength) != index) least = plainness + 1;
      if (least == kNoLoop) break;
    }
    return least;
  }
  static constexpr int32_t kAnyLength = 0x7FFF;

  Machine& machine_;
  std::unordered_map<State, uint32_t> indices_;
  std::vector<Info> infos_;
  std::vector<uint32_t> rows_;
};

struct Collected {
  std::vector<LeafMask::Exit> exits;
  std::vector<uint32_t> continued;
  std::vector<uint32_t> rests;  ///< nodes of their first bytes
};

/// The bytes below `node` that lead to each of its tokens, with the node's own byte.
void add_rests(const ByteTrie& trie, uint32_t node, std::vector<std::string>& texts,
               std::vector<int32_t>& tokens) {
  std::string path;
  std::vector<uint32_t> ends;
  for (uint32_t i = node; i < trie.nodes[node].end; ++i) {
    while (!ends.empty() && i >= ends.back()) {
      ends.pop_back();
      path.pop_back();
    }
    path += static_cast<char>(trie.nodes[i].byte);
    ends.push_back(trie.nodes[i].end);
    for (const int32_t token : trie.tokens_at(i)) {
      texts.push_back(path);
      tokens.push_back(token);
    }
  }
}

ByteTrie trie_of_rests(const ByteTrie& trie, const std::vector<uint32_t>& nodes) {
  std::vector<std::string> texts;
  std::vector<int32_t> tokens;
  for (const uint32_t node : nodes) add_rests(trie, node, texts, tokens);
  std::vector<std::pair<std::string_view, int32_t>> entries;
  entries.reserve(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) entries.emplace_back(texts[i], tokens[i]);
  return ByteTrie::build(std::move(entries));
}

}  // namespace

size_t LeafMask::memory() const {
  size_t bytes = sizeof(*this) + inside.capacity() * sizeof(uint32_t);
  for (const ExitGroup& group : groups) {
    bytes += sizeof(group) + group.exits.capacity() * sizeof(Exit) + group.suffixes.memory() +
             group.continuations.memory();
  }
  return bytes;
}

LeafMask compute_leaf_mask(Machine& machine, State state, const ByteTrie& trie, size_t mask_words,
                           bool with_groups) {
  LeafMask mask;
  mask.inside.assign(mask_words, 0);
  WalkStates states(machine);
  std::map<uint32_t, Collected> collected;  // by index of an accepting state
  struct Level {
    uint32_t end = 0;
    uint32_t state = 0;
  };
  std::vector<Level> levels = {{trie.nodes[0].end, states.add(state)}};
  mask.accepts = states.accepts(levels.back().state);
  size_t inside = 0;
  const uint32_t end = trie.nodes[0].end;
  size_t exit_nodes = 0;
  mask.groups_known = with_groups;
  const auto collect = [&](uint32_t node, std::vector<uint32_t>& nodes) {
    exit_nodes += trie.nodes[node].end - node;
    mask.groups_known = exit_nodes <= LeafMask::kMaxExitNodes;
    if (mask.groups_known) nodes.push_back(node);
  };
  for (uint32_t i = 1; i < end;) {
    while (i >= levels.back().end) levels.pop_back();
    const ByteTrie::Node& node = trie.nodes[i];
    const uint32_t from = levels.back().state;
    if (node.plain > 0 && states.loops(from, node.plain)) {
      for (const int32_t token : trie.tokens_below(i)) {
        mask.inside[static_cast<uint32_t>(token) / 32] |= 1U << (static_cast<uint32_t>(token) % 32);
        ++inside;
      }
      i = node.end;
      continue;
    }
    uint32_t to = states.next(from, node.byte);
    if (to == WalkStates::kDeadIndex) {
      if (mask.groups_known && levels.size() > 1 && states.accepts(from)) {
        collect(i, collected[from].rests);
      }
      i = node.end;
      continue;
    }
    for (const int32_t token : trie.tokens_at(i)) {
      mask.inside[static_cast<uint32_t>(token) / 32] |= 1U << (static_cast<uint32_t>(token) % 32);
      ++inside;
    }
    if (mask.groups_known && levels.size() > 1 && states.accepts(from)) {
      collect(i, collected[from].continued);
    }
    if (mask.groups_known && states.accepts(to)) {
      collected[to].exits.push_back({i, static_cast<uint32_t>(levels.size())});
    }
    if (node.end > i + 1) {
      // Counters of lengths matter only where the tokens are long enough.
      if (node.height < UINT8_MAX) to = states.same(to, node.height);
      levels.push_back({node.end, to});
    }
    ++i;
  }
  mask.everything = inside == trie.tokens.size();
  if (!mask.groups_known) return mask;
  for (auto& [index, of_state] : collected) {
    LeafMask::ExitGroup& group = mask.groups.emplace_back();
    group.state = states.state(index);
    std::ranges::stable_sort(of_state.exits, {}, &LeafMask::Exit::depth);
    group.exits = std::move(of_state.exits);
    group.suffixes = trie_of_rests(trie, of_state.rests);
    group.continuations = trie_of_rests(trie, of_state.continued);
  }
  return mask;
}

std::shared_ptr<const LeafMask> LeafMasks::find(uint64_t key) const {
  const std::lock_guard lock(mutex_);
  const auto found = masks_.find(key);
  return found == masks_.end() ? nullptr : found->second;
}

void LeafMasks::insert(uint64_t key, const std::shared_ptr<const LeafMask>& mask) {
  const std::lock_guard lock(mutex_);
  if (bytes_ > kSharedMaskBytes) {
    masks_.clear();
    bytes_ = 0;
  }
  const size_t size = mask->memory();
  if (masks_.try_emplace(key, mask).second) bytes_ += size;
}

}  // namespace chimere::constraints
