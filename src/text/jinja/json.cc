#include "text/jinja/json.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "text/jinja/characters.h"
#include "text/utf8.h"

namespace chimere::text::jinja {
namespace {

/// Makes a value from the events of nlohmann's parser.
class Builder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  Value take() { return std::move(value_); }
  const std::string& error() const { return error_; }

  bool null() override { return add(Value::none()); }
  bool boolean(bool value) override { return add(Value::boolean(value)); }
  bool number_integer(number_integer_t value) override { return add(Value::integer(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    const bool fits = value <= static_cast<number_unsigned_t>(INT64_MAX);
    return add(fits ? Value::integer(static_cast<int64_t>(value))
                    : Value::real(static_cast<double>(value)));
  }
  bool number_float(number_float_t value, const string_t&) override {
    return add(Value::real(value));
  }
  bool string(string_t& value) override { return add(Value::string(value, false)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(true); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(false); }
  bool end_array() override { return close(); }
  bool key(string_t& value) override {
    open_.back().key = value;
    return true;
  }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    error_ = "The JSON text is damaged at byte " + std::to_string(position) + ".";
    return false;
  }

 private:
  struct Container {
    bool is_dict = false;
    Dict dict;
    std::vector<Value> list;
    std::string key;
  };

  bool open(bool is_dict) {
    if (open_.size() + 1 >= kMaxNesting) {
      error_ = "The JSON text is nested too deeply.";
      return false;
    }
    open_.emplace_back().is_dict = is_dict;
    return true;
  }
  bool close() {
    Container done = std::move(open_.back());
    open_.pop_back();
    return add(done.is_dict ? Value::dict(std::move(done.dict))
                            : Value::list(std::move(done.list)));
  }
  bool add(Value value) {
    if (open_.empty()) {
      value_ = std::move(value);
    } else if (Container& into = open_.back(); into.is_dict) {
      into.dict.set(Value::string(into.key, false), std::move(value));
    } else {
      into.list.push_back(std::move(value));
    }
    return true;
  }

  std::vector<Container> open_;
  Value value_;
  std::string error_;
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
  Builder builder;
  if (!nlohmann::json::sax_parse(json, &builder)) return invalid_data(builder.error());
  return builder.take();
}

MarkedText to_json(const Value& value, const JsonStyle& style, Budget& budget) {
  Writer writer(style, budget);
  writer.write(value, 0);
  return writer.take();
}

}  // namespace chimere::text::jinja
