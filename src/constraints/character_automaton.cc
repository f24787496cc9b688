#include "constraints/character_automaton.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

#include "constraints/hash.h"

namespace chimere::constraints {
namespace {

constexpr uint32_t kFirstLow = 0xDC00;
constexpr uint32_t kFirstSupplementary = 0x10000;

std::optional<uint32_t> hex_value(uint8_t byte) {
  if (byte >= '0' && byte <= '9') return byte - '0';
  const uint8_t letter = byte | 0x20;
  if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
  return std::nullopt;
}

/// The character of an escape of two bytes.
std::optional<uint32_t> simple_escape(uint8_t byte) {
  switch (byte) {
    case '"':
    case '\\':
    case '/':
      return byte;
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return std::nullopt;
  }
}

/// The characters whose first bits in UTF-8 are `value`, followed by `left` continuation bytes.
/// Values are unambiguous: shorter forms of the same value are not UTF-8.
CodeRange utf8_range(uint32_t value, int left) {
  CodeRange range = {value << 6 * left, (value + 1) << 6 * left};
  --range.last;
  if (value == 0 && left == 2) range.first = 0x800;
  if (value == 0 && left == 3) range.first = kFirstSupplementary;
  range.last = std::min(range.last, kLastCodePoint);
  return range;
}

/// The characters beyond the BMP whose high surrogates are those from `first` to `last`.
CodeRange supplementary(uint32_t first, uint32_t last) {
  return {kFirstSupplementary + ((first - kFirstSurrogate) << 10),
          kFirstSupplementary + ((last - kFirstSurrogate) << 10) + 0x3FF};
}

/// Escapes::kUnusual.
constexpr std::array<CodeRange, 4> kUnusualCharacters = {{
    {0, 0x1F},
    {'"', '"'},
    {'\\', '\\'},
    {0x7F, kLastCodePoint},
}};
/// Escapes::kRequired: those with a short form, and those without.
constexpr std::array<CodeRange, 4> kShortEscapes = {{
    {'\b', '\n'},
    {'\f', '\r'},
    {'"', '"'},
    {'\\', '\\'},
}};
constexpr std::array<CodeRange, 3> kLongEscapes = {{
    {0, '\b' - 1},
    {'\v', '\v'},
    {'\r' + 1, 0x1F},
}};

std::vector<CodeRange> intersection(CodeRange range, std::span<const CodeRange> list) {
  std::vector<CodeRange> out;
  for (const CodeRange& part : list) {
    const CodeRange both = {std::max(part.first, range.first), std::min(part.last, range.last)};
    if (both.first <= both.last) out.push_back(both);
  }
  return out;
}

CodeRange digits_range(uint32_t value, int left) {
  return {value << 4 * left, ((value + 1) << 4 * left) - 1};
}

/// The low surrogates among units that begin with these digits.
CodeRange low_range(uint32_t digits, int left) {
  const CodeRange units = digits_range(digits, left);
  return {std::max(units.first, kFirstLow), std::min(units.last, kLastSurrogate)};
}

}  // namespace

Result<CharacterAutomaton> CharacterAutomaton::create(RegexArena& arena, Regex language,
                                                      uint64_t min, uint64_t max, Form form,
                                                      Escapes escapes) {
  const Error nothing_left = invalid_argument("no text satisfies the pattern and its lengths");
  const RegexArena::Window window = arena.window(language);
  min = std::max<uint64_t>(min, window.min);
  if (window.max != RegexArena::kUnbounded) max = std::min<uint64_t>(max, window.max);
  language = window.language;
  CHIMERE_CHECK_OK(arena.prepare(language));
  if (min > max || min >= RegexArena::kUnbounded) return nothing_left;
  max = std::min<uint64_t>(max, RegexArena::kUnbounded);
  if (const auto lengths = arena.lengths(language)) {
    if (lengths->empty() ||
        !lengths->meets(min, max == RegexArena::kUnbounded ? UINT64_MAX : max)) {
      return nothing_left;
    }
    // Bounds that the language keeps by itself need no counting.
    if (lengths->min() >= min) min = 0;
    if (lengths->max() <= max) max = RegexArena::kUnbounded;
  }
  CHIMERE_TRY(LengthTable table, LengthTable::create(arena, language, min > 0));
  CharacterAutomaton out(arena, std::move(table), form);
  out.language_ = language;
  out.min_ = static_cast<uint32_t>(min);
  out.max_ = static_cast<uint32_t>(max);
  out.escapes_ = escapes;
  if (form == Form::kRaw) {
    out.escapes_ = Escapes::kAll;
  } else if (escapes == Escapes::kAll && arena.is_words(language)) {
    out.escapes_ = Escapes::kUnusual;
  }
  out.bounded_ = min > 0 || max != RegexArena::kUnbounded;
  if (out.bounded_) out.longest_way_ = arena.longest_way(language);
  out.nodes_.emplace_back();
  out.node_index_.emplace(Node(), 0);
  out.states_.emplace_back(0, 0);
  if (!out.meets(language, 0)) return nothing_left;
  const NodeId first =
      out.intern({.kind = form == Form::kJson ? Kind::kStart : Kind::kText, .regex = language});
  out.start_ = out.state_of(first, 0);
  return out;
}

CharacterAutomaton::NodeId CharacterAutomaton::intern(const Node& node) {
  const auto [it, added] = node_index_.try_emplace(node, static_cast<NodeId>(nodes_.size()));
  if (added) nodes_.push_back(node);
  return it->second;
}

State CharacterAutomaton::state_of(NodeId node, uint32_t count) {
  if (node == 0) return kDead;
  if (!bounded_) return node;
  if (nodes_[node].kind == Kind::kClosed) count = 0;
  const auto [it, added] =
      state_index_.try_emplace(uint64_t{node} << 32 | count, static_cast<State>(states_.size()));
  if (added) states_.emplace_back(node, count);
  return it->second;
}

Regex CharacterAutomaton::target(Regex regex, uint32_t code) {
  const auto segments = arena_->segments(regex);
  const auto after = std::ranges::upper_bound(segments, code, {}, &RegexArena::Segment::first);
  const Regex found = std::prev(after)->target;
  return arena_->alive(found) ? found : arena_->none();
}

/// The target that all characters of a range share.
std::optional<Regex> CharacterAutomaton::common_target(Regex regex, CodeRange range) {
  const auto segments = arena_->segments(regex);
  const auto after =
      std::ranges::upper_bound(segments, range.first, {}, &RegexArena::Segment::first);
  if (after != segments.end() && after->first <= range.last) return std::nullopt;
  const Regex found = std::prev(after)->target;
  return arena_->alive(found) ? found : arena_->none();
}

CharacterAutomaton::Step CharacterAutomaton::text(Regex target) {
  if (target == arena_->none()) return {};
  return {intern({.kind = Kind::kText, .regex = target}), true};
}

CharacterAutomaton::Step CharacterAutomaton::after_character(Regex regex, uint32_t code) {
  return text(target(regex, code));
}

CharacterAutomaton::Step CharacterAutomaton::bytes(Regex regex, uint32_t value, int left) {
  if (left == 0) return after_character(regex, value);
  const CodeRange range = utf8_range(value, left);
  const auto common = common_target(regex, range);
  if (common == arena_->none()) return {};
  // Where some continuations are not UTF-8, the bits matter even though the target does not.
  const bool whole = range.last - range.first + 1 == uint32_t{1} << 6 * left;
  const auto rest = static_cast<uint8_t>(left);
  if (common && whole)
    return {intern({.kind = Kind::kTail, .left = rest, .regex = *common}), false};
  return {intern({.kind = Kind::kBytes, .left = rest, .value = value, .regex = regex}), false};
}

CharacterAutomaton::Step CharacterAutomaton::hex(Regex regex, uint32_t value, int left) {
  const CodeRange units = digits_range(value, left);
  const auto rest = static_cast<uint8_t>(left);
  if (escapes_ != Escapes::kAll && escaped(units) != std::vector<CodeRange>{units}) {
    // Some of these characters are not escaped.
    if (left == 0) return {};
  } else if (units.last < kFirstSurrogate || units.first > kLastSurrogate) {
    if (left == 0) return after_character(regex, value);
    const auto common = common_target(regex, units);
    if (common == arena_->none()) return {};
    if (common) return {intern({.kind = Kind::kHexTail, .left = rest, .regex = *common}), false};
  } else if (units.first >= kFirstLow && units.last <= kLastSurrogate) {
    return {};  // a low surrogate without a high one
  } else if (units.first >= kFirstSurrogate && units.last < kFirstLow) {
    const auto common = common_target(regex, supplementary(units.first, units.last));
    if (common == arena_->none()) return {};
    if (common) {
      const auto more = static_cast<uint8_t>(left + 6);
      return {intern({.kind = Kind::kHighTail, .left = more, .regex = *common}), false};
    }
    if (left == 0) {
      return {
          intern(
              {.kind = Kind::kHigh, .left = 6, .value = value - kFirstSurrogate, .regex = regex}),
          false};
    }
  }
  return {intern({.kind = Kind::kHex, .left = rest, .value = value, .regex = regex}), false};
}

CharacterAutomaton::Step CharacterAutomaton::low(Regex regex, uint32_t value, int left) {
  const CodeRange units = low_range(value & 0xFFFF, left);
  if (units.first > units.last) return {};
  const uint32_t base = kFirstSupplementary + (value >> 16 << 10);
  if (left == 0) return after_character(regex, base + (units.first - kFirstLow));
  const auto rest = static_cast<uint8_t>(left);
  const auto common =
      common_target(regex, {base + (units.first - kFirstLow), base + (units.last - kFirstLow)});
  if (common == arena_->none()) return {};
  if (common && left <= 2) {  // the digits that follow are free
    return {intern({.kind = Kind::kHexTail, .left = rest, .regex = *common}), false};
  }
  return {intern({.kind = Kind::kLow, .left = rest, .value = value, .regex = regex}), false};
}

CharacterAutomaton::Step CharacterAutomaton::compute_step(const Node& node, uint8_t byte) {
  const auto rest = static_cast<uint8_t>(node.left - 1);
  const auto shorter = [&](Kind kind) -> Step {
    if (rest == 0) return text(node.regex);
    return {intern({.kind = kind, .left = rest, .regex = node.regex}), false};
  };
  const auto digit = hex_value(byte);
  switch (node.kind) {
    case Kind::kNothing:
    case Kind::kClosed:
      return {};
    case Kind::kStart:
      if (byte != '"') return {};
      return {intern({.kind = Kind::kText, .regex = node.regex}), false};
    case Kind::kText:
      if (form_ != Form::kRaw) {
        if (byte == '"') {
          if (!arena_->accepts(node.regex)) return {};
          return {intern({.kind = Kind::kClosed, .regex = arena_->epsilon()}), false};
        }
        if (byte == '\\') return {intern({.kind = Kind::kEscape, .regex = node.regex}), false};
        if (byte < 0x20) return {};
      }
      if (byte < 0x80) return after_character(node.regex, byte);
      if (byte >= 0xC2 && byte <= 0xDF) return bytes(node.regex, byte & 0x1F, 1);
      if (byte >= 0xE0 && byte <= 0xEF) return bytes(node.regex, byte & 0x0F, 2);
      if (byte >= 0xF0 && byte <= 0xF4) return bytes(node.regex, byte & 0x07, 3);
      return {};
    case Kind::kBytes: {
      if ((byte & 0xC0) != 0x80) return {};
      const uint32_t value = node.value << 6 | (byte & 0x3F);
      const CodeRange allowed = utf8_range(node.value, node.left);
      const uint32_t first = value << 6 * rest;
      if (first + (uint32_t{1} << 6 * rest) <= allowed.first || first > allowed.last) return {};
      return bytes(node.regex, value, rest);
    }
    case Kind::kTail:
      if ((byte & 0xC0) != 0x80) return {};
      return shorter(Kind::kTail);
    case Kind::kEscape:
      if (byte == 'u') return hex(node.regex, 0, 4);
      if (const auto code = simple_escape(byte)) {
        if (short_escaped({*code, *code}).empty()) return {};
        return after_character(node.regex, *code);
      }
      return {};
    case Kind::kHex:
      if (!digit) return {};
      return hex(node.regex, node.value << 4 | *digit, rest);
    case Kind::kHexTail:
      if (!digit) return {};
      return shorter(Kind::kHexTail);
    case Kind::kHigh:
      if (byte != static_cast<uint8_t>(node.left == 6 ? '\\' : 'u')) return {};
      if (node.left == 5) return low(node.regex, node.value << 16, 4);
      return {intern({.kind = Kind::kHigh, .left = 5, .value = node.value, .regex = node.regex}),
              false};
    case Kind::kLow:
      if (!digit) return {};
      return low(node.regex,
                 (node.value & ~uint32_t{0xFFFF}) | ((node.value & 0xFFFF) << 4 | *digit), rest);
    case Kind::kHighTail: {
      // ... X X \ u D [C-F] X X
      const bool fits = node.left == 6   ? byte == '\\'
                        : node.left == 5 ? byte == 'u'
                        : node.left == 4 ? digit == 0xDU
                        : node.left == 3 ? digit >= 0xCU
                                         : digit.has_value();
      return fits ? shorter(Kind::kHighTail) : Step();
    }
  }
  return {};
}

CharacterAutomaton::Step CharacterAutomaton::step(NodeId id, uint8_t byte) {
  uint32_t found = steps_.get(id, byte);
  if (found == LazyRows::kUnknown) {
    const Node node = nodes_[id];
    const Step computed = compute_step(node, byte);
    // Without bounds, a node that no live character continues is found here.
    const bool live = computed.node != 0 && (bounded_ || alive(computed.node, 0));
    found = live ? computed.node << 1 | (computed.counted ? 1 : 0) : 0;
    steps_.set(id, byte, found);
  }
  return {found >> 1, (found & 1) != 0};
}

std::vector<CodeRange> CharacterAutomaton::escaped(CodeRange range) const {
  if (escapes_ == Escapes::kAll) return {range};
  if (escapes_ == Escapes::kUnusual) return intersection(range, kUnusualCharacters);
  return intersection(range, kLongEscapes);
}

std::vector<CodeRange> CharacterAutomaton::short_escaped(CodeRange range) const {
  return escapes_ == Escapes::kRequired ? intersection(range, kShortEscapes) : escaped(range);
}

/// The characters that a node inside a character can still become.
std::vector<CodeRange> CharacterAutomaton::characters(const Node& node) const {
  switch (node.kind) {
    case Kind::kBytes:
      return {utf8_range(node.value, node.left)};
    case Kind::kEscape: {
      std::vector<CodeRange> out = escaped({0, kLastCodePoint});
      if (escapes_ != Escapes::kRequired) return out;
      std::ranges::copy(kShortEscapes, std::back_inserter(out));
      return out;
    }
    case Kind::kHex: {
      const CodeRange units = digits_range(node.value, node.left);
      std::vector<CodeRange> out = escaped(units);  // surrogates lead nowhere
      if (escapes_ == Escapes::kRequired) return out;
      const uint32_t first = std::max(units.first, kFirstSurrogate);
      const uint32_t last = std::min(units.last, kFirstLow - 1);
      if (first <= last) out.push_back(supplementary(first, last));
      return out;
    }
    case Kind::kHigh: {
      const uint32_t unit = node.value + kFirstSurrogate;
      return {supplementary(unit, unit)};
    }
    case Kind::kLow: {
      const CodeRange units = low_range(node.value & 0xFFFF, node.left);
      const uint32_t base = kFirstSupplementary + (node.value >> 16 << 10);
      return {{base + (units.first - kFirstLow), base + (units.last - kFirstLow)}};
    }
    default:
      return {};
  }
}

bool CharacterAutomaton::meets(Regex regex, uint32_t count) {
  if (!arena_->alive(regex)) return false;
  if (!bounded_ || count == kFree) return true;
  if (count > max_) return false;
  const uint64_t high = max_ == RegexArena::kUnbounded ? UINT64_MAX : max_ - count;
  return table_.meets(regex, count < min_ ? min_ - count : 0, high);
}

/// Whether the text can still be completed.
bool CharacterAutomaton::alive(NodeId id, uint32_t count) {
  const Node node = nodes_[id];
  const uint32_t after = bounded_ && count != kFree ? count + 1 : count;
  switch (node.kind) {
    case Kind::kNothing:
      return false;
    case Kind::kClosed:
      return true;
    case Kind::kStart:
    case Kind::kText:
      return meets(node.regex, count);
    case Kind::kTail:
    case Kind::kHexTail:
    case Kind::kHighTail:
      return meets(node.regex, after);
    default:
      break;
  }
  for (const CodeRange& range : characters(node)) {
    std::vector<Regex> targets;
    const auto segments = arena_->segments(node.regex);
    auto it =
        std::prev(std::ranges::upper_bound(segments, range.first, {}, &RegexArena::Segment::first));
    for (; it != segments.end() && it->first <= range.last; ++it) targets.push_back(it->target);
    if (std::ranges::any_of(targets, [&](Regex regex) { return meets(regex, after); })) return true;
  }
  return false;
}

State CharacterAutomaton::next(State state, uint8_t byte) {
  if (!bounded_) return step(state, byte).node;
  const uint32_t found = rows_.get(state, byte);
  if (found != LazyRows::kUnknown) return found;
  const auto [node, count] = states_[state];
  const Step done = step(node, byte);
  State out = kDead;
  if (done.node != 0) {
    uint32_t after = count;
    // Where nothing bounds the length from above, counting ends at the lower bound.
    if (done.counted && count != kFree && (max_ != RegexArena::kUnbounded || count < min_)) ++after;
    const bool closes = nodes_[done.node].kind == Kind::kClosed;
    if (closes ? count >= min_ : alive(done.node, after)) out = state_of(done.node, after);
  }
  rows_.set(state, byte, out);
  return out;
}

bool CharacterAutomaton::accepts(State state) const {
  if (state == kDead) return false;
  const auto [node, count] = bounded_ ? states_[state] : std::pair<NodeId, uint32_t>(state, kFree);
  if (form_ != Form::kRaw) return nodes_[node].kind == Kind::kClosed;
  return nodes_[node].kind == Kind::kText && count >= min_ && arena_->accepts(nodes_[node].regex);
}

ByteSet CharacterAutomaton::first_bytes(State state) {
  ByteSet out;
  const auto add = [&](uint32_t first, uint32_t last) {
    for (uint32_t byte = first; byte <= last; ++byte) out.set(byte);
  };
  const Node node = nodes_[bounded_ ? states_[state].first : state];
  switch (node.kind) {
    case Kind::kNothing:
    case Kind::kClosed:
      break;
    case Kind::kStart:
      out.set('"');
      break;
    case Kind::kText: {
      const auto segments = arena_->segments(node.regex);
      bool escapes = false;
      for (size_t i = 0; i < segments.size(); ++i) {
        if (segments[i].target == arena_->none()) continue;
        const uint32_t end = i + 1 < segments.size() ? segments[i + 1].first : kLastCodePoint + 1;
        if (segments[i].first < 0x80) add(segments[i].first, std::min(end, 0x80U) - 1);
        if (end > 0x80) add(0xC2, 0xF4);
        const CodeRange range = {segments[i].first, end - 1};
        escapes = escapes || !escaped(range).empty() || !short_escaped(range).empty();
      }
      if (form_ != Form::kRaw) {
        out.set('"', arena_->accepts(node.regex));
        out.set('\\', escapes);
      }
      break;
    }
    case Kind::kBytes:
    case Kind::kTail:
      add(0x80, 0xBF);
      break;
    default:
      out.set();
  }
  return out;
}

State CharacterAutomaton::mask_class(State state, int32_t longest) {
  if (!bounded_ || state == kDead) return state;
  const auto [node, count] = states_[state];
  if (count == kFree || nodes_[node].kind == Kind::kClosed) return state;
  const auto reach = static_cast<uint64_t>(std::max(longest, 0)) + 1;
  if (count >= min_) {
    if (max_ == RegexArena::kUnbounded) return state_of(node, kFree);
    // Every text of this length still leaves room for the way to an end.
    const bool far = longest_way_ && count + reach + *longest_way_ <= max_;
    return far ? state_of(node, kFree) : state;
  }
  const bool far = language_ == arena_->any() && min_ - count > reach;
  return far ? state_of(node, static_cast<uint32_t>(min_ - reach)) : state;
}

CharacterClasses CharacterAutomaton::stays(State state, int32_t length) {
  if (state == kDead) return 0;
  const auto [id, count] = bounded_ ? states_[state] : std::pair<NodeId, uint32_t>(state, kFree);
  const Regex regex = nodes_[id].regex;
  if (nodes_[id].kind != Kind::kText || regex == arena_->none()) return 0;
  // The looping characters themselves fill up a text that is too short.
  const bool reaches_max =
      count != kFree && max_ != RegexArena::kUnbounded &&
      (!longest_way_ || count + static_cast<uint64_t>(length) + *longest_way_ > max_);
  if (reaches_max) return 0;
  // Counting changes what a raw text accepts.
  if (form_ == Form::kRaw && count != kFree && count < min_) return 0;
  CharacterClasses classes = kNonAsciiClass;
  for (size_t i = 0; i < kAsciiClasses.size(); ++i) {
    classes |= static_cast<CharacterClasses>(1U << i);
  }
  // What is searched for may begin anywhere.
  if (form_ != Form::kRaw && arena_->open_ended(regex)) return classes;
  const auto segments = arena_->segments(regex);
  for (size_t i = 0; i < segments.size(); ++i) {
    if (segments[i].target == regex) continue;
    const uint32_t first = segments[i].first;
    const uint32_t last =
        (i + 1 < segments.size() ? segments[i + 1].first : kLastCodePoint + 1) - 1;
    for (uint32_t code = first; code <= last && code < 0x80; ++code) {
      classes &= static_cast<CharacterClasses>(~kClassOfAscii[code]);
    }
    const bool surrogates = first >= kFirstSurrogate && last <= kLastSurrogate;
    if (last >= 0x80 && !surrogates) classes &= static_cast<CharacterClasses>(~kNonAsciiClass);
  }
  return classes;
}

uint64_t CharacterAutomaton::shared_key(State state) const {
  if (state == kDead) return 0;
  const auto [id, count] = bounded_ ? states_[state] : std::pair<NodeId, uint32_t>(state, kFree);
  const Node& node = nodes_[id];
  constexpr uint64_t kJsonString = 0x4A53;  // keys of other machines begin with another number
  constexpr uint64_t kText = 0x7E87;
  if (node.kind == Kind::kClosed) return combine(kJsonString, static_cast<uint64_t>(node.kind));
  uint64_t key = combine((form_ == Form::kRaw ? kText : kJsonString) << 16 |
                             static_cast<uint64_t>(node.kind) << 8 | node.left,
                         uint64_t{node.value} << 2 | static_cast<uint64_t>(escapes_));
  key = combine(key, arena_->fingerprint(node.regex));
  if (count == kFree) return key;
  // What is left of the bounds counts.
  key = combine(key, min_ > count ? min_ - count : 0);
  return combine(key, max_ == RegexArena::kUnbounded ? UINT64_MAX : max_ - count);
}

size_t CharacterAutomaton::memory() const {
  return sizeof(*this) + nodes_.capacity() * sizeof(Node) + node_index_.size() * 48 +
         states_.capacity() * sizeof(states_[0]) + state_index_.size() * 40 + steps_.memory() +
         rows_.memory() + table_.memory();
}

}  // namespace chimere::constraints
