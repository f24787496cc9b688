#include "constraints/leaf_mask.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "constraints/flat_map.h"
#include "constraints/token_trie.h"

namespace chimere::constraints {
namespace {

/// The states of a machine that a walk reaches, with dense indices and rows of transitions.
class WalkStates {
 public:
  explicit WalkStates(Machine& machine) : machine_(machine) { infos_.emplace_back(); }

  static constexpr uint32_t kDeadIndex = 0;

  uint32_t add(State state) {
    if (state == kDead) return kDeadIndex;
    if (const uint32_t* const found = indices_.find(state)) return *found;
    const auto index = static_cast<uint32_t>(infos_.size());
    indices_.insert(state, index);
    Info info;
    info.state = state;
    info.accepts = machine_.accepts(state);
    infos_.push_back(info);
    return index;
  }
  uint32_t next(uint32_t index, uint8_t byte) {
    const size_t at = row(index) + byte;
    const uint32_t known = rows_[at];
    if (known != kUnknown) return known;
    const uint32_t target = add(machine_.next(infos_[index].state, byte));
    rows_[at] = target;
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
  /// Whether every text of up to `length` bytes of these classes is read.
  bool stays(uint32_t index, CharacterClasses classes, int32_t length) {
    Info& info = infos_[index];
    if (length > info.stays_up_to && length < info.leaves_from) {
      const CharacterClasses found = machine_.stays(info.state, length);
      if (found == 0) {
        info.leaves_from = length;
      } else {
        info.stays = found;
        info.stays_up_to = length;
      }
    }
    return length <= info.stays_up_to && (classes & ~info.stays) == 0;
  }
  bool accepts(uint32_t index) const { return infos_[index].accepts; }
  /// Whether no byte follows.
  bool ends(uint32_t index) { return rows_[row(index) + kRowEnds] != 0; }
  State state(uint32_t index) const { return infos_[index].state; }
  size_t size() const { return infos_.size(); }

 private:
  static constexpr uint32_t kUnknown = UINT32_MAX;
  static constexpr size_t kRowEnds = 256;
  static constexpr size_t kRow = 257;  ///< targets of bytes, and whether there are none
  struct Info {
    State state = kDead;
    uint32_t same = 0;                 ///< the same state for texts of up to `same_up_to` bytes
    int32_t same_up_to = -1;           ///< -1: none is known
    int32_t differs_from = INT32_MAX;  ///< for texts of that length there is none
    int32_t stays_up_to = -1;          ///< length that `stays` is for
    int32_t leaves_from = INT32_MAX;   ///< length of which no class stays
    uint32_t row = 0;                  ///< index of its row + 1
    CharacterClasses stays = 0;
    bool accepts = false;
  };
  /// Most states are reached by the last byte of tokens only: they need no row.
  size_t row(uint32_t index) {
    if (infos_[index].row == 0) {
      const ByteSet bytes =
          index == kDeadIndex ? ByteSet() : machine_.first_bytes(infos_[index].state);
      const size_t begin = rows_.size();
      rows_.resize(begin + kRow, kUnknown);
      for (size_t byte = 0; byte < bytes.size(); ++byte) {
        if (!bytes[byte]) rows_[begin + byte] = kDeadIndex;
      }
      rows_[begin + kRowEnds] = bytes.none() ? 1 : 0;
      infos_[index].row = static_cast<uint32_t>(begin / kRow) + 1;
    }
    return (infos_[index].row - size_t{1}) * kRow;
  }

  Machine& machine_;
  FlatMap<uint32_t> indices_;
  std::vector<Info> infos_;
  std::vector<uint32_t> rows_;
};

/// What is found behind the exits to one accepting state.
struct Collected {
  TailSet tails;
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
  size_t bytes = sizeof(*this) + bits.capacity() * sizeof(uint32_t) +
                 tokens.capacity() * sizeof(int32_t) + exits.capacity() * sizeof(Exit);
  for (const ExitGroup& group : groups) {
    bytes += sizeof(group) + group.exits.capacity() * sizeof(Exit) + group.suffixes.memory() +
             group.tails.capacity() * sizeof(uint64_t);
  }
  return bytes;
}

namespace {

/// The walk of compute_leaf_mask().
class LeafWalk {
 public:
  LeafWalk(Machine& machine, const TokenTrie& tokens, LeafExits exits, WorkMeter& meter)
      : meter_(meter),
        tokens_(tokens),
        trie_(tokens.trie()),
        states_(machine),
        with_groups_(exits != LeafExits::kNone) {}

  LeafMask run(State state, TriePosition position) {
    mask_.groups_known = with_groups_;
    walk(states_.add(state), position);
    fill_inside();
    if (mask_.groups_known) fill_groups();
    return std::move(mask_);
  }

 private:
  struct Level {
    uint32_t end = 0;
    uint32_t state = 0;
  };
  struct FoundExit {
    uint32_t state = 0;
    LeafMask::Exit exit;
  };

  Collected& collected(uint32_t state) {
    if (group_of_.size() <= state) group_of_.resize(states_.size(), 0);
    if (group_of_[state] == 0) {
      collected_.emplace_back();
      group_states_.push_back(state);
      group_of_[state] = static_cast<uint32_t>(collected_.size());
    }
    return collected_[group_of_[state] - 1];
  }
  /// Adds the tokens at positions of ByteTrie::tokens.
  void add(uint32_t begin, uint32_t end) {
    if (begin == end) return;
    inside_ += end - begin;
    if (!ranges_.empty() && ranges_.back().second == begin) {
      ranges_.back().second = end;
    } else {
      ranges_.emplace_back(begin, end);
    }
  }
  bool collect(uint32_t node) {
    exit_nodes_ += trie_.nodes[node].end - node;
    mask_.groups_known = exit_nodes_ <= LeafMask::kMaxExitNodes;
    return mask_.groups_known;
  }
  void walk(uint32_t start, TriePosition position);
  bool whole(uint32_t from, const ByteTrie::Node& node) {
    return (node.classes & kOtherClass) == 0 && node.height < UINT8_MAX &&
           !(with_groups_ && states_.accepts(from)) &&
           states_.stays(from, node.classes, node.height + 1);
  }
  void fill_inside();
  void fill_groups();

  WorkMeter& meter_;
  const TokenTrie& tokens_;
  const ByteTrie& trie_;
  WalkStates states_;
  bool with_groups_;
  LeafMask mask_;
  std::vector<std::pair<uint32_t, uint32_t>> ranges_;
  size_t inside_ = 0;
  size_t exit_nodes_ = 0;
  std::vector<FoundExit> exits_;
  std::vector<Collected> collected_;
  std::vector<uint32_t> group_states_;
  std::vector<uint32_t> group_of_;  ///< by state: index of `collected_` + 1
};

void LeafWalk::walk(uint32_t start, TriePosition position) {
  const uint32_t end = trie_.nodes[position.node].end;
  std::vector<Level> levels = {{end, start}};
  mask_.accepts = states_.accepts(start);
  NodeCount visited(meter_);
  for (uint32_t i = position.node + 1; i < end;) {
    if (!visited.add()) return;
    while (i >= levels.back().end) levels.pop_back();
    const ByteTrie::Node& node = trie_.nodes[i];
    const uint32_t from = levels.back().state;
    if (whole(from, node)) {
      add(node.first_token, trie_.nodes[node.end].first_token);
      i = node.end;
      continue;
    }
    const bool exited = mask_.groups_known && levels.size() > 1 && states_.accepts(from);
    uint32_t to = states_.next(from, node.byte);
    if (to == WalkStates::kDeadIndex) {
      if (exited && collect(i)) collected(from).rests.push_back(i);
      i = node.end;
      continue;
    }
    // Counters of lengths matter only where the tokens are long enough.
    if (node.end > i + 1 && node.height < UINT8_MAX) to = states_.same(to, node.height);
    add(node.first_token, trie_.nodes[i + 1].first_token);
    if (mask_.groups_known && states_.accepts(to)) {
      const auto depth = position.depth + static_cast<uint32_t>(levels.size());
      exits_.push_back({to, {i, depth}});
      if (node.byte == '"' && tokens_.quotes().known && states_.ends(to)) {
        if (node.end > i + 1) tokens_.quotes().add(collected(to).tails, i);
        i = node.end;
        continue;
      }
    }
    if (node.end > i + 1) levels.push_back({node.end, to});
    ++i;
  }
}

void LeafWalk::fill_inside() {
  mask_.everything = inside_ == trie_.tokens.size();
  const size_t words = tokens_.mask_words();
  const auto flip = [&](uint32_t begin, uint32_t end) {
    for (uint32_t i = begin; i < end; ++i) {
      const auto token = static_cast<uint32_t>(trie_.tokens[i]);
      mask_.bits[token / 32] ^= 1U << (token % 32);
    }
  };
  if (inside_ * 2 < words) {
    mask_.tokens.reserve(inside_);
    for (const auto& [begin, end] : ranges_) {
      mask_.tokens.insert(mask_.tokens.end(), trie_.tokens.begin() + begin,
                          trie_.tokens.begin() + end);
    }
  } else if (inside_ * 2 < trie_.tokens.size()) {
    mask_.bits.assign(words, 0);
    for (const auto& [begin, end] : ranges_) flip(begin, end);
  } else {
    const std::span<const uint32_t> all = tokens_.all();
    mask_.bits.assign(all.begin(), all.end());
    uint32_t last = 0;
    for (const auto& [begin, end] : ranges_) {
      flip(last, begin);
      last = end;
    }
    flip(last, static_cast<uint32_t>(trie_.tokens.size()));
  }
}

void LeafWalk::fill_groups() {
  mask_.exits.reserve(exits_.size());
  for (const FoundExit& found : exits_) mask_.exits.push_back(found.exit);
  if (collected_.empty()) return;
  mask_.groups.resize(collected_.size());
  for (size_t i = 0; i < collected_.size(); ++i) {
    LeafMask::ExitGroup& group = mask_.groups[i];
    group.state = states_.state(group_states_[i]);
    group.tails = std::move(collected_[i].tails);
    if (!collected_[i].rests.empty()) group.suffixes = trie_of_rests(trie_, collected_[i].rests);
  }
  for (const FoundExit& found : exits_) {
    if (found.state < group_of_.size() && group_of_[found.state] != 0) {
      mask_.groups[group_of_[found.state] - 1].exits.push_back(found.exit);
    }
  }
}

}  // namespace

LeafMask compute_leaf_mask(Machine& machine, State state, const TokenTrie& trie,
                           TriePosition position, LeafExits exits, WorkMeter& meter) {
  return LeafWalk(machine, trie, exits, meter).run(state, position);
}

}  // namespace chimere::constraints
