#include "constraints/text_machine.h"

#include <utility>

#include "constraints/hash.h"
#include "constraints/token_trie.h"

namespace chimere::constraints {
namespace {

constexpr uint64_t kTextMachineSeed = 0x7E87;

/// States of a UTF-8 decoder (RFC 3629, section 4): bytes that must follow.
enum Utf8State : uint32_t {
  kWhole,
  kOne,    ///< one continuation byte
  kTwo,    ///< two
  kThree,  ///< three
  kAfterE0,
  kAfterEd,
  kAfterF0,
  kAfterF4,
};
constexpr uint32_t kInvalid = 8;

uint32_t next_utf8(uint32_t state, uint8_t byte) {
  const auto in = [byte](uint8_t first, uint8_t last) { return byte >= first && byte <= last; };
  switch (state) {
    case kWhole:
      if (byte < 0x80) return kWhole;
      if (in(0xC2, 0xDF)) return kOne;
      if (byte == 0xE0) return kAfterE0;
      if (byte == 0xED) return kAfterEd;
      if (in(0xE1, 0xEF)) return kTwo;
      if (byte == 0xF0) return kAfterF0;
      if (in(0xF1, 0xF3)) return kThree;
      return byte == 0xF4 ? kAfterF4 : kInvalid;
    case kOne:
      return in(0x80, 0xBF) ? kWhole : kInvalid;
    case kTwo:
      return in(0x80, 0xBF) ? kOne : kInvalid;
    case kThree:
      return in(0x80, 0xBF) ? kTwo : kInvalid;
    case kAfterE0:
      return in(0xA0, 0xBF) ? kOne : kInvalid;
    case kAfterEd:
      return in(0x80, 0x9F) ? kOne : kInvalid;
    case kAfterF0:
      return in(0x90, 0xBF) ? kTwo : kInvalid;
    default:
      return in(0x80, 0x8F) ? kTwo : kInvalid;
  }
}

bool is_symbol(const std::string& text) {
  return text.size() == kSymbolBytes && static_cast<uint8_t>(text[0]) == kTokenByte;
}

}  // namespace

Result<std::unique_ptr<TextMachine>> TextMachine::create(std::vector<std::string> endings,
                                                         const std::vector<std::string>& excluded,
                                                         Language language, Alphabet alphabet) {
  std::unique_ptr<TextMachine> machine(new TextMachine(language, alphabet));
  size_t bytes = 0;
  machine->key_ = combine(kTextMachineSeed,
                          static_cast<uint64_t>(language) * 2 + static_cast<uint64_t>(alphabet));
  machine->endings_ = static_cast<int32_t>(endings.size());
  machine->key_ = combine(machine->key_, endings.size());
  endings.insert(endings.end(), excluded.begin(), excluded.end());
  for (const std::string& ending : endings) {
    if (ending.empty()) return invalid_argument("A text that ends another one is empty.");
    bytes += ending.size();
    machine->key_ = hash_text(machine->key_, ending);
  }
  if (bytes > kMaxBytes) {
    return unsupported("The texts that end a text have more than " + std::to_string(kMaxBytes) +
                       " bytes together.");
  }
  machine->add_node();
  for (size_t i = 0; i < endings.size(); ++i) {
    if (!is_symbol(endings[i])) machine->add_path(endings[i], static_cast<int32_t>(i));
  }
  machine->add_failures();
  for (size_t i = 0; i < endings.size(); ++i) {
    if (is_symbol(endings[i])) machine->add_path(endings[i], static_cast<int32_t>(i));
  }
  machine->complete_symbols();
  return machine;
}

uint32_t TextMachine::add_node() {
  rows_.emplace_back().fill(kNone);
  ending_.push_back(-1);
  symbol_.push_back(0);
  return static_cast<uint32_t>(rows_.size() - 1);
}

void TextMachine::add_path(const std::string& text, int32_t ending) {
  const bool symbol = is_symbol(text);
  uint32_t at = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if (rows_[at][byte] == kNone) {
      const uint32_t made = add_node();
      rows_[at][byte] = made;
      if (symbol && i + 1 < text.size()) symbol_[made] = static_cast<uint8_t>(i + 1);
    }
    at = rows_[at][byte];
  }
  if (ending_[at] < 0) ending_[at] = ending;
}

void TextMachine::add_failures() {
  std::vector<uint32_t> failure(rows_.size(), 0);
  std::vector<uint32_t> queue = {0};
  for (size_t i = 0; i < queue.size(); ++i) {
    const uint32_t at = queue[i];
    if (ending_[at] < 0) ending_[at] = at == 0 ? -1 : ending_[failure[at]];
    for (size_t byte = 0; byte < kTokenByte; ++byte) {
      const uint32_t back = at == 0 ? 0 : rows_[failure[at]][byte];
      uint32_t& target = rows_[at][byte];
      if (target == kNone) {
        target = back;
      } else {
        failure[target] = back;
        queue.push_back(target);
      }
    }
  }
}

void TextMachine::complete_symbols() {
  const auto nodes = static_cast<uint32_t>(rows_.size());
  std::array<uint32_t, kSymbolBytes + 1> other{};  // after n bytes of any other symbol
  if (alphabet_ == Alphabet::kAnyToken) {
    for (size_t n = 1; n < kSymbolBytes; ++n) {
      other[n] = add_node();
      symbol_[other[n]] = static_cast<uint8_t>(n);
    }
    for (size_t n = 1; n < kSymbolBytes; ++n) rows_[other[n]].fill(other[n + 1]);
  }
  const uint32_t symbols = rows_[0][kTokenByte];
  for (uint32_t at = 0; at < nodes; ++at) {
    Row& row = rows_[at];
    if (symbol_[at] > 0) {
      if (alphabet_ != Alphabet::kAnyToken) continue;
      for (uint32_t& target : row) {
        if (target == kNone) target = other[symbol_[at] + size_t{1}];
      }
    } else if (symbols != kNone) {
      row[kTokenByte] = symbols;
    } else if (alphabet_ == Alphabet::kAnyToken) {
      row[kTokenByte] = other[1];
    }
  }
}

State TextMachine::next(State state, uint8_t byte) {
  if (state == kDead) return kDead;
  const uint32_t from = node(state);
  if (ending_[from] >= 0) return kDead;
  const uint32_t to = rows_[from][byte];
  if (to == kNone) return kDead;
  if (is_dead(to)) return kDead;
  if (alphabet_ == Alphabet::kAnyToken || symbol_[from] > 0 || byte == kTokenByte) {
    // The bytes of a symbol are no characters; a symbol stands between whole ones.
    return alphabet_ == Alphabet::kText && (state - 1) % kUtf8States != 0 ? kDead
                                                                          : this->state(to, 0);
  }
  const uint32_t utf8 = next_utf8((state - 1) % kUtf8States, byte);
  return utf8 == kInvalid ? kDead : this->state(to, utf8);
}

bool TextMachine::accepts(State state) {
  if (state == kDead) return false;
  if (language_ == Language::kUntil) return ending(state) >= 0;
  return whole(state);
}

bool TextMachine::whole(State state) const {
  return state != kDead && (state - 1) % kUtf8States == 0 && symbol_[node(state)] == 0;
}

uint64_t TextMachine::shared_key(State state) { return combine(key_, state); }

}  // namespace chimere::constraints
