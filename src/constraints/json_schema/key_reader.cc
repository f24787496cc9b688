#include "constraints/json_schema/key_reader.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "constraints/json_schema/alternatives.h"
#include "text/utf8.h"

namespace chimere::constraints::json_schema {

namespace {

/// The escape sequences of a character of a declared name: \uXXXX with lower-case digits, and a
/// short one. Printable ASCII characters have none but those that JSON requires: no program writes
/// others, and a model that samples one loses the thread.
std::vector<std::string> escapes_of(uint32_t code, bool canonical) {
  std::vector<std::string> out;
  if (canonical && (code == '/' || code >= 0x7F)) return out;
  constexpr std::string_view kCharacters = "\"\\/\b\f\n\r\t";
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  if (code < 0x80) {
    const size_t at = kCharacters.find(static_cast<char>(code));
    if (at != std::string_view::npos) out.push_back(std::string("\\") + kLetters[at]);
  }
  const bool plain = code >= 0x20 && code < 0x7F && code != '"' && code != '\\';
  if (plain || (canonical && !out.empty())) return out;
  std::array<char, 16> text{};
  if (code < 0x10000) {
    std::snprintf(text.data(), text.size(), "\\u%04x", code);
  } else {
    const uint32_t offset = code - 0x10000;
    std::snprintf(text.data(), text.size(), "\\u%04x\\u%04x", 0xD800 + (offset >> 10),
                  0xDC00 + (offset & 0x3FF));
  }
  out.emplace_back(text.data());
  return out;
}

uint8_t lower_hex(uint8_t byte) {
  return byte >= 'A' && byte <= 'F' ? static_cast<uint8_t>(byte - 'A' + 'a') : byte;
}

/// Characters that a JSON string cannot hold as they are.
bool needs_escape(uint8_t byte) { return byte < 0x20 || byte == '"' || byte == '\\'; }

/// The names of a position that continue with the character at its depth being the same as that of
/// name `index`.
uint32_t end_of_character(const Values& values, const std::vector<Symbol>& names,
                          const KeyPosition& position, uint32_t index, size_t length) {
  const std::string_view character =
      std::string_view(values.text(names[index])).substr(position.depth, length);
  uint32_t end = index + 1;
  while (end < position.end &&
         std::string_view(values.text(names[end])).substr(position.depth, length) == character) {
    ++end;
  }
  return end;
}

}  // namespace

uint64_t KeyPositionHash::operator()(const KeyPosition& position) const {
  const uint64_t hash = hash_mix(hash_mix(position.first, position.end), position.depth);
  return hash_mix(hash, std::hash<std::string>()(position.escape));
}

std::optional<KeyPosition> advance_key(const Values& values, const std::vector<Symbol>& names,
                                       const KeyPosition& position, uint8_t byte, bool canonical) {
  if (position.escape.empty() && byte != '\\') {
    if (needs_escape(byte)) return std::nullopt;
    const auto byte_of = [&](Symbol name) {
      const std::string& text = values.text(name);
      return position.depth < text.size() ? static_cast<uint8_t>(text[position.depth]) : -1;
    };
    const auto begin = names.begin() + position.first;
    const auto end = names.begin() + position.end;
    const auto first =
        std::partition_point(begin, end, [&](Symbol n) { return byte_of(n) < byte; });
    const auto last =
        std::partition_point(first, end, [&](Symbol n) { return byte_of(n) <= byte; });
    if (first == last) return std::nullopt;
    return KeyPosition{static_cast<uint32_t>(first - names.begin()),
                       static_cast<uint32_t>(last - names.begin()),
                       position.depth + 1,
                       {}};
  }
  KeyPosition next = position;
  // Only the second byte of an escape distinguishes cases by letters that are no hexadecimal
  // digits.
  next.escape += static_cast<char>(next.escape.size() > 1 ? lower_hex(byte) : byte);
  bool partial = false;
  for (uint32_t i = position.first; i < position.end;) {
    const std::string& name = values.text(names[i]);
    if (position.depth >= name.size()) {
      ++i;
      continue;
    }
    const text::Utf8Char character = text::read_utf8(name, position.depth);
    const uint32_t end =
        end_of_character(values, names, position, i, static_cast<size_t>(character.length));
    // A raw character may have been begun before: escapes stand between characters only.
    if (character.kind == text::Utf8Char::Kind::kValid) {
      for (const std::string& escape : escapes_of(character.code, canonical)) {
        if (escape == next.escape) {
          return KeyPosition{i, end, position.depth + static_cast<uint32_t>(character.length), {}};
        }
        partial = partial || escape.starts_with(next.escape);
      }
    }
    i = end;
  }
  if (!partial) return std::nullopt;
  return next;
}

Symbol key_at(const Values& values, const std::vector<Symbol>& names, const KeyPosition& position) {
  // The shortest of names with a common beginning is the first.
  if (!position.escape.empty() || position.first >= position.end) return kNone;
  const Symbol first = names[position.first];
  return values.text(first).size() == position.depth ? first : kNone;
}

ByteSet key_bytes(const Values& values, const std::vector<Symbol>& names,
                  const KeyPosition& position) {
  ByteSet out;
  if (!position.escape.empty()) return out.set();
  out.set('\\');
  for (uint32_t i = position.first; i < position.end; ++i) {
    const std::string& text = values.text(names[i]);
    out.set(position.depth < text.size() ? static_cast<uint8_t>(text[position.depth]) : '"');
  }
  return out;
}

}  // namespace chimere::constraints::json_schema
