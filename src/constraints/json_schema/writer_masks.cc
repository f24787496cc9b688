// What token masks ask of the states of a document.
#include <algorithm>
#include <bit>
#include <string>
#include <string_view>
#include <utility>

#include "constraints/json_schema/writer.h"

namespace chimere::constraints::json_schema {

namespace {

/// What follows `depth` bytes of a key in its shortest form, with the closing quote.
/// The bytes before may end inside of a character.
std::string rest_of_key(std::string_view key, size_t depth) {
  constexpr std::string_view kShort = "\"\\\b\f\n\r\t";
  constexpr std::string_view kLetters = "\"\\bfnrt";
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const char c : key.substr(depth)) {
    const auto byte = static_cast<uint8_t>(c);
    if (const size_t at = kShort.find(c); at != std::string_view::npos) {
      out += '\\';
      out += kLetters[at];
    } else if (byte < 0x20) {
      out += "\\u00";
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace

std::optional<Machine::Inner> Writer::inner(State state) {
  const Place place = places_[state];
  Inner out;
  if (place.kind == Kind::kString || place.kind == Kind::kNumber) {
    return inner_of_value(place);
  }
  if (place.kind == Kind::kKey && place.b != kDead) return inner_of_key(place);
  if (place.kind != Kind::kOpenKey) return std::nullopt;
  out.machine = &leaves_->string_body().with_quote();
  out.state = place.a;
  const KeyOptions& options = frames_->key_options(place.frame);
  // Names that continue after half an escape cannot be listed; those that a token writes with
  // escapes of its own are not.
  out.uniform = options.uniform && add_special(place.c, options.special, out);
  return out;
}

bool Writer::add_special(uint32_t text, const std::vector<Symbol>& keys, Inner& inner) {
  if (keys.empty()) return true;
  const auto read = decode_json_string(texts_.text(text));
  if (!read) return false;
  const auto less = [&](Symbol key, const std::string& name) { return values_.text(key) < name; };
  for (auto it = std::lower_bound(keys.begin(), keys.end(), *read, less);
       it != keys.end() && values_.text(*it).starts_with(*read); ++it) {
    inner.exceptions.push_back(rest_of_key(values_.text(*it), read->size()));
  }
  return true;
}

Machine::Inner Writer::inner_of_value(const Place& place) {
  const ValueStart& begin = frames_->start(place.frame);
  const bool string = place.kind == Kind::kString;
  const UnionMachine* const all = string ? begin.string_union : begin.number_union;
  // Where one part of a union is left, it is the machine.
  const uint32_t alive = all != nullptr ? all->alive(place.a) : 0;
  Inner out;
  if (all != nullptr && std::has_single_bit(alive)) {
    out = all->part(place.a, static_cast<size_t>(std::countr_zero(alive)));
  } else {
    out.machine = string ? begin.strings : begin.numbers;
    out.state = place.a;
  }
  out.uniform = place.c == kNone;
  if (!out.uniform && string) out.uniform = compared_uniformly(place, out);
  return out;
}

/// Whether a string that is kept for comparisons with other values, unless it is one of a few, has
/// no influence on what may follow it. Adds these to the exceptions.
bool Writer::compared_uniformly(const Place& place, Inner& inner) {
  constexpr size_t kMostValues = 200;
  constexpr uint64_t kManyCharacters = 1'000;
  const ValueStart& begin = frames_->start(place.frame);
  if (!frames_->keeps_value(place.frame) || begin.string_goals == kNone) return false;
  for (const auto& [goal, alternatives] : begin.goals) {
    for (const StringSet& set : alternatives->strings) {
      if (set.language != arena_.any() || set.min > kManyCharacters || set.max < kManyCharacters) {
        return false;
      }
    }
  }
  const auto read = decode_json_string(std::string_view(texts_.text(place.c)).substr(1));
  if (!read) return false;
  // Texts inside of all values that are compared.
  std::vector<ValueId> queue;
  for (FrameId frame = place.frame; frames_->keeps_value(frame); frame = (*frames_)[frame].parent) {
    if (frames_->compares_with_constants(frame)) return false;
    const std::vector<ValueId>& values = liveness_->lists()[(*frames_)[frame].values];
    queue.insert(queue.end(), values.begin(), values.end());
    if (frame == kRootFrame) break;
  }
  for (size_t i = 0; i < queue.size(); ++i) {
    if (queue.size() > kMostValues) return false;
    if (queue[i] == kNone) continue;
    const JsonValue& value = values_[queue[i]];
    queue.insert(queue.end(), value.items.begin(), value.items.end());
    if (value.type == ValueType::kString && values_.text(value.text).starts_with(*read)) {
      inner.exceptions.push_back(rest_of_key(values_.text(value.text), read->size()));
    }
  }
  std::ranges::sort(inner.exceptions);
  inner.exceptions.erase(std::ranges::unique(inner.exceptions).begin(), inner.exceptions.end());
  inner.compares = true;
  return true;
}

State Writer::behind_other_key(FrameId object, Layout layout) {
  const uint64_t id = uint64_t{object} << 8 | layout.style;
  const auto [found, added] = behind_other_key_.emplace(id, kDead);
  if (!added) return found->second;
  const std::vector<Symbol> special = frames_->key_options(object).special;
  std::string name = "?";
  while (std::ranges::any_of(special, [&](Symbol key) { return values_.text(key) == name; })) {
    name += '?';
  }
  const State state = end_key(object, values_.symbol(name), layout);
  behind_other_key_[id] = state;
  return state;
}

State Writer::after(State state, State accepting) {
  const Place place = places_[state];
  if (place.kind == Kind::kString && place.c != kNone && frames_->keeps_value(place.frame)) {
    // A string that no value in the document, and no string in a token, is equal to.
    constexpr size_t kLongerThanTokens = 700;
    return finish(place.frame, goals_of_leaf(place, accepting),
                  kept(place.frame, ValueType::kString, std::string(kLongerThanTokens, '?')),
                  place.layout);
  }
  if ((place.kind == Kind::kString || place.kind == Kind::kNumber) && place.c == kNone) {
    const ValueStart& begin = frames_->start(place.frame);
    const bool string = place.kind == Kind::kString;
    const UnionMachine* const all = string ? begin.string_union : begin.number_union;
    const uint32_t alive = all != nullptr ? all->alive(place.a) : 0;
    if (!std::has_single_bit(alive)) {
      return finish(place.frame, goals_of_leaf(place, accepting), kNone, place.layout);
    }
    const auto& parts = string ? begin.string_parts : begin.number_parts;
    return finish(place.frame, frames_->goals_of_parts(parts, alive), kNone, place.layout);
  }
  if (place.kind == Kind::kOpenKey && frames_->key_options(place.frame).uniform) {
    return behind_other_key(place.frame, place.layout);
  }
  return kDead;
}

/// A key among named ones and those of a machine: the named ones are exceptions.
std::optional<Machine::Inner> Writer::inner_of_key(const Place& place) {
  const KeyOptions& options = frames_->key_options(place.frame);
  Inner out;
  out.machine = options.others;
  out.state = place.b;
  out.uniform = options.uniform && add_special(place.c, options.special, out);
  if (place.a == kNone) return out;
  const KeyPosition& position = positions_[place.a];
  if (!position.escape.empty()) return std::nullopt;
  for (uint32_t i = position.first; i < position.end; ++i) {
    out.exceptions.push_back(rest_of_key(values_.text(options.named[i]), position.depth));
  }
  out.exceptions.emplace_back("\\");  // names that continue with an escape
  return out;
}

ByteSet Writer::first_bytes(State state) {
  const Place place = places_[state];
  ByteSet out;
  const auto blanks = [&] {
    for (const char c : {' ', '\n', '\t'}) out.set(static_cast<uint8_t>(c));
  };
  switch (place.kind) {
    case Kind::kDeadEnd:
    case Kind::kDone:
      return out;
    case Kind::kKey:
      if (place.b != kDead || place.a == kNone) return out.set();
      return key_bytes(values_, frames_->key_options(place.frame).named, positions_[place.a]);
    case Kind::kBeforeColon:
      out.set(':');
      return out;
    case Kind::kBeforeKey:
      blanks();
      out.set('"');
      return out;
    case Kind::kLiteral:
      out.set(static_cast<uint8_t>(kLiterals[place.a][place.b]));
      return out;
    case Kind::kBehind:
      blanks();
      out.set(',');
      out.set((*frames_)[place.frame].object ? '}' : ']');
      return out;
    case Kind::kOpened:
      blanks();
      out.set((*frames_)[place.frame].object ? '}' : ']');
      if ((*frames_)[place.frame].object) {
        out.set('"');
        return out;
      }
      [[fallthrough]];
    case Kind::kValue:
      blanks();
      for (const char c : {'"', '-', '{', '[', 't', 'f', 'n'}) out.set(static_cast<uint8_t>(c));
      for (char c = '0'; c <= '9'; ++c) out.set(static_cast<uint8_t>(c));
      return out;
    default:
      return out.set();
  }
}

}  // namespace chimere::constraints::json_schema
