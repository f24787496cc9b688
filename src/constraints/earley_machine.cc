#include "constraints/earley_machine.h"

#include <algorithm>
#include <utility>

#include "constraints/hash.h"

namespace chimere::constraints {
namespace {

using Position = Productions::Position;

uint64_t pair_key(uint32_t a, uint32_t b) { return uint64_t{a} << 32 | b; }

/// State inside a character: the bytes that are missing and the bits read so far. 0: before it.
constexpr uint32_t kMissingShift = 24;

/// One more byte of a character of `ranges`: the state inside it. nullopt: no character of them
/// continues so. 0: the character is complete.
std::optional<uint32_t> read_character(std::span<const Grammar::Range> ranges, uint32_t inside,
                                       uint8_t byte) {
  uint32_t missing = inside >> kMissingShift;
  uint32_t bits = inside & ((1U << kMissingShift) - 1);
  char32_t least = 0;  // of the form that the first byte announces
  if (missing == 0) {
    if (byte < 0x80) {
      bits = byte;
    } else if (byte >= 0xC2 && byte <= 0xDF) {
      missing = 1;
      bits = byte & 0x1FU;
      least = 0x80;
    } else if (byte >= 0xE0 && byte <= 0xEF) {
      missing = 2;
      bits = byte & 0x0FU;
      least = 0x800;
    } else if (byte >= 0xF0 && byte <= 0xF4) {
      missing = 3;
      bits = byte & 0x07U;
      least = 0x10000;
    } else {
      return std::nullopt;
    }
  } else {
    if ((byte & 0xC0U) != 0x80) return std::nullopt;
    bits = bits << 6 | (byte & 0x3FU);
    --missing;
    // Overlong forms: after the second byte of a form, the bits decide.
    if (missing == 1 && bits < (0x800U >> 6)) return std::nullopt;
    if (missing == 2 && bits < (0x10000U >> 12)) return std::nullopt;
  }
  const char32_t first = std::max<char32_t>(bits << (6 * missing), least);
  const char32_t last = (bits << (6 * missing)) | ((1U << (6 * missing)) - 1);
  const auto range = std::ranges::lower_bound(ranges, first, {}, &Grammar::Range::last);
  if (range == ranges.end() || range->first > last) return std::nullopt;
  return missing == 0 ? 0 : missing << kMissingShift | bits;
}

}  // namespace

size_t EarleyMachine::SetHash::operator()(State state) const {
  const Set& set = machine->sets_[state];
  uint64_t hash = set.accepts ? 1 : 0;
  for (uint32_t i = 0; i < set.scans + set.waits; ++i) {
    const Item& item = machine->items_[set.first + i];
    hash = combine(combine(hash, pair_key(item.position, item.count)),
                   pair_key(item.inside, item.origin));
  }
  return hash;
}

bool EarleyMachine::SetEqual::operator()(State a, State b) const {
  const Set& x = machine->sets_[a];
  const Set& y = machine->sets_[b];
  const auto begin = machine->items_.begin();
  return x.scans == y.scans && x.waits == y.waits && x.accepts == y.accepts &&
         std::equal(begin + x.first, begin + x.first + x.scans + x.waits, begin + y.first);
}

EarleyMachine::EarleyMachine(Productions productions)
    : productions_(std::move(productions)),
      interned_(0, SetHash{this}, SetEqual{this}),
      predicted_(productions_.rules.size(), 0) {
  sets_.emplace_back();  // kDead
  begin_set();
  enter(productions_.rules[0].starts[0], kSelf);
  accepts_ = productions_.rules[0].nullable;
  start_ = finish_set();
  has_start_ = !meter_->exhausted();
}

std::span<const EarleyMachine::Item> EarleyMachine::scans(State state) const {
  const Set& set = sets_[state];
  return std::span(items_).subspan(set.first, set.scans);
}

std::span<const EarleyMachine::Item> EarleyMachine::waits(State state) const {
  const Set& set = sets_[state];
  return std::span(items_).subspan(set.first + set.scans, set.waits);
}

std::span<const EarleyMachine::Item> EarleyMachine::waits_for(State state, uint32_t rule) const {
  const auto of_rule = [this](const Item& item) {
    return productions_.positions[item.position].index;
  };
  const auto found = std::ranges::equal_range(waits(state), rule, {}, of_rule);
  return {found.begin(), found.end()};
}

void EarleyMachine::begin_set() {
  made_.clear();
  seen_.clear();
  completed_.clear();
  for (const uint32_t rule : predicted_rules_) predicted_[rule] = 0;
  predicted_rules_.clear();
  completions_.clear();
  accepts_ = false;
}

void EarleyMachine::add(const Item& item) {
  meter_->add(1);
  const auto same = [&](uint32_t i) { return made_[i] == item; };
  const uint64_t hash =
      combine(pair_key(item.position, item.count), pair_key(item.inside, item.origin));
  if (seen_.add(hash, static_cast<uint32_t>(made_.size()), same)) made_.push_back(item);
}

/// Adds the items of a production whose mark is before `position`, and of those behind positions
/// that can be skipped.
void EarleyMachine::enter(uint32_t position, uint32_t origin) {
  for (;; ++position) {
    const Position& at = productions_.positions[position];
    if (at.kind == Position::Kind::kEnd) {
      // A production that has read nothing was skipped where its rule is expected.
      if (origin != kSelf) complete({at.index, origin});
      return;
    }
    add({position, 0, 0, origin});
    if (!at.skippable) return;
  }
}

/// One repetition of the item's position has been read. `from`: the state that the item is in.
void EarleyMachine::advance(Item item, State from) {
  const Position& at = productions_.positions[item.position];
  const uint32_t origin = item.origin == kSelf ? context(from, at.rule) : item.origin;
  const bool unbounded = at.max == Productions::kUnbounded;
  const uint32_t count = unbounded ? std::min(item.count + 1, at.min) : item.count + 1;
  if (unbounded || count < at.max) add({item.position, count, 0, origin});
  if (count >= at.min) enter(item.position + 1, origin);
}

/// The completion that follows from this one where every step has one way: the last of them. The
/// way is no circle: origins are older, and within a set an item that was not predicted waits
/// for the first of the rules that predict one another, besides the last of them.
EarleyMachine::Completion EarleyMachine::last_completion(Completion completion) {
  std::vector<uint64_t> passed;
  for (;;) {
    meter_->add(1);
    const uint64_t key = pair_key(completion.origin, completion.rule);
    if (const Completion* known = shortcuts_.find(key)) {
      completion = *known;
      break;
    }
    const std::span<const Item> waiting = waits_for(completion.origin, completion.rule);
    if (waiting.size() != 1) break;
    const Item item = waiting[0];  // a copy: context() adds items
    const Position& at = productions_.positions[item.position];
    const Position& after = productions_.positions[item.position + 1];
    if (at.max != 1 || after.kind != Position::Kind::kEnd) break;
    const uint32_t origin =
        item.origin == kSelf ? context(completion.origin, at.rule) : item.origin;
    passed.push_back(key);
    completion = {after.index, origin};
  }
  for (const uint64_t key : passed) shortcuts_.insert(key, completion);
  return completion;
}

void EarleyMachine::complete(Completion completion) {
  completion = last_completion(completion);
  const auto same = [&](uint32_t i) { return completions_[i] == completion; };
  const uint64_t hash = mix(pair_key(completion.rule, completion.origin));
  if (completed_.add(hash, static_cast<uint32_t>(completions_.size()), same)) {
    completions_.push_back(completion);
  }
}

State EarleyMachine::finish_set() {
  size_t completed = 0;
  size_t processed = 0;
  while (completed < completions_.size() || processed < made_.size()) {
    if (meter_->exhausted()) return give_up();
    if (completed < completions_.size()) {
      const Completion done = completions_[completed++];
      if (done.rule == 0) {
        accepts_ = true;
        continue;
      }
      const std::span<const Item> waiting = waits_for(done.origin, done.rule);
      const size_t first = static_cast<size_t>(waiting.data() - items_.data());
      const size_t count = waiting.size();
      meter_->add(count);
      // By index: advance() may add the items of a context.
      for (size_t i = first; i < first + count; ++i) advance(items_[i], done.origin);
      continue;
    }
    const Item item = made_[processed++];
    const Position& at = productions_.positions[item.position];
    if (at.kind != Position::Kind::kRule || predicted_[at.index] != 0) continue;
    predicted_[at.index] = 1;
    predicted_rules_.push_back(at.index);
    for (const uint32_t start : productions_.rules[at.index].starts) enter(start, kSelf);
  }
  if (meter_->exhausted()) return give_up();
  if (made_.empty() && !accepts_) return kDead;
  return intern(made_, accepts_);
}

/// The state or context of some items, which are sorted.
State EarleyMachine::intern(std::vector<Item>& made, bool accepts) {
  const auto is_scan = [this](const Item& item) {
    return productions_.positions[item.position].kind == Position::Kind::kTerminal;
  };
  const auto waiting = std::partition(made.begin(), made.end(), is_scan);
  std::sort(made.begin(), waiting);
  std::sort(waiting, made.end(), [this](const Item& a, const Item& b) {
    const uint32_t rule_a = productions_.positions[a.position].index;
    const uint32_t rule_b = productions_.positions[b.position].index;
    return rule_a != rule_b ? rule_a < rule_b : a < b;
  });
  Set set;
  set.first = static_cast<uint32_t>(items_.size());
  set.scans = static_cast<uint32_t>(waiting - made.begin());
  set.waits = static_cast<uint32_t>(made.end() - waiting);
  set.accepts = accepts;
  items_.insert(items_.end(), made.begin(), made.end());
  sets_.push_back(set);
  const auto [found, is_new] = interned_.insert(static_cast<State>(sets_.size() - 1));
  if (!is_new) {
    items_.resize(set.first);
    sets_.pop_back();
  }
  return *found;
}

/// What a rule that begins in `state` (a state or a context) continues when it ends: the items that
/// wait for it, and those that wait for the rules of these as far as they began there, too.
State EarleyMachine::context(State state, uint32_t rule) {
  const uint64_t key = pair_key(state, rule);
  if (const State* known = contexts_.find(key)) return *known;
  std::vector<Item>& items = context_items_;
  std::vector<uint32_t>& rules = context_rules_;
  items.clear();
  rules.assign(1, rule);
  for (size_t i = 0; i < rules.size(); ++i) {
    for (const Item& item : waits_for(state, rules[i])) {
      meter_->add(1);
      items.push_back(item);
      const uint32_t of_item = productions_.positions[item.position].rule;
      if (item.origin == kSelf && std::ranges::find(rules, of_item) == rules.end()) {
        rules.push_back(of_item);
      }
    }
  }
  const State made = intern(items, false);
  contexts_.insert(key, made);
  return made;
}

/// The set took more work than is left: it is forgotten, with the memory that it took.
State EarleyMachine::give_up() {
  made_ = {};
  completions_ = {};
  seen_ = {};
  completed_ = {};
  return kDead;
}

bool EarleyMachine::continues(uint32_t terminal, State inside) {
  const uint64_t key = pair_key(terminal, inside);
  if (const uint8_t* known = continues_.find(key)) return *known != 0;
  Machine& machine = *productions_.terminals[terminal].machine;
  const ByteSet bytes = machine.first_bytes(inside);
  bool found = false;
  for (int byte = 0; byte < 256 && !found; ++byte) {
    found = bytes[byte] && machine.next(inside, static_cast<uint8_t>(byte)) != kDead;
  }
  continues_.insert(key, found ? 1 : 0);
  return found;
}

void EarleyMachine::scan(const Item& item, State from, uint8_t byte) {
  const uint32_t index = productions_.positions[item.position].index;
  const Terminal& terminal = productions_.terminals[index];
  Item moved = item;
  if (moved.origin == kSelf) {
    moved.origin = context(from, productions_.positions[item.position].rule);
  }
  switch (terminal.kind) {
    case Terminal::Kind::kLiteral:
      if (item.inside >= terminal.text.size() ||
          static_cast<uint8_t>(terminal.text[item.inside]) != byte) {
        return;
      }
      if (++moved.inside < terminal.text.size()) return add(moved);
      return advance(item, from);
    case Terminal::Kind::kBytes:
      if (terminal.bytes[byte]) advance(item, from);
      return;
    case Terminal::Kind::kCharacters: {
      const std::optional<uint32_t> inside = read_character(terminal.ranges, item.inside, byte);
      if (!inside) return;
      if (*inside == 0) return advance(item, from);
      moved.inside = *inside;
      return add(moved);
    }
    case Terminal::Kind::kMachine: {
      const State before = item.inside == 0 ? terminal.start : item.inside;
      const State after = terminal.machine->next(before, byte);
      if (after == kDead) return;
      return move_inside(moved, from, after);
    }
  }
}

/// The item's terminal is in the state `inside` of its machine.
void EarleyMachine::move_inside(Item moved, State from, State inside) {
  const uint32_t index = productions_.positions[moved.position].index;
  const bool accepts = productions_.terminals[index].machine->accepts(inside);
  moved.inside = inside;
  if (!accepts || continues(index, inside)) add(moved);
  if (accepts) advance(moved, from);
}

State EarleyMachine::next(State state, uint8_t byte) {
  if (state == kDead) return kDead;
  const uint64_t key = uint64_t{state} << 8 | byte;
  if (const State* known = transitions_.find(key)) return *known;
  if (meter_ == &own_meter_) own_meter_.begin(kWorkPerCall);
  if (meter_->exhausted() || !first_bytes(state)[byte]) return kDead;
  begin_set();
  const Set set = sets_[state];
  for (uint32_t i = 0; i < set.scans; ++i) {
    const Item item = items_[set.first + i];
    scan(item, state, byte);
  }
  const State after = finish_set();
  if (!meter_->exhausted()) transitions_.insert(key, after);
  return after;
}

/// Unlike after a text, what follows has read nothing of it.
State EarleyMachine::after(State state, State accepting) {
  const std::span<const Item> only = scans(state);
  if (only.size() != 1 || meter_->exhausted()) return kDead;
  Item moved = only[0];
  if (moved.origin == kSelf) {
    moved.origin = context(state, productions_.positions[moved.position].rule);
  }
  begin_set();
  move_inside(moved, state, accepting);
  return finish_set();
}

std::optional<Machine::Inner> EarleyMachine::inner(State state) {
  const std::span<const Item> only = scans(state);
  if (only.size() != 1) return std::nullopt;
  const Terminal& terminal = productions_.terminals[productions_.positions[only[0].position].index];
  if (terminal.kind != Terminal::Kind::kMachine) return std::nullopt;
  Inner inner;
  inner.machine = terminal.machine.get();
  inner.state = only[0].inside == 0 ? terminal.start : only[0].inside;
  inner.uniform = true;
  inner.overlaps = !terminal.delimited;
  return inner;
}

ByteSet EarleyMachine::first_bytes(State state) {
  if (first_bytes_.size() <= state) first_bytes_.resize(state + size_t{1});
  std::unique_ptr<ByteSet>& known = first_bytes_[state];
  if (!known) known = std::make_unique<ByteSet>(compute_first_bytes(state));
  return *known;
}

ByteSet EarleyMachine::compute_first_bytes(State state) {
  ByteSet bytes;
  for (const Item& item : scans(state)) {
    const Terminal& terminal = productions_.terminals[productions_.positions[item.position].index];
    if (item.inside == 0) {
      bytes |= terminal.bytes;
    } else if (terminal.kind == Terminal::Kind::kLiteral) {
      bytes.set(static_cast<uint8_t>(terminal.text[item.inside]));
    } else if (terminal.kind == Terminal::Kind::kMachine) {
      bytes |= terminal.machine->first_bytes(item.inside);
    } else {
      for (size_t byte = 0x80; byte < 0xC0; ++byte) bytes.set(byte);
    }
  }
  return bytes;
}

Status EarleyMachine::status() const {
  if (!has_start_) {
    return unsupported("The grammar is too ambiguous: it begins in too many ways at once.");
  }
  for (const Terminal& terminal : productions_.terminals) {
    if (terminal.machine) CHIMERE_CHECK_OK(terminal.machine->status());
  }
  return {};
}

size_t EarleyMachine::memory() const {
  constexpr size_t kNode = 32;  // about what a node of a standard hash table takes
  return productions_.memory() + items_.capacity() * sizeof(Item) +
         sets_.capacity() * (sizeof(Set) + sizeof(ByteSet)) + interned_.size() * kNode +
         transitions_.memory() + shortcuts_.memory() + continues_.memory();
}

}  // namespace chimere::constraints
