#include "terminal/key_decoder.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "terminal/cells.h"
#include "text/utf8.h"

namespace chimere::terminal {
namespace {

constexpr std::string_view kPasteEnd = "\x1b[201~";
/// Sequences of keys are shorter; a longer one is garbage.
constexpr size_t kLongestSequence = 64;

/// xterm's parameter: 1 + the sum of shift 1, alt 2, control 4, meta 8.
void set_modifiers(int parameter, KeyEvent& event) {
  const int bits = parameter > 0 ? parameter - 1 : 0;
  event.shift = (bits & 1) != 0;
  event.alt = (bits & 10) != 0;
  event.ctrl = (bits & 4) != 0;
}

KeyEvent control_character(uint8_t byte) {
  switch (byte) {
    case '\r':
    case '\n':
      return {.key = Key::kEnter};
    case '\t':
      return {.key = Key::kTab};
    case 0x08:
    case 0x7F:
      return {.key = Key::kBackspace};
    case 0x1B:
      return {.key = Key::kEscape};
    case 0x00:
      return {.key = Key::kCharacter, .text = " ", .ctrl = true};
    default:
      break;
  }
  const int letter = byte + (byte <= 26 ? 'a' - 1 : '@');
  return {.key = Key::kCharacter, .text = std::string(1, static_cast<char>(letter)), .ctrl = true};
}

/// A key given by its code point and modifiers ("CSI code ; modifiers u").
KeyEvent coded_key(int code, int modifiers) {
  KeyEvent event;
  if (code == '\r' || code == '\n' || code == '\t' || code == 0x1B || code == 0x7F || code == 8) {
    event = control_character(static_cast<uint8_t>(code));
    if (event.key == Key::kTab && modifiers == 2) event.key = Key::kBackTab;
  } else if (code >= 0x20 && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF)) {
    event.key = Key::kCharacter;
    text::append_utf8(event.text, static_cast<uint32_t>(code));
  }
  set_modifiers(modifiers, event);
  return event;
}

/// Final bytes of CSI and SS3 sequences.
Key final_key(char final) {
  switch (final) {
    case 'A':
      return Key::kUp;
    case 'B':
      return Key::kDown;
    case 'C':
      return Key::kRight;
    case 'D':
      return Key::kLeft;
    case 'H':
      return Key::kHome;
    case 'F':
      return Key::kEnd;
    case 'Z':
      return Key::kBackTab;
    case 'M':
      return Key::kEnter;  // SS3 M: of the keypad
    default:
      return Key::kOther;
  }
}

/// Keys of "CSI number ~".
Key numbered_key(int number) {
  constexpr std::array<Key, 9> kKeys = {Key::kOther,    Key::kHome, Key::kOther,
                                        Key::kDelete,   Key::kEnd,  Key::kPageUp,
                                        Key::kPageDown, Key::kHome, Key::kEnd};
  return number >= 0 && number < static_cast<int>(kKeys.size())
             ? kKeys.at(static_cast<size_t>(number))
             : Key::kOther;
}

/// "1;5" as numbers; at most four, each at most 0x10FFFF + 1. What is no number is 0.
std::array<int, 4> parameters(std::string_view text) {
  std::array<int, 4> out = {};
  size_t index = 0;
  for (const char c : text) {
    if (c == ';') {
      if (++index == out.size()) break;
    } else if (c >= '0' && c <= '9') {
      int& number = out.at(index);
      number = std::min(number * 10 + (c - '0'), 0x110000);
    } else if (c == ':') {
      break;  // sub-parameters of the kitty protocol
    }
  }
  return out;
}

}  // namespace

void KeyDecoder::push(std::string_view bytes, std::vector<KeyEvent>& keys) {
  std::string joined;
  if (!held_.empty()) {
    joined = std::move(held_);
    held_.clear();
    joined += bytes;
    bytes = joined;
  }
  while (!bytes.empty()) {
    const size_t length = pasting_ ? take_paste(bytes, keys) : take(bytes, keys);
    if (length == 0) {
      held_ = bytes;
      return;
    }
    bytes.remove_prefix(length);
  }
}

void KeyDecoder::flush(std::vector<KeyEvent>& keys) {
  if (!holds_bytes()) return;
  const std::string held = std::exchange(held_, {});
  if (held == "\x1b") {
    keys.push_back({.key = Key::kEscape});
  } else if (held == "\x1b\x1b") {
    keys.push_back({.key = Key::kEscape, .alt = true});
  } else if (held[0] != '\x1b') {
    keys.push_back({.key = Key::kCharacter, .text = clean_text(held)});
  } else if (held == "\x1b[" || held == "\x1bO") {
    keys.push_back({.key = Key::kCharacter, .text = held.substr(1), .alt = true});
  }
}

size_t KeyDecoder::take(std::string_view bytes, std::vector<KeyEvent>& keys) {
  const auto first = static_cast<uint8_t>(bytes[0]);
  if (first == 0x1B) return take_escape(bytes, keys);
  if (first < 0x20 || first == 0x7F) {
    keys.push_back(control_character(first));
    return 1;
  }
  const text::Utf8Char c = text::read_utf8(bytes, 0);
  if (c.kind == text::Utf8Char::Kind::kTruncated) return 0;
  const auto length = static_cast<size_t>(c.length);
  // Invalid bytes and C1 controls are no keys.
  const bool usable = c.kind == text::Utf8Char::Kind::kValid && (c.code < 0x80 || c.code >= 0xA0);
  if (usable) {
    keys.push_back({.key = Key::kCharacter, .text = std::string(bytes.substr(0, length))});
  }
  return length;
}

size_t KeyDecoder::take_escape(std::string_view bytes, std::vector<KeyEvent>& keys) {
  if (bytes.size() == 1) return 0;
  if (bytes[1] == '[' || bytes[1] == 'O') return take_sequence(bytes, keys);
  if (bytes[1] == '\x1b' && bytes.size() == 2) return 0;
  if (bytes[1] == '\x1b' && bytes[2] != '[' && bytes[2] != 'O') {
    keys.push_back({.key = Key::kEscape});
    return 1;
  }
  // ESC before a key is the Alt key.
  const size_t before = keys.size();
  const bool pasting = pasting_;
  const size_t length =
      bytes[1] == '\x1b' ? take_sequence(bytes.substr(1), keys) : take(bytes.substr(1), keys);
  if (length == 0) return 0;
  if (keys.size() > before && pasting_ == pasting) keys.back().alt = true;
  return length + 1;
}

size_t KeyDecoder::take_sequence(std::string_view bytes, std::vector<KeyEvent>& keys) {
  if (bytes.size() == 2) return 0;
  if (bytes[1] == 'O') {
    // xterm writes modifiers as "ESC O 5 C" in some modes.
    const bool digit = bytes[2] >= '1' && bytes[2] <= '8';
    if (digit && bytes.size() == 3) return 0;
    KeyEvent event = {.key = final_key(bytes[digit ? 3 : 2])};
    if (digit) set_modifiers(bytes[2] - '0', event);
    keys.push_back(std::move(event));
    return digit ? 4 : 3;
  }
  if (bytes[2] == '[') {  // function keys of the Linux console
    if (bytes.size() == 3) return 0;
    keys.push_back({.key = Key::kOther});
    return 4;
  }
  size_t at = 2;
  while (at < bytes.size() && bytes[at] >= 0x20 && bytes[at] <= 0x3F) {
    if (++at > kLongestSequence) return at;  // dropped
  }
  if (at == bytes.size()) return 0;
  const char final = bytes[at];
  if (final < 0x40 || final == 0x7F) return at;  // a control character ends the sequence
  const auto numbers = parameters(bytes.substr(2, at - 2));
  if (final == '~' && numbers[0] == 200) {
    pasting_ = true;
    paste_.clear();
  } else if (final == '~' && numbers[0] == 27) {
    keys.push_back(coded_key(numbers[2], numbers[1]));  // xterm's modifyOtherKeys
  } else if (final == 'u') {
    keys.push_back(coded_key(numbers[0], numbers[1]));
  } else {
    KeyEvent event = {.key = final == '~'   ? numbered_key(numbers[0])
                             : final == 'M' ? Key::kOther
                                            : final_key(final)};
    set_modifiers(numbers[1], event);
    keys.push_back(std::move(event));
  }
  return at + 1;
}

size_t KeyDecoder::take_paste(std::string_view bytes, std::vector<KeyEvent>& keys) {
  const size_t end = bytes.find(kPasteEnd);
  if (end != std::string_view::npos) {
    paste_ += bytes.substr(0, end);
    pasting_ = false;
    keys.push_back({.key = Key::kPaste, .text = clean_text(std::exchange(paste_, {}))});
    return end + kPasteEnd.size();
  }
  // The last bytes may be the beginning of the end.
  size_t kept = std::min(bytes.size(), kPasteEnd.size() - 1);
  while (kept > 0 && !kPasteEnd.starts_with(bytes.substr(bytes.size() - kept))) --kept;
  paste_ += bytes.substr(0, bytes.size() - kept);
  return bytes.size() - kept;
}

}  // namespace chimere::terminal
