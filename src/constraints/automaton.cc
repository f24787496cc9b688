#include "constraints/automaton.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "constraints/leaf_masks.h"
#include "constraints/white_space.h"

namespace chimere::constraints {
namespace {

/// Cached masks beyond this are dropped and computed again when they are needed.
constexpr size_t kMaskBytes = size_t{64} << 20;
/// States beyond this are an error of the request.
constexpr size_t kStateBytes = size_t{512} << 20;
/// Parts that follow one another, each of which may end at once, before the rest is walked.
constexpr int kMostFollowing = 8;
/// Machines inside of one another that are looked into.
constexpr int kInnerDepth = 8;
/// Subtrees of at least this many nodes are worth a call of first_bytes().
constexpr uint32_t kManyNodes = 32;
/// States that read at least this many bytes are walked with their transitions in rows.
constexpr size_t kManyBytes = 24;

uint64_t shared_mask_key(uint64_t key, uint32_t node) { return combine(key, uint64_t{node}); }

}  // namespace

Automaton::Automaton(std::unique_ptr<Machine> machine, std::shared_ptr<const TokenTrie> trie)
    : machine_(std::move(machine)), trie_(std::move(trie)) {
  machine_->count_work(meter_);
}

Automaton::Call::Call(Automaton& automaton, WorkBudget& budget)
    : automaton_(automaton), budget_(budget), lock_(automaton.mutex_), scope_(automaton.meter_) {
  automaton_.meter_.begin(budget.next_call());
}

State Automaton::start() {
  const std::lock_guard lock(mutex_);
  return machine_->start();
}

State Automaton::read(State state, std::string_view bytes, WorkBudget& budget) {
  const Call call(*this, budget);
  return read_unlocked({machine_.get(), state}, bytes);
}

State Automaton::read(State state, std::string_view bytes, StateFacts& facts, WorkBudget& budget) {
  const Call call(*this, budget);
  const State after = read_unlocked({machine_.get(), state}, bytes);
  if (after != kDead) facts = facts_unlocked(after);
  return after;
}

StateFacts Automaton::facts(State state, WorkBudget& budget) {
  const Call call(*this, budget);
  return facts_unlocked(state);
}

StateFacts Automaton::facts_unlocked(State state) {
  if (const StateFacts* known = facts_.find(state)) return *known;
  StateFacts facts;
  facts.accepts = machine_->accepts(state);
  if (facts.accepts) {
    const ByteSet bytes = machine_->first_bytes(state);
    facts.ends = true;
    for (int byte = 0; byte < 256 && facts.ends; ++byte) {
      facts.ends = !bytes[byte] || machine_->next(state, static_cast<uint8_t>(byte)) == kDead;
    }
  } else {
    facts.forced = !forced_unlocked(state, 1, false).empty();
    facts.expected = facts.forced || !forced_unlocked(state, 1, true).empty();
  }
  if (!meter_.exhausted()) facts_.insert(state, facts);
  return facts;
}

State Automaton::read_unlocked(Outer outer, std::string_view bytes) {
  for (const char c : bytes) {
    if (outer.state == kDead) break;
    outer.state = outer.machine->next(outer.state, static_cast<uint8_t>(c));
  }
  return outer.state;
}

std::string Automaton::forced(State state, size_t limit, bool habitual, WorkBudget& budget) {
  const Call call(*this, budget);
  return forced_unlocked(state, limit, habitual);
}

std::string Automaton::forced_unlocked(State state, size_t limit, bool habitual) {
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

namespace {

void set_token(std::span<uint32_t> mask, int32_t token) {
  mask[static_cast<uint32_t>(token) / 32] |= 1U << (static_cast<uint32_t>(token) % 32);
}

void clear_token(std::span<uint32_t> mask, int32_t token) {
  mask[static_cast<uint32_t>(token) / 32] &= ~(1U << (static_cast<uint32_t>(token) % 32));
}

}  // namespace

/// `fresh`: the mask is not filled yet.
void Automaton::apply(const Entry& entry, bool fresh, std::span<uint32_t> mask) {
  const bool dense = entry.leaf && !entry.leaf->bits.empty();
  if (dense && fresh) {
    std::ranges::copy(entry.leaf->bits, mask.begin());
  } else if (dense) {
    for (size_t i = 0; i < mask.size(); ++i) mask[i] |= entry.leaf->bits[i];
  } else if (fresh) {
    std::ranges::fill(mask, 0);
  }
  if (entry.leaf) {
    for (const int32_t token : entry.leaf->tokens) set_token(mask, token);
  }
  for (const auto& part : entry.parts) {
    for (size_t i = 0; i < part->bits.size(); ++i) mask[i] |= part->bits[i];
    for (const int32_t token : part->tokens) set_token(mask, token);
  }
  for (const int32_t token : entry.added) set_token(mask, token);
  for (const int32_t token : entry.removed) clear_token(mask, token);
  for (const int32_t token : entry.added_last) set_token(mask, token);
  if (entry.after) apply(*entry.after, false, mask);
}

void Automaton::mask_of_end(std::span<uint32_t> mask) const {
  std::ranges::fill(mask, 0);
  for (const int32_t token : trie_->end_tokens()) set_token(mask, token);
}

Status Automaton::mask(State state, std::span<uint32_t> mask, WorkBudget& budget) {
  if (state == kDead) {
    mask_of_end(mask);
    return {};
  }
  const Call call(*this, budget);
  constexpr uint32_t kMasksBetweenCounts = 64;
  CHIMERE_CHECK_OK(status_unlocked(++unchecked_ >= kMasksBetweenCounts));
  const size_t entries = entries_.size();
  const EntryPointer entry = this->entry({machine_.get(), state});
  CHIMERE_CHECK_OK(status_unlocked(entries_.size() != entries));
  apply(*entry, true, mask);
  if (machine_->accepts(state)) {
    for (const int32_t token : trie_->end_tokens()) set_token(mask, token);
  }
  const bool none = std::ranges::all_of(mask, [](uint32_t word) { return word == 0; });
  if (none && !meter_.exhausted()) return no_token(state);
  return {};
}

Error Automaton::no_token(State state) {
  constexpr size_t kMostListed = 4;
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  const ByteSet first = machine_->first_bytes(state);
  std::string bytes;
  size_t listed = 0;
  for (size_t byte = 0; byte < 256; ++byte) {
    if (!first[byte] || machine_->next(state, static_cast<uint8_t>(byte)) == kDead) continue;
    if (listed++ == kMostListed) {
      bytes += ", ...";
      break;
    }
    bytes += listed == 1 ? "0x" : ", 0x";
    bytes += {kDigits[byte / 16], kDigits[byte % 16]};
  }
  return unsupported(
      "The constraint of this request leads to a text that the vocabulary of this model cannot "
      "write: none of its tokens can follow" +
      (bytes.empty() ? "" : ", where the next byte may be " + bytes) +
      ". Use a model with a token for each byte, or other texts.");
}

bool Automaton::unconstrained(State state, WorkBudget& budget) {
  const Call call(*this, budget);
  return state != kDead && status_unlocked(false).ok() &&
         entry({machine_.get(), state})->everything;
}

Status Automaton::status() {
  const std::lock_guard lock(mutex_);
  return status_unlocked(true);
}

Status Automaton::status_unlocked(bool all) {
  if (all) {
    unchecked_ = 0;
    too_large_ = too_large_ || machine_->memory() + facts_.memory() > kStateBytes;
  }
  if (too_large_) {
    return out_of_memory(
        "The constraint of this request needs more memory than a constraint may take: its text has "
        "too many different states.");
  }
  return machine_->status();
}

size_t Automaton::memory() {
  const std::lock_guard lock(mutex_);
  return sizeof(*this) + machine_->memory() + entry_bytes_ + leaf_bytes_ + facts_.memory();
}

size_t Automaton::Entry::memory() const {
  return sizeof(Entry) + 64 + parts.capacity() * sizeof(parts[0]) +
         (added.capacity() + removed.capacity() + added_last.capacity()) * sizeof(int32_t);
}

void Automaton::drop_if_large() {
  if (entry_bytes_ <= kMaskBytes) return;
  entries_.clear();
  tails_.clear();
  entry_bytes_ = 0;
}

Automaton::EntryPointer Automaton::entry(Outer outer) {
  outer.state = outer.machine->mask_class(outer.state, trie_->longest());
  const Key key(outer.machine, outer.state);
  const auto found = entries_.find(key);
  if (found != entries_.end()) return found->second;
  // Where nothing else is allowed, the machine inside says all.
  if (const auto inner = outer.machine->inner(outer.state); inner && inner->last) {
    if (inner->machine != outer.machine) return entry({inner->machine, inner->state});
  }
  drop_if_large();
  auto made = std::make_shared<const Entry>(compute(outer));
  if (meter_.exhausted()) return made;
  entry_bytes_ += made->memory();
  entries_.emplace(key, made);
  return made;
}

std::optional<Automaton::Leaf> Automaton::leaf_of(Outer outer) {
  std::optional<Machine::Inner> inner = outer.machine->inner(outer.state);
  if (!inner) return std::nullopt;
  Leaf leaf;
  for (int depth = 0; inner && depth < kInnerDepth; ++depth) {
    leaf.machine = inner->machine;
    leaf.state = inner->state;
    leaf.uniform = leaf.uniform && inner->uniform;
    leaf.overlaps = leaf.overlaps || inner->overlaps;
    leaf.direct = depth == 0;
    leaf.compares = leaf.compares || inner->compares;
    std::ranges::move(inner->exceptions, std::back_inserter(leaf.exceptions));
    inner = leaf.machine->inner(leaf.state);
  }
  std::ranges::sort(leaf.exceptions);
  return leaf;
}

Automaton::Entry Automaton::compute(Outer outer) {
  const std::optional<Leaf> leaf = leaf_of(outer);
  // Where what follows may have read a part of the leaf's text, one text does not stand for others.
  if (!leaf || leaf->overlaps || (!leaf->uniform && leaf->machine->accepts(leaf->state))) {
    return compute_without_leaf(outer);
  }
  Entry entry;
  entry.leaf = leaf_mask(*leaf, {});
  if (entry.leaf->everything) {
    entry.everything = true;
    return entry;
  }
  if (!entry.leaf->groups_known) return compute_without_leaf(outer);
  if (leaf->uniform) {
    add_uniform_exits(outer, *leaf, *entry.leaf, {}, entry);
    if (entry.leaf->accepts) add_what_follows(outer, *leaf, entry);
  } else {
    add_every_exit(outer, entry);
  }
  add_exceptions(outer, *leaf, {}, entry);
  entry.everything = allows_everything(entry);
  return entry;
}

bool Automaton::allows_everything(const Entry& entry) const {
  // Most masks are not: the long way is taken seldom.
  if (!entry.leaf || entry.leaf->bits.empty() || !entry.removed.empty()) return false;
  std::vector<uint32_t> mask(trie_->mask_words());
  apply(entry, true, mask);
  return std::ranges::equal(mask, trie_->all());
}

Automaton::Entry Automaton::compute_without_leaf(Outer outer) {
  Entry entry;
  const ByteSet first = outer.machine->first_bytes(outer.state);
  if (first.count() < kManyBytes) {
    walk(trie_->trie(), 0, outer, first, entry.added, &entry);
    entry.everything = entry.added.size() == trie_->trie().tokens.size();
    return entry;
  }
  uint64_t key = outer.machine->shared_key(outer.state);
  if (key != 0) key = shared_mask_key(key, 0);
  entry.leaf = key != 0 ? trie_->leaf_masks().find(key) : nullptr;
  if (!entry.leaf) {
    entry.leaf = std::make_shared<const LeafMask>(
        compute_leaf_mask(*outer.machine, outer.state, *trie_, {},
                          key != 0 ? LeafExits::kGroups : LeafExits::kNone, meter_));
    if (meter_.exhausted()) return entry;
    if (key != 0) trie_->leaf_masks().insert(key, entry.leaf, entry.leaf->memory());
    entry_bytes_ += entry.leaf->memory();
  }
  entry.everything = entry.leaf->everything;
  return entry;
}

std::shared_ptr<const LeafMask> Automaton::leaf_mask(const Leaf& leaf, TriePosition position) {
  Machine& machine = *leaf.machine;
  const State state = machine.mask_class(leaf.state, trie_->longest());
  uint64_t key = machine.shared_key(state);
  const std::tuple own(&machine, state, position.node);
  if (key != 0) {
    key = shared_mask_key(key, position.node);
    if (auto found = trie_->leaf_masks().find(key)) return found;
  } else if (const auto found = leaves_.find(own); found != leaves_.end()) {
    return found->second;
  }
  auto made = std::make_shared<const LeafMask>(
      compute_leaf_mask(machine, state, *trie_, position, LeafExits::kGroups, meter_));
  if (meter_.exhausted()) return made;
  if (key != 0) {
    trie_->leaf_masks().insert(key, made, made->memory());
    return made;
  }
  if (leaf_bytes_ > kMaskBytes) {
    leaves_.clear();
    leaf_bytes_ = 0;
  }
  leaf_bytes_ += made->memory();
  leaves_.emplace(own, made);
  return made;
}

/// The bytes that lead to an exit from behind the position.
std::string_view Automaton::path(const LeafMask::Exit& exit, TriePosition position) const {
  const int32_t token = trie_->trie().tokens_below(exit.node).front();
  return trie_->bytes(token).substr(position.depth, exit.depth - position.depth);
}

std::shared_ptr<const TailSet> Automaton::tails(Outer outer) {
  const Key key(outer.machine, outer.state);
  if (const auto found = tails_.find(key); found != tails_.end()) return found->second;
  std::vector<int32_t> numbers;
  const ByteSet first = outer.machine->first_bytes(outer.state);
  walk(trie_->quotes().tails, 0, outer, first, numbers);
  auto made = std::make_shared<TailSet>(trie_->quotes().words());
  if (meter_.exhausted()) return made;
  for (const int32_t number : numbers) {
    const auto bit = static_cast<uint32_t>(number);
    (*made)[bit / 64] |= uint64_t{1} << (bit % 64);
  }
  entry_bytes_ += made->size() * sizeof(uint64_t) + 96;
  tails_.emplace(key, made);
  return made;
}

void Automaton::add_tails(Outer outer, const Leaf& leaf, const LeafMask::ExitGroup& group,
                          State after, TriePosition position, Entry& entry) {
  if (group.tails.empty()) return;
  const QuoteTable& quotes = trie_->quotes();
  const std::shared_ptr<const TailSet> allowed = tails({outer.machine, after});
  for (size_t i = 0; i < group.tails.size(); ++i) {
    for (uint64_t bits = group.tails[i] & (*allowed)[i]; bits != 0; bits &= bits - 1) {
      const size_t number = i * 64 + static_cast<size_t>(std::countr_zero(bits));
      const int32_t token = quotes.tokens[number];
      // A whole string behind the leaf may be compared with it.
      const bool compared = leaf.compares && quotes.has_strings(number);
      if (compared && read_unlocked(outer, trie_->bytes(token).substr(position.depth)) == kDead) {
        continue;
      }
      entry.added.push_back(token);
    }
  }
}

/// The outer machine's state after the shortest text of the group that is no exception, which will
/// do for all. kDead: there is none.
State Automaton::after_exits(Outer outer, const Leaf& leaf, const LeafMask::ExitGroup& group,
                             TriePosition position) {
  const LeafMask::Exit* shortest = nullptr;
  for (const LeafMask::Exit& exit : group.exits) {
    if (shortest != nullptr && shortest->depth <= exit.depth) continue;
    const std::string_view text = path(exit, position);
    if (std::ranges::binary_search(leaf.exceptions, text)) continue;
    shortest = &exit;
  }
  return shortest == nullptr ? kDead : read_unlocked(outer, path(*shortest, position));
}

void Automaton::add_uniform_exits(Outer outer, const Leaf& leaf, const LeafMask& mask,
                                  TriePosition position, Entry& entry) {
  for (const LeafMask::ExitGroup& group : mask.groups) {
    if (group.tails.empty() && group.suffixes.tokens.empty()) continue;
    State after = kDead;
    if (leaf.direct) after = outer.machine->after(outer.state, group.state);
    if (after == kDead) after = after_exits(outer, leaf, group, position);
    if (after == kDead) continue;
    add_tails(outer, leaf, group, after, position, entry);
    if (group.suffixes.tokens.empty()) continue;
    const ByteSet first = outer.machine->first_bytes(after);
    walk(group.suffixes, 0, {outer.machine, after}, first, entry.added);
  }
}

/// What may follow the leaf, which accepts.
void Automaton::add_what_follows(Outer outer, const Leaf& leaf, Entry& entry) {
  if (leaf.direct) {
    const State after = outer.machine->after(outer.state, leaf.state);
    // What follows may end, too, and lead back to where it began.
    if (after != kDead && following_ < kMostFollowing) {
      ++following_;
      entry.after = this->entry({outer.machine, after});
      --following_;
      return;
    }
  }
  ByteSet first = outer.machine->first_bytes(outer.state);
  for (int byte = 0; byte < 256; ++byte) {
    if (first[byte] && leaf.machine->next(leaf.state, static_cast<uint8_t>(byte)) != kDead) {
      first.reset(byte);
    }
  }
  walk(trie_->trie(), 0, outer, first, entry.added);
}

/// Walks every text of the leaf in the outer machine.
void Automaton::add_every_exit(Outer outer, Entry& entry) {
  const ByteTrie& trie = trie_->trie();
  for (const LeafMask::Exit& exit : entry.leaf->exits) {
    const State after = read_unlocked(outer, path(exit, {}));
    const auto below = trie.tokens_below(exit.node);
    entry.removed.insert(entry.removed.end(), below.begin(), below.end());
    if (after == kDead) continue;
    const auto at = trie.tokens_at(exit.node);
    entry.added_last.insert(entry.added_last.end(), at.begin(), at.end());
    if (below.size() == at.size()) continue;
    walk(trie, exit.node, {outer.machine, after}, outer.machine->first_bytes(after),
         entry.added_last);
  }
}

void Automaton::add_exceptions(Outer outer, const Leaf& leaf, TriePosition position, Entry& entry) {
  const ByteTrie& trie = trie_->trie();
  for (const std::string& text : leaf.exceptions) {
    uint32_t node = position.node;
    State after = outer.state;
    for (size_t read = 0; read < text.size(); ++read) {
      const std::optional<uint32_t> child = trie.child(node, static_cast<uint8_t>(text[read]));
      if (!child) break;
      node = *child;
      after = after == kDead ? kDead : outer.machine->next(after, static_cast<uint8_t>(text[read]));
      const bool whole = read + 1 == text.size();
      if (whole) {
        const auto below = trie.tokens_below(node);
        entry.removed.insert(entry.removed.end(), below.begin(), below.end());
      }
      if (after == kDead) continue;
      // The inner machine need not read the beginning of an exception.
      const auto at = trie.tokens_at(node);
      entry.added_last.insert(entry.added_last.end(), at.begin(), at.end());
      if (whole) {
        walk(trie, node, {outer.machine, after}, outer.machine->first_bytes(after),
             entry.added_last);
      }
    }
  }
}

std::vector<size_t> Automaton::last_boundaries(State state, std::string_view bytes,
                                               WorkBudget& budget) {
  const Call call(*this, budget);
  const ByteTrie& trie = trie_->trie();
  const State behind = read_unlocked({machine_.get(), state}, bytes);
  const size_t longest = std::min(bytes.size(), static_cast<size_t>(trie_->longest()));
  std::vector<size_t> boundaries;
  for (size_t from = bytes.size() - longest; from < bytes.size(); ++from) {
    std::optional<uint32_t> node = 0;
    for (size_t i = from; i < bytes.size() && node; ++i) {
      node = trie.child(*node, static_cast<uint8_t>(bytes[i]));
    }
    if (node && any_below(*node, behind)) boundaries.push_back(from);
  }
  boundaries.push_back(bytes.size());
  return boundaries;
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

bool Automaton::add_part(Outer outer, TriePosition position, Entry& entry) {
  const std::optional<Leaf> leaf = leaf_of(outer);
  if (!leaf || !leaf->uniform || leaf->overlaps || leaf->machine->accepts(leaf->state)) {
    return false;
  }
  std::shared_ptr<const LeafMask> mask = leaf_mask(*leaf, position);
  if (!mask->groups_known) return false;
  add_uniform_exits(outer, *leaf, *mask, position, entry);
  add_exceptions(outer, *leaf, position, entry);
  entry.parts.push_back(std::move(mask));
  return true;
}

void Automaton::walk(const ByteTrie& trie, uint32_t node, Outer outer, const ByteSet& first,
                     std::vector<int32_t>& tokens, Entry* entry) {
  const uint32_t end = trie.nodes[node].end;
  const size_t base = levels_.size();
  levels_.push_back({end, outer.state, false, first});
  NodeCount visited(meter_);
  for (uint32_t i = node + 1; i < end;) {
    if (!visited.add()) break;
    while (i >= levels_.back().end) levels_.pop_back();
    const ByteTrie::Node& at = trie.nodes[i];
    State to = kDead;
    {
      const Level& level = levels_.back();
      if (level.all || level.bytes[at.byte]) to = outer.machine->next(level.state, at.byte);
    }
    if (to == kDead) {
      i = at.end;
      continue;
    }
    const auto here = trie.tokens_at(i);
    tokens.insert(tokens.end(), here.begin(), here.end());
    const uint32_t nodes = at.end - i;
    if (nodes >= kManyNodes) {
      const auto depth = static_cast<uint32_t>(levels_.size() - base);
      if (entry != nullptr && add_part({outer.machine, to}, {i, depth}, *entry)) {
        i = at.end;
        continue;
      }
      levels_.push_back({at.end, to, false, outer.machine->first_bytes(to)});
    } else if (nodes > 1) {
      levels_.push_back({at.end, to, true, {}});
    }
    ++i;
  }
  levels_.resize(base);
}

}  // namespace chimere::constraints
