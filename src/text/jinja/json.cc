#include "text/jinja/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "text/jinja/characters.h"
#include "text/utf8.h"

namespace chimere::text::jinja {
namespace {

class Reader {
 public:
  explicit Reader(std::string_view s) : s_(s) {}

  Value document() {
    Value value = read(0);
    skip_space();
    if (at_ != s_.size()) error("nothing more may follow the value");
    return value;
  }

 private:
  [[noreturn]] void error(const std::string& what) const {
    fail("The JSON text is damaged at byte " + std::to_string(at_) + ": " + what + ".");
  }
  void skip_space() {
    while (at_ < s_.size() && std::string_view(" \t\r\n").find(s_[at_]) != std::string_view::npos) {
      ++at_;
    }
  }
  bool take(std::string_view word) {
    if (s_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  Value read(int depth) {
    if (depth >= kMaxNesting) error("the nesting is too deep");
    skip_space();
    if (take("null")) return Value::none();
    if (take("true")) return Value::boolean(true);
    if (take("false")) return Value::boolean(false);
    if (take("\"")) return Value::string(read_string(), false);
    if (take("[")) return read_list(depth);
    if (take("{")) return read_dict(depth);
    return read_number();
  }

  Value read_list(int depth) {
    std::vector<Value> items;
    skip_space();
    if (take("]")) return Value::list({});
    while (true) {
      items.push_back(read(depth + 1));
      skip_space();
      if (take("]")) return Value::list(std::move(items));
      if (!take(",")) error("a comma or a closing bracket is expected");
    }
  }

  Value read_dict(int depth) {
    Dict dict;
    skip_space();
    if (take("}")) return Value::dict(std::move(dict));
    while (true) {
      skip_space();
      if (!take("\"")) error("the key of a member is expected");
      const Value key = Value::string(read_string(), false);
      skip_space();
      if (!take(":")) error("a colon is expected");
      dict.set(key, read(depth + 1));
      skip_space();
      if (take("}")) return Value::dict(std::move(dict));
      if (!take(",")) error("a comma or a closing brace is expected");
    }
  }

  Value read_number() {
    const size_t begin = at_;
    take("-");
    const auto digits = [&] {
      const size_t from = at_;
      while (at_ < s_.size() && s_[at_] >= '0' && s_[at_] <= '9') ++at_;
      if (at_ == from) error("a value is expected");
      return at_ - from;
    };
    const bool zero = at_ < s_.size() && s_[at_] == '0';
    if (digits() > 1 && zero) error("a number begins with a needless zero");
    bool real = false;
    if (take(".")) {
      real = true;
      digits();
    }
    if (take("e") || take("E")) {
      real = true;
      if (!take("+")) take("-");
      digits();
    }
    const std::string_view text = s_.substr(begin, at_ - begin);
    int64_t integer = 0;
    if (!real && std::from_chars(text.begin(), text.end(), integer).ec == std::errc()) {
      return Value::integer(integer);
    }
    double number = 0;
    if (std::from_chars(text.begin(), text.end(), number).ec != std::errc()) {
      error("a number is out of range");
    }
    return Value::real(number);
  }

  uint32_t read_hex() {
    uint32_t code = 0;
    const std::string_view text = s_.substr(at_, 4);
    const auto result = std::from_chars(text.begin(), text.end(), code, 16);
    if (text.size() < 4 || result.ptr != text.end()) error("four hexadecimal digits are expected");
    at_ += 4;
    return code;
  }

  std::string read_string() {
    std::string out;
    while (true) {
      if (at_ >= s_.size()) error("a string has no end");
      const char c = s_[at_++];
      if (c == '"') return out;
      if (static_cast<uint8_t>(c) < 0x20) error("a string holds a raw control character");
      if (c != '\\') {
        out.push_back(c);
        continue;
      }
      if (at_ >= s_.size()) error("a string has no end");
      const char escaped = s_[at_++];
      constexpr std::string_view kFrom = "\"\\/bfnrt";
      const size_t known = kFrom.find(escaped);
      if (known != std::string_view::npos) {
        out.push_back("\"\\/\b\f\n\r\t"[known]);
        continue;
      }
      if (escaped != 'u') error("an escape is unknown");
      uint32_t code = read_hex();
      if (code >= 0xD800 && code < 0xDC00 && take("\\u")) {
        const uint32_t low = read_hex();
        code = low >= 0xDC00 && low < 0xE000 ? 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
                                             : 0xFFFD;
      }
      append_utf8(out, code >= 0xD800 && code < 0xE000 ? 0xFFFD : code);
    }
  }

  std::string_view s_;
  size_t at_ = 0;
};

class Writer {
 public:
  Writer(const JsonStyle& style, Budget& budget) : style_(style), budget_(budget) {}

  void write(const Value& value, int level) {
    budget_.step();
    if (value.is_none()) {
      put("null");
    } else if (value.is_bool()) {
      put(value.as_bool() ? "true" : "false");
    } else if (value.is_integer()) {
      put(std::to_string(value.as_integer()));
    } else if (value.is_real()) {
      put(number(value.as_real()));
    } else if (value.is_string()) {
      write_string(value.as_text());
    } else if (value.is_list()) {
      const std::vector<Value>& items = value.as_list().items;
      if (items.empty()) {
        put("[]");
        return;
      }
      put("[");
      for (size_t i = 0; i < items.size(); ++i) {
        if (i > 0) put(style_.item_separator);
        new_line(level + 1);
        write(items[i], level + 1);
      }
      new_line(level);
      put("]");
    } else if (value.is_dict()) {
      write_dict(value.as_dict(), level);
    } else {
      fail("A value of the kind " + value.type_name() + " cannot be written as JSON.");
    }
  }

  MarkedText take() { return std::move(out_); }

 private:
  void put(const char* bytes) { put(std::string_view(bytes)); }
  void put(std::string_view bytes) {
    budget_.bytes(static_cast<int64_t>(bytes.size()));
    out_.append(bytes, true);
  }

  void put(const MarkedText& text) {
    budget_.bytes(static_cast<int64_t>(text.size()));
    out_.append(text);
  }

  void new_line(int level) {
    if (!style_.lines) return;
    put("\n");
    for (int i = 0; i < level; ++i) put(style_.indent);
  }

  static std::string number(double d) {
    if (std::isnan(d)) return "NaN";
    if (std::isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
    return format_real(d);
  }

  void write_dict(const Dict& dict, int level) {
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::ranges::stable_sort(entries, [&](const auto* a, const auto* b) {
        return compare(a->first, b->first, budget_) < 0;
      });
    }
    if (entries.empty()) {
      put("{}");
      return;
    }
    put("{");
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) put(style_.item_separator);
      new_line(level + 1);
      const auto& [key, value] = *entries[i];
      if (!key.is_string() && !key.is_number() && !key.is_none()) {
        fail("A key of the kind " + key.type_name() + " cannot be written as JSON.");
      }
      if (key.is_string()) {
        write_string(key.as_text());
      } else {
        put("\"");
        write(key, level + 1);
        put("\"");
      }
      put(style_.key_separator);
      write(value, level + 1);
    }
    new_line(level);
    put("}");
  }

  void write_string(const MarkedText& s) {
    budget_.bytes(static_cast<int64_t>(s.size()));
    const std::string& bytes = s.bytes();
    out_.append("\"", true);
    for (size_t at = 0; at < bytes.size();) {
      const Utf8Char c = read_utf8(bytes, at);
      const bool valid = c.kind == Utf8Char::Kind::kValid;
      const size_t end = at + (valid ? c.length : 1);
      constexpr std::string_view kSpecial = "\"\\\n\r\t\b\f";
      const size_t special = valid && c.code < 0x80 ? kSpecial.find(static_cast<char>(c.code))
                                                    : std::string_view::npos;
      if (special != std::string_view::npos) {
        out_.append(std::string{'\\', "\"\\nrtbf"[special]}, s.trusted_at(at));
      } else if (valid && (c.code < 0x20 || (style_.ascii_only && c.code > 0x7E))) {
        put(escape(c.code));
      } else {
        out_.append(s, at, end);
      }
      at = end;
    }
    out_.append("\"", true);
  }

  static std::string escape(uint32_t code) {
    char buffer[16];
    if (code < 0x10000) {
      std::snprintf(buffer, sizeof buffer, "\\u%04x", code);
    } else {
      std::snprintf(buffer, sizeof buffer, "\\u%04x\\u%04x", 0xD800 + ((code - 0x10000) >> 10),
                    0xDC00 + (code & 0x3FF));
    }
    return buffer;
  }

  const JsonStyle& style_;
  Budget& budget_;
  MarkedText out_;
};

}  // namespace

Result<Value> parse_json(std::string_view json) {
  try {
    return Reader(json).document();
  } catch (const TemplateError& e) {
    return invalid_data(e.what());
  }
}

MarkedText to_json(const Value& value, const JsonStyle& style, Budget& budget) {
  Writer writer(style, budget);
  writer.write(value, 0);
  return writer.take();
}

}  // namespace chimere::text::jinja
