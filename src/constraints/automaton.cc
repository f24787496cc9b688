#include "constraints/automaton.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <iterator>
#include <numeric>

#include "constraints/white_space.h"

namespace chimere::constraints {
namespace {

/// Cached masks beyond this are dropped and computed again when they are needed.
constexpr size_t kMaskBytes = size_t{64} << 20;
/// States beyond this are an error of the request.
constexpr size_t kStateBytes = size_t{512} << 20;
/// Machines inside of one another that are looked into.
constexpr int kInnerDepth = 8;
/// Subtrees of at least this many nodes are worth a call of first_bytes().
constexpr uint32_t kManyNodes = 32;
/// States that read at least this many bytes are walked with their transitions in rows.
constexpr size_t kManyBytes = 24;

}  // namespace

Automaton::Automaton(std::unique_ptr<Machine> machine, std::shared_ptr<const TokenTrie> trie)
    : machine_(std::move(machine)), trie_(std::move(trie)) {}

State Automaton::start() {
  const std::lock_guard lock(mutex_);
  return machine_->start();
}

State Automaton::read(State state, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  return read_unlocked(state, bytes);
}

State Automaton::read_unlocked(State state, std::string_view bytes) {
  for (const char c : bytes) {
    if (state == kDead) break;
    state = machine_->next(state, static_cast<uint8_t>(c));
  }
  return state;
}

bool Automaton::accepts(State state) {
  const std::lock_guard lock(mutex_);
  return state != kDead && machine_->accepts(state);
}

bool Automaton::ends(State state) {
  const std::lock_guard lock(mutex_);
  if (state == kDead) return true;
  const ByteSet bytes = machine_->first_bytes(state);
  for (int byte = 0; byte < 256; ++byte) {
    if (bytes[byte] && machine_->next(state, static_cast<uint8_t>(byte)) != kDead) return false;
  }
  return true;
}

std::string Automaton::forced(State state, size_t limit, bool habitual) {
  const std::lock_guard lock(mutex_);
  std::string text;
  while (text.size() < limit && state != kDead && !machine_->accepts(state)) {
    const ByteSet bytes = machine_->first_bytes(state);
    int only = -1;
    bool space = false;   // ' ' may stand here
    bool spaces = false;  // white space may
    for (int byte = 0; byte < 256; ++byte) {
      if (!bytes[byte] || machine_->next(state, static_cast<uint8_t>(byte)) == kDead) continue;
      if (habitual && is_white_space(static_cast<uint8_t>(byte))) {
        space = space || byte == ' ';
        spaces = true;
        continue;
      }
      if (habitual && byte == '\\') continue;  // an escape that is another way to write a character
      if (only >= 0) return text;
      only = byte;
    }
    if (only < 0 && !spaces) break;
    const bool separated = !text.empty() && (text.back() == ':' || text.back() == ',');
    if (spaces && (only < 0 || separated)) {
      if (!space) break;
      only = ' ';
    }
    if (only == kTokenByte && !text.empty() && static_cast<uint8_t>(text[0]) != kTokenByte) break;
    text += static_cast<char>(only);
    state = machine_->next(state, static_cast<uint8_t>(only));
    if (static_cast<uint8_t>(text[0]) == kTokenByte && text.size() == kSymbolBytes) break;
  }
  return text;
}

Status Automaton::mask(State state, std::span<uint32_t> mask) {
  const std::lock_guard lock(mutex_);
  std::ranges::fill(mask, 0);
  const auto set = [&](int32_t token) {
    mask[static_cast<uint32_t>(token) / 32] |= 1U << (static_cast<uint32_t>(token) % 32);
  };
  const auto clear = [&](int32_t token) {
    mask[static_cast<uint32_t>(token) / 32] &= ~(1U << (static_cast<uint32_t>(token) % 32));
  };
  if (state == kDead) {
    std::ranges::for_each(trie_->end_tokens(), set);
    return {};
  }
  CHIMERE_CHECK_OK(status_unlocked());
  const Entry& entry = this->entry(state);
  CHIMERE_CHECK_OK(status_unlocked());
  if (entry.leaf) std::ranges::copy(entry.leaf->inside, mask.begin());
  std::ranges::for_each(entry.added, set);
  std::ranges::for_each(entry.removed, clear);
  std::ranges::for_each(entry.added_last, set);
  if (entry.accepts) std::ranges::for_each(trie_->end_tokens(), set);
  return {};
}

bool Automaton::unconstrained(State state) {
  const std::lock_guard lock(mutex_);
  return state != kDead && status_unlocked().ok() && entry(state).everything;
}

Status Automaton::status() {
  const std::lock_guard lock(mutex_);
  return status_unlocked();
}

Status Automaton::status_unlocked() {
  if (machine_->memory() > kStateBytes) {
    return out_of_memory(
        "The constraint of this request needs more memory than a constraint may take: its text has "
        "too many different states.");
  }
  return machine_->status();
}

size_t Automaton::memory() {
  const std::lock_guard lock(mutex_);
  return sizeof(*this) + machine_->memory() + entry_bytes_ + leaf_bytes_;
}

const Automaton::Entry& Automaton::entry(State state) {
  state = machine_->mask_class(state, trie_->longest());
  const auto found = entries_.find(state);
  if (found != entries_.end()) return found->second;
  if (entry_bytes_ > kMaskBytes) {
    entries_.clear();
    entry_bytes_ = 0;
  }
  Entry made = compute(state);
  made.accepts = machine_->accepts(state);
  entry_bytes_ += sizeof(Entry) + 32 +
                  (made.added.capacity() + made.removed.capacity() + made.added_last.capacity()) *
                      sizeof(int32_t);
  return entries_.emplace(state, std::move(made)).first->second;
}

std::optional<Automaton::Leaf> Automaton::leaf_of(State state) {
  std::optional<Machine::Inner> inner = machine_->inner(state);
  if (!inner) return std::nullopt;
  Leaf leaf;
  for (int depth = 0; inner && depth < kInnerDepth; ++depth) {
    leaf.machine = inner->machine;
    leaf.state = inner->state;
    leaf.uniform = leaf.uniform && inner->uniform;
    leaf.overlaps = leaf.overlaps || inner->overlaps;
    leaf.last = leaf.last && inner->last;
    std::ranges::move(inner->exceptions, std::back_inserter(leaf.exceptions));
    inner = leaf.machine->inner(leaf.state);
  }
  return leaf;
}

Automaton::Entry Automaton::compute(State state) {
  Entry entry;
  std::optional<Leaf> leaf = leaf_of(state);
  if (!leaf || (!leaf->uniform && leaf->machine->accepts(leaf->state))) {
    return compute_without_leaf(state);
  }
  entry.leaf = leaf_mask(*leaf->machine, leaf->state);
  if (entry.leaf->everything || leaf->last) {
    entry.everything = entry.leaf->everything;
    return entry;
  }
  if (!entry.leaf->groups_known || (entry.leaf->accepts && leaf->overlaps)) {
    return compute_without_leaf(state);
  }
  if (leaf->uniform) {
    add_uniform_exits(state, *leaf, entry);
    add_exceptions(state, *leaf, entry);
  } else {
    add_every_exit(state, entry);
    add_exceptions(state, *leaf, entry);
  }
  const size_t inside = static_cast<size_t>(
      std::transform_reduce(entry.leaf->inside.begin(), entry.leaf->inside.end(), int64_t{0},
                            std::plus<>(), [](uint32_t word) { return std::popcount(word); }));
  if (inside + entry.added.size() >= trie_->trie().tokens.size() && entry.removed.empty()) {
    std::vector<uint32_t> all = entry.leaf->inside;
    for (const int32_t token : entry.added) {
      all[static_cast<uint32_t>(token) / 32] |= 1U << (static_cast<uint32_t>(token) % 32);
    }
    size_t allowed = 0;
    for (const uint32_t word : all) allowed += static_cast<size_t>(std::popcount(word));
    entry.everything = allowed == trie_->trie().tokens.size();
  }
  return entry;
}

Automaton::Entry Automaton::compute_without_leaf(State state) {
  Entry entry;
  const ByteSet first = machine_->first_bytes(state);
  if (first.count() < kManyBytes) {
    walk(trie_->trie(), 0, state, first, entry.added);
    entry.everything = entry.added.size() == trie_->trie().tokens.size();
    return entry;
  }
  entry.leaf = std::make_shared<const LeafMask>(
      compute_leaf_mask(*machine_, state, trie_->trie(), trie_->mask_words(), false));
  entry_bytes_ += entry.leaf->memory();
  entry.everything = entry.leaf->everything;
  return entry;
}

std::shared_ptr<const LeafMask> Automaton::leaf_mask(Machine& machine, State state) {
  state = machine.mask_class(state, trie_->longest());
  const uint64_t key = machine.shared_key(state);
  if (key != 0) {
    if (auto found = trie_->leaf_masks().find(key)) return found;
  } else if (const auto found = leaves_.find({&machine, state}); found != leaves_.end()) {
    return found->second;
  }
  auto made = std::make_shared<const LeafMask>(
      compute_leaf_mask(machine, state, trie_->trie(), trie_->mask_words(), true));
  if (key != 0) {
    trie_->leaf_masks().insert(key, made);
    return made;
  }
  if (leaf_bytes_ > kMaskBytes) {
    leaves_.clear();
    leaf_bytes_ = 0;
  }
  leaf_bytes_ += made->memory();
  leaves_.emplace(std::pair(&machine, state), made);
  return made;
}

std::string Automaton::path(const LeafMask::Exit& exit) const {
  const int32_t token = trie_->trie().tokens_below(exit.node).front();
  return std::string(trie_->bytes(token).substr(0, exit.depth));
}

void Automaton::add_uniform_exits(State state, Leaf& leaf, Entry& entry) {
  std::ranges::sort(leaf.exceptions);
  for (const LeafMask::ExitGroup& group : entry.leaf->groups) {
    const bool continued = leaf.overlaps && !group.continuations.tokens.empty();
    if (group.suffixes.tokens.empty() && !continued) continue;
    for (const LeafMask::Exit& exit : group.exits) {
      const std::string text = path(exit);
      if (std::ranges::binary_search(leaf.exceptions, text)) continue;
      const State after = read_unlocked(state, text);
      if (after != kDead) {
        const ByteSet first = machine_->first_bytes(after);
        walk(group.suffixes, 0, after, first, entry.added);
        if (continued) walk(group.continuations, 0, after, first, entry.added);
      }
      break;
    }
  }
  if (!entry.leaf->accepts) return;
  ByteSet first = machine_->first_bytes(state);
  for (int byte = 0; byte < 256; ++byte) {
    if (first[byte] && leaf.machine->next(leaf.state, static_cast<uint8_t>(byte)) != kDead) {
      first.reset(byte);
    }
  }
  walk(trie_->trie(), 0, state, first, entry.added);
}

/// Walks every text of the leaf in the outer machine.
void Automaton::add_every_exit(State state, Entry& entry) {
  for (const LeafMask::ExitGroup& group : entry.leaf->groups) {
    for (const LeafMask::Exit& exit : group.exits) {
      const State after = read_unlocked(state, path(exit));
      const auto below = trie_->trie().tokens_below(exit.node);
      entry.removed.insert(entry.removed.end(), below.begin(), below.end());
      if (after == kDead) continue;
      const auto at = trie_->trie().tokens_at(exit.node);
      entry.added_last.insert(entry.added_last.end(), at.begin(), at.end());
      walk(trie_->trie(), exit.node, after, machine_->first_bytes(after), entry.added_last);
    }
  }
}

void Automaton::add_exceptions(State state, const Leaf& leaf, Entry& entry) {
  const ByteTrie& trie = trie_->trie();
  for (const std::string& text : leaf.exceptions) {
    uint32_t node = 0;
    State after = state;
    for (size_t read = 0; read < text.size(); ++read) {
      const std::optional<uint32_t> child = trie.child(node, static_cast<uint8_t>(text[read]));
      if (!child) break;
      node = *child;
      after = after == kDead ? kDead : machine_->next(after, static_cast<uint8_t>(text[read]));
      const bool whole = read + 1 == text.size();
      if (whole) {
        const auto below = trie.tokens_below(node);
        entry.removed.insert(entry.removed.end(), below.begin(), below.end());
      }
      if (after == kDead) continue;
      // The inner machine need not read the beginning of an exception.
      const auto at = trie.tokens_at(node);
      entry.added_last.insert(entry.added_last.end(), at.begin(), at.end());
      if (whole) walk(trie, node, after, machine_->first_bytes(after), entry.added_last);
    }
  }
}

size_t Automaton::settled(State state, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  const ByteTrie& trie = trie_->trie();
  const State behind = read_unlocked(state, bytes);
  const size_t longest = std::min(bytes.size(), static_cast<size_t>(trie_->longest()));
  for (size_t from = bytes.size() - longest; from < bytes.size(); ++from) {
    std::optional<uint32_t> node = 0;
    for (size_t i = from; i < bytes.size() && node; ++i) {
      node = trie.child(*node, static_cast<uint8_t>(bytes[i]));
    }
    if (node && any_below(*node, behind)) return from;
  }
  return bytes.size();
}

bool Automaton::any_below(uint32_t node, State state) {
  constexpr int kMostReads = 4096;
  const ByteTrie& trie = trie_->trie();
  struct Open {
    uint32_t end;
    State state;
  };
  std::vector<Open> open = {{trie.nodes[node].end, state}};
  int reads = 0;
  for (uint32_t i = node + 1; i < trie.nodes[node].end;) {
    while (i >= open.back().end) open.pop_back();
    const ByteTrie::Node& at = trie.nodes[i];
    const State to = machine_->next(open.back().state, at.byte);
    if (to != kDead && !trie.tokens_at(i).empty()) return true;
    if (++reads == kMostReads) return true;
    if (to == kDead) {
      i = at.end;
      continue;
    }
    open.push_back({at.end, to});
    ++i;
  }
  return false;
}

void Automaton::walk(const ByteTrie& trie, uint32_t node, State state, const ByteSet& first,
                     std::vector<int32_t>& tokens) {
  const uint32_t end = trie.nodes[node].end;
  levels_.clear();
  levels_.push_back({end, state, false, first});
  for (uint32_t i = node + 1; i < end;) {
    while (i >= levels_.back().end) levels_.pop_back();
    const ByteTrie::Node& at = trie.nodes[i];
    const Level& level = levels_.back();
    State to = kDead;
    if (level.all || level.bytes[at.byte]) to = machine_->next(level.state, at.byte);
    if (to == kDead) {
      i = at.end;
      continue;
    }
    const auto here = trie.tokens_at(i);
    tokens.insert(tokens.end(), here.begin(), here.end());
    const uint32_t nodes = at.end - i;
    if (nodes >= kManyNodes) {
      levels_.push_back({at.end, to, false, machine_->first_bytes(to)});
    } else if (nodes > 1) {
      levels_.push_back({at.end, to, true, {}});
    }
    ++i;
  }
}

}  // namespace chimere::constraints
