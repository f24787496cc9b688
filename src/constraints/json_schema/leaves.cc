#include "constraints/json_schema/leaves.h"

#include <algorithm>
#include <utility>

#include "constraints/json_number.h"
#include "constraints/json_string.h"
#include "constraints/regex_machine.h"
#include "text/utf8.h"

namespace chimere::constraints::json_schema {

namespace {

/// Fraction of plain notations of a single number.
constexpr int64_t kLongestPlain = 40;

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<uint32_t> read_unit(std::string_view raw, size_t at) {
  constexpr size_t kDigits = 4;
  if (at + kDigits > raw.size()) return std::nullopt;
  uint32_t unit = 0;
  for (size_t i = 0; i < kDigits; ++i) {
    const int digit = hex_value(raw[at + i]);
    if (digit < 0) return std::nullopt;
    unit = unit * 16 + static_cast<uint32_t>(digit);
  }
  return unit;
}

std::string sign_of(const Decimal& number) { return number.negative ? "-" : ""; }

/// A number that is not zero without exponent; empty: that would be too long.
std::string plain_notation(const Decimal& number) {
  const auto digits = static_cast<int64_t>(number.digits.size());
  const std::string sign = sign_of(number);
  if (number.exponent >= digits && number.exponent <= kLongestPlain) {
    return sign + number.digits + std::string(static_cast<size_t>(number.exponent - digits), '0');
  }
  if (number.exponent > 0 && number.exponent < digits && digits <= kLongestPlain) {
    const auto whole = static_cast<size_t>(number.exponent);
    return sign + number.digits.substr(0, whole) + "." + number.digits.substr(whole);
  }
  if (number.exponent <= 0 && number.exponent > -kLongestPlain) {
    const auto zeros = static_cast<size_t>(-number.exponent);
    return sign + "0." + std::string(zeros, '0') + number.digits;
  }
  return {};
}

/// As repr() and JSON.stringify() write large and small numbers: 1e+20, 1.5e-07, 1e-7.
std::vector<std::string> scientific_notations(const Decimal& number) {
  std::vector<std::string> out;
  const int64_t exponent = number.exponent - 1;
  std::string mantissa = sign_of(number) + number.digits.substr(0, 1);
  if (number.digits.size() > 1) mantissa += "." + number.digits.substr(1);
  const std::string size = std::to_string(exponent < 0 ? -exponent : exponent);
  const std::string padded = size.size() < 2 ? "0" + size : size;
  for (const std::string_view e : {"e", "E", "e+", "E+", "e-", "E-"}) {
    if (exponent < 0 ? !e.ends_with('-') : e.ends_with('-')) continue;
    for (const std::string_view written : {size, padded}) {
      out.push_back(mantissa);
      out.back().append(e).append(written);
    }
  }
  return out;
}

/// The notations of a number that are accepted for single values.
std::vector<std::string> notations(const Decimal& number, bool plain) {
  if (number.is_zero()) {
    if (plain) return {"0", "-0"};
    return {"0", "0.0", "-0", "-0.0"};
  }
  std::vector<std::string> out;
  const std::string text = plain_notation(number);
  if (!text.empty()) out.push_back(text);
  if (plain) return out;
  if (!text.empty() && number.is_integer()) out.push_back(text + ".0");
  out.push_back(number.text());
  for (std::string& other : scientific_notations(number)) out.push_back(std::move(other));
  return out;
}

/// The same where values are written as programs print them.
std::vector<std::string> canonical_notations(const Decimal& number) {
  if (number.is_zero()) return {"0"};
  // Between these, JSON.stringify() writes no exponent.
  constexpr int64_t kSmallest = -5;
  constexpr int64_t kLargest = 21;
  const bool short_enough = number.exponent >= kSmallest && number.exponent <= kLargest;
  if (number.is_integer() || short_enough) {
    if (const std::string text = plain_notation(number); !text.empty()) return {text};
  }
  return scientific_notations(number);
}

void append_key(std::string& key, const std::vector<Decimal>& list) {
  for (const Decimal& number : list) key += number.text() + ",";
  key += ";";
}

std::string key_of(const NumberAlternative& number) {
  std::string key = number.plain ? "p" : "";
  if (number.values) {
    append_key(key, *number.values);
    return key;
  }
  const NumberSet& set = number.set;
  key += (set.min ? set.min->text() : "") + (set.exclusive_min ? "<" : "[") +
         (set.max ? set.max->text() : "") + (set.exclusive_max ? ">" : "]") +
         (set.integer ? "i" : "") + (set.not_integer ? "f" : "") + ":";
  append_key(key, set.multiple_of);
  append_key(key, set.not_multiple_of);
  append_key(key, set.excluded);
  return key;
}

}  // namespace

std::optional<std::string> decode_json_string(std::string_view raw) {
  std::string out;
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\') {
      out += raw[i];
      continue;
    }
    if (++i >= raw.size()) return std::nullopt;
    constexpr std::string_view kEscapes = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    if (const size_t simple = kEscapes.find(raw[i]); simple != std::string_view::npos) {
      out += kMeanings[simple];
      continue;
    }
    if (raw[i] != 'u') return std::nullopt;
    const auto unit = read_unit(raw, i + 1);
    if (!unit) return std::nullopt;
    i += 4;
    uint32_t code = *unit;
    if (code >= 0xD800 && code < 0xDC00) {
      if (raw.substr(i + 1, 2) != "\\u") return std::nullopt;
      const auto low = read_unit(raw, i + 3);
      if (!low || *low < 0xDC00 || *low > 0xDFFF) return std::nullopt;
      code = 0x10000 + ((code - 0xD800) << 10) + (*low - 0xDC00);
      i += 6;
    }
    text::append_utf8(out, code);
  }
  return out;
}

State UnionMachine::intern(std::vector<uint32_t> states) {
  if (std::all_of(states.begin(), states.end(), [](State state) { return state == kDead; })) {
    return kDead;
  }
  const uint32_t before = states_.size();
  const size_t bytes = 64 + 4 * states.size();
  const State id = states_.intern(std::move(states));
  if (states_.size() > before) memory_ += bytes;
  return id;
}

State UnionMachine::start() {
  std::vector<uint32_t> states;
  states.reserve(parts_.size());
  for (Machine* part : parts_) states.push_back(part->start());
  return intern(std::move(states));
}

State UnionMachine::next(State state, uint8_t byte) {
  std::vector<uint32_t> states = states_[state];
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i] != kDead) states[i] = parts_[i]->next(states[i], byte);
  }
  return states.empty() ? kDead : intern(std::move(states));
}

bool UnionMachine::accepts(State state) {
  const std::vector<uint32_t>& states = states_[state];
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i] != kDead && parts_[i]->accepts(states[i])) return true;
  }
  return false;
}

std::optional<Machine::Inner> UnionMachine::inner(State state) {
  const std::vector<uint32_t>& states = states_[state];
  std::optional<Inner> only;
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i] == kDead) continue;
    if (only) return std::nullopt;
    only = part(state, i);
  }
  return only;
}

Machine::Inner UnionMachine::part(State state, size_t i) const {
  Inner out;
  out.machine = parts_[i];
  out.state = states_[state][i];
  out.uniform = true;
  return out;
}

ByteSet UnionMachine::first_bytes(State state) {
  const std::vector<uint32_t>& states = states_[state];
  ByteSet bytes;
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i] != kDead) bytes |= parts_[i]->first_bytes(states[i]);
  }
  return bytes;
}

CharacterClasses UnionMachine::stays(State state, int32_t length) {
  const std::vector<uint32_t>& states = states_[state];
  CharacterClasses classes = 0;
  // One part that reads all is enough if no other accepts on the way.
  if (!strings_) return 0;
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i] != kDead) classes |= parts_[i]->stays(states[i], length);
  }
  return classes;
}

uint32_t UnionMachine::alive(State state) const {
  const std::vector<uint32_t>& states = states_[state];
  uint32_t bits = 0;
  for (size_t i = 0; i < std::min(kMaxParts, states.size()); ++i) {
    if (states[i] != kDead) bits |= 1U << i;
  }
  return bits;
}

uint32_t UnionMachine::accepting(State state) const {
  const std::vector<uint32_t>& states = states_[state];
  uint32_t bits = 0;
  for (size_t i = 0; i < std::min(kMaxParts, states.size()); ++i) {
    if (states[i] != kDead && parts_[i]->accepts(states[i])) bits |= 1U << i;
  }
  return bits;
}

State StringBodyMachine::next(State state, uint8_t byte) {
  const State next = strings_->next(state, byte);
  return next != kDead && strings_->accepts(next) ? kDead : next;
}

uint64_t StringBodyMachine::shared_key(State state) {
  constexpr uint64_t kBody = 0x5B0D'1E5B'0D1E'5B0DULL;
  const uint64_t key = strings_->shared_key(state);
  return key == 0 ? 0 : hash_mix(kBody, key) | 1;
}

Result<Machine*> Leaves::string_machine(const StringSet& set, bool opening_quote) {
  const auto key = std::tuple(set.language, set.min, set.max, opening_quote);
  if (const auto found = strings_.find(key); found != strings_.end()) return found->second.get();
  JsonStringMachine::Options options;
  options.min_length = set.min;
  options.max_length = set.max;
  options.opening_quote = opening_quote;
  options.canonical = canonical_;
  std::unique_ptr<Machine> machine;
  auto created = JsonStringMachine::create(arena_, set.language, options);
  if (created.ok()) {
    machine = *std::move(created);
  } else if (created.error().code != Error::Code::kInvalidArgument) {
    return created.error();
  }
  return strings_.emplace(key, std::move(machine)).first->second.get();
}

Result<Machine*> Leaves::number_machine(const NumberAlternative& set) {
  const std::string key = key_of(set);
  if (const auto found = numbers_.find(key); found != numbers_.end()) return found->second.get();
  std::unique_ptr<Machine> machine;
  if (set.values) {
    std::vector<std::string> words;
    for (const Decimal& number : *set.values) {
      auto texts = canonical_ ? canonical_notations(number) : notations(number, set.plain);
      for (std::string& word : texts) words.push_back(std::move(word));
    }
    CHIMERE_TRY(machine, RegexMachine::create(arena_, arena_.words(std::move(words))));
  } else {
    NumberFormat format;
    if (set.plain) format.fraction_digits = 0;
    format.exponent = !set.plain;
    format.canonical = canonical_;
    auto created = NumberMachine::create(set.set, format);
    if (canonical_ && !created.ok()) {
      // The set has no number in this form.
      format.canonical = false;
      created = NumberMachine::create(set.set, format);
    }
    if (created.ok()) {
      machine = *std::move(created);
    } else if (created.error().code != Error::Code::kInvalidArgument) {
      return created.error();
    }
  }
  return numbers_.emplace(key, std::move(machine)).first->second.get();
}

Result<Machine*> Leaves::strings(const std::vector<StringSet>& sets) {
  // Sets with equal bounds are one language.
  std::vector<StringSet> grouped;
  for (const StringSet& set : sets) {
    const auto same = std::find_if(grouped.begin(), grouped.end(), [&](const StringSet& have) {
      return have.min == set.min && have.max == set.max;
    });
    if (same == grouped.end()) {
      grouped.push_back(set);
    } else if (same->language != set.language) {
      same->language = arena_.unite(same->language, set.language);
    }
  }
  std::vector<Machine*> parts;
  for (const StringSet& set : grouped) {
    CHIMERE_TRY(Machine* const part, string_machine(set, true));
    if (part != nullptr) parts.push_back(part);
  }
  if (parts.size() <= 1) return parts.empty() ? static_cast<Machine*>(nullptr) : parts[0];
  std::sort(parts.begin(), parts.end());
  return static_cast<Machine*>(unite(parts, true));
}

UnionMachine* Leaves::unite(const std::vector<Machine*>& parts, bool strings) {
  auto& slot = unions_[parts];
  if (!slot) slot = std::make_unique<UnionMachine>(parts, strings);
  return slot.get();
}

bool Leaves::listed(const std::vector<StringSet>& sets) const {
  return std::ranges::all_of(sets,
                             [&](const StringSet& set) { return arena_.is_words(set.language); });
}

Result<Machine*> Leaves::numbers(const std::vector<NumberAlternative>& sets) {
  std::vector<Machine*> parts;
  for (const NumberAlternative& set : sets) {
    CHIMERE_TRY(Machine* const part, number_machine(set));
    if (part != nullptr) parts.push_back(part);
  }
  std::sort(parts.begin(), parts.end());
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  if (parts.size() <= 1) return parts.empty() ? static_cast<Machine*>(nullptr) : parts[0];
  return static_cast<Machine*>(unite(parts, false));
}

Result<Machine*> Leaves::keys(Regex language) {
  return string_machine({language, 0, kNoLimit}, false);
}

StringBodyMachine& Leaves::string_body() {
  if (!body_) {
    JsonStringMachine::Options options;
    options.opening_quote = false;
    options.canonical = canonical_;
    auto any = JsonStringMachine::create(arena_, arena_.any(), options);
    body_ = std::make_unique<StringBodyMachine>(*std::move(any));
  }
  return *body_;
}

bool Leaves::contains(const StringSet& set, std::string_view value) {
  if (set.min > 0 || set.max != kNoLimit) {
    uint64_t length = 0;
    for (const char c : value) length += (static_cast<uint8_t>(c) & 0xC0) != 0x80 ? 1 : 0;
    if (length < set.min || length > set.max) return false;
  }
  return arena_.matches(set.language, value);
}

size_t Leaves::memory() const {
  size_t bytes = body_ ? body_->memory() : 0;
  for (const auto& [key, machine] : strings_) bytes += machine ? machine->memory() : 0;
  for (const auto& [key, machine] : numbers_) bytes += machine ? machine->memory() : 0;
  for (const auto& [key, machine] : unions_) bytes += machine->memory();
  return bytes;
}

}  // namespace chimere::constraints::json_schema
