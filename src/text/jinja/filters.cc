// Filters of single values, and how filters are found.
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <unordered_map>

#include "text/jinja/characters.h"
#include "text/jinja/json.h"
#include "text/jinja/runtime.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace chimere::text::jinja {
namespace {

/// Text filters work on what str() gives.
MarkedText text_of(Runtime& runtime, const Value& v) { return to_text(v, runtime.budget); }

template <MarkedText (*fn)(const MarkedText&)>
Value mapped(Runtime& runtime, const Value& input, const Arguments&) {
  return Value::string(fn(text_of(runtime, input)));
}

Value filter_default(Runtime&, const Value& input, const Arguments& a) {
  const bool missing = a.truth(1, "boolean", false) ? !input.truth() : input.is_undefined();
  return missing ? a.get(0, "default_value", Value::string("", true)) : input;
}

Value filter_trim(Runtime& runtime, const Value& input, const Arguments& a) {
  const MarkedText text = text_of(runtime, input);
  const Value chars = a.get(0, "chars", Value::none());
  if (chars.is_none()) return Value::string(strip(text, "", true, true));
  if (!chars.is_string()) fail("'trim' needs a string of characters.");
  if (chars.as_text().empty()) return Value::string(text);
  return Value::string(strip(text, chars.as_bytes(), true, true));
}

Value filter_replace(Runtime& runtime, const Value& input, const Arguments& a) {
  const MarkedText text = text_of(runtime, input);
  const MarkedText from = text_of(runtime, a.require(0, "old", "replace"));
  const MarkedText to = text_of(runtime, a.require(1, "new", "replace"));
  const int64_t count = a.integer(2, "count", -1);
  // The largest result there can be is charged before it is made.
  const auto places =
      static_cast<int64_t>(from.empty() ? text.size() + 1 : text.size() / from.size());
  runtime.budget.step(places);
  int64_t found = places;
  if (!from.empty()) {
    found = 0;
    for (size_t at = text.bytes().find(from.bytes()); at != std::string::npos;
         at = text.bytes().find(from.bytes(), at + from.size())) {
      ++found;
    }
  }
  runtime.budget.bytes(found * static_cast<int64_t>(to.size()) + static_cast<int64_t>(text.size()));
  return Value::string(replace(text, from, to, count));
}

Value filter_int(Runtime&, const Value& input, const Arguments& a) {
  Value otherwise = a.get(0, "default", Value::integer(0));
  const int64_t base = a.integer(1, "base", 10);
  if (input.is_undefined()) fail("'" + input.undefined_name() + "' is undefined.");
  double number = 0;
  if (input.is_bool() || input.is_integer()) return Value::integer(input.as_integer());
  if (input.is_real()) {
    number = input.as_real();
  } else if (input.is_string()) {
    const std::string text = strip(input.as_text(), "", true, true).bytes();
    if (text.empty() || base < 2 || base > 36) return otherwise;
    char* end = nullptr;
    errno = 0;
    const long long integer = std::strtoll(text.c_str(), &end, static_cast<int>(base));
    if (end == text.c_str() + text.size() && errno == 0) return Value::integer(integer);
    number = std::strtod(text.c_str(), &end);
    if (end != text.c_str() + text.size()) return otherwise;
  } else {
    return otherwise;
  }
  if (!(std::abs(number) < 9.2e18)) return otherwise;
  return Value::integer(static_cast<int64_t>(number));
}

Value filter_float(Runtime&, const Value& input, const Arguments& a) {
  if (input.is_undefined()) fail("'" + input.undefined_name() + "' is undefined.");
  if (input.is_number()) return Value::real(input.as_real());
  if (input.is_string()) {
    const std::string text = strip(input.as_text(), "", true, true).bytes();
    char* end = nullptr;
    const double number = std::strtod(text.c_str(), &end);
    if (!text.empty() && end == text.c_str() + text.size()) return Value::real(number);
  }
  return a.get(0, "default", Value::real(0));
}

Value filter_round(Runtime&, const Value& input, const Arguments& a) {
  if (!input.is_number()) fail("'round' needs a number, not a " + input.type_name() + ".");
  const int64_t precision = a.integer(0, "precision", 0);
  const Value method = a.get(1, "method", Value::string("common", true));
  const double number = input.as_real();
  if (precision < -300 || precision > 300) fail("'round' cannot keep that many digits.");
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const auto is = [&method](const char* name) {
    return method.is_string() && method.as_bytes() == name;
  };
  if (is("ceil") || is("floor")) {
    const double whole = is("ceil") ? std::ceil(number * scale) : std::floor(number * scale);
    if (!std::isfinite(whole)) fail("'round' cannot make an integer of that number.");
    return Value::real((whole + 0.0) / scale);  // + 0.0: Python's integers have no negative zero
  }
  if (!is("common")) fail("'round' knows the methods common, ceil and floor.");
  if (!input.is_real() && precision >= 0) return Value::integer(input.as_integer());
  if (precision <= 0) {
    const double rounded = std::nearbyint(number * scale) / scale;
    return input.is_real() ? Value::real(rounded) : Value::integer(std::llround(rounded));
  }
  char buffer[800];
  std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(precision), number);
  return Value::real(std::strtod(buffer, nullptr));
}

Value filter_abs(Runtime& runtime, const Value& input, const Arguments&) {
  if (!input.is_number()) fail("'abs' needs a number, not a " + input.type_name() + ".");
  if (input.is_real()) return Value::real(std::abs(input.as_real()));
  const Value zero = Value::integer(0);
  return input.as_integer() < 0 ? arithmetic(runtime, "-", zero, input)
                                : arithmetic(runtime, "+", zero, input);
}

Value filter_tojson(Runtime& runtime, const Value& input, const Arguments& a) {
  // The order of parameters is that of transformers' own tojson.
  JsonStyle style;
  style.ascii_only = a.truth(0, "ensure_ascii", false);
  style.indent = static_cast<int>(std::clamp<int64_t>(a.integer(1, "indent", -1), -1, 64));
  if (style.indent >= 0) style.item_separator = ",";
  const Value separators = a.get(2, "separators", Value::none());
  if (separators.is_list()) {
    const auto& items = separators.as_list().items;
    if (items.size() != 2 || !items[0].is_string() || !items[1].is_string()) {
      fail("The separators of 'tojson' must be two strings.");
    }
    style.item_separator = items[0].as_bytes();
    style.key_separator = items[1].as_bytes();
  }
  style.sort_keys = a.truth(3, "sort_keys", false);
  return Value::string(to_json(input, style, runtime.budget));
}

Value filter_indent(Runtime& runtime, const Value& input, const Arguments& a) {
  const Value width = a.get(0, "width", Value::integer(4));
  const bool first = a.truth(1, "first", false);
  const bool blank = a.truth(2, "blank", false);
  MarkedText margin;
  if (width.is_string()) {
    margin = width.as_text();
  } else {
    const int64_t n = a.integer(0, "width", 4);
    runtime.budget.bytes(std::max<int64_t>(n, 0));
    margin = MarkedText(std::string(std::max<int64_t>(n, 0), ' '), true);
  }
  if (!input.is_string()) fail("'indent' needs a string, not a " + input.type_name() + ".");
  MarkedText text = input.as_text();
  runtime.budget.bytes(static_cast<int64_t>(text.size()));
  text.append("\n", true);  // the original does so too: a line end at the end is kept
  MarkedText out;
  bool is_first = true;
  for (const MarkedText& line : split_lines(text, false)) {
    runtime.budget.bytes(static_cast<int64_t>(line.size() + margin.size()) + 1);
    if (!is_first) out.append("\n", true);
    if (is_first ? first : blank || !line.empty()) out.append(margin);
    out.append(line);
    is_first = false;
  }
  return Value::string(std::move(out));
}

Value filter_escape(Runtime& runtime, const Value& input, const Arguments&) {
  const MarkedText text = text_of(runtime, input);
  MarkedText out;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text.bytes()[at];
    const char* entity = c == '&'    ? "&amp;"
                         : c == '<'  ? "&lt;"
                         : c == '>'  ? "&gt;"
                         : c == '\'' ? "&#39;"
                         : c == '"'  ? "&#34;"
                                     : nullptr;
    if (entity == nullptr) {
      out.append(text, at, at + 1);
    } else {
      runtime.budget.bytes(5);
      out.append(entity, text.trusted_at(at));
    }
  }
  return Value::string(std::move(out));
}

Value filter_truncate(Runtime& runtime, const Value& input, const Arguments& a) {
  const MarkedText text = text_of(runtime, input);
  const int64_t length = a.integer(0, "length", 255);
  const bool kill_words = a.truth(1, "killwords", false);
  const MarkedText end = text_of(runtime, a.get(2, "end", Value::string("...", true)));
  const int64_t leeway = a.integer(3, "leeway", 5);
  const std::vector<size_t> offsets = character_offsets(text.bytes());
  const auto n = static_cast<int64_t>(offsets.size()) - 1;
  const int64_t end_length = count_characters(end.bytes());
  if (length < end_length || leeway < 0) fail("'truncate' needs room for its end mark.");
  if (n <= length || n - length <= leeway) return Value::string(text);
  MarkedText out = text.substr(0, offsets[length - end_length]);
  if (!kill_words) {
    const size_t space = out.bytes().rfind(' ');
    if (space != std::string::npos) out = out.substr(0, space);
  }
  out.append(end);
  return Value::string(std::move(out));
}

Value filter_format(Runtime& runtime, const Value& input, const Arguments& a) {
  return Value::string(
      format_percent(runtime, text_of(runtime, input), Value::tuple(a.positional)));
}

Value filter_string(Runtime& runtime, const Value& input, const Arguments&) {
  return input.is_string() ? input : Value::string(text_of(runtime, input));
}

Value filter_wordcount(Runtime& runtime, const Value& input, const Arguments&) {
  // Words as \w of regular expressions finds them.
  const std::string text = text_of(runtime, input).bytes();
  int64_t words = 0;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = read_utf8(text, at);
    const bool part = is_letter(c.code) || is_number(c.code) || c.code == '_';
    words += part && !inside ? 1 : 0;
    inside = part;
    at += c.length;
  }
  return Value::integer(words);
}

Value filter_center(Runtime& runtime, const Value& input, const Arguments& a) {
  Arguments width;
  width.positional = {a.get(0, "width", Value::integer(80))};
  return call_string_method(runtime, Value::string(text_of(runtime, input)), "center", width);
}

/// Percent-encodes all but letters, digits and `safe`; as a part of a query, spaces become '+'.
void write_quoted(Runtime& runtime, const MarkedText& text, bool query, MarkedText& out) {
  const std::string_view safe = query ? "_.-~" : "_.-~/";
  runtime.budget.bytes(3 * static_cast<int64_t>(text.size()));
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text.bytes()[at];
    const bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                       safe.find(c) != std::string_view::npos;
    char code[4] = {};
    std::snprintf(code, sizeof code, "%%%02X", static_cast<uint8_t>(c));
    out.append(plain               ? std::string_view(&c, 1)
               : query && c == ' ' ? "+"
                                   : code,
               text.trusted_at(at));
  }
}

Value filter_urlencode(Runtime& runtime, const Value& input, const Arguments&) {
  MarkedText out;
  if (!input.is_dict() && !input.is_list()) {
    write_quoted(runtime, text_of(runtime, input), false, out);
    return Value::string(std::move(out));
  }
  const Value pairs = input.is_dict() ? call_method(runtime, input, "items", {}) : input;
  for (const Value& pair : pairs.as_list().items) {
    const std::vector<Value> parts = elements(pair, runtime.budget);
    if (parts.size() != 2) fail("'urlencode' needs pairs of a name and a value.");
    if (!out.empty()) out.append("&", true);
    write_quoted(runtime, text_of(runtime, parts[0]), true, out);
    out.append("=", true);
    write_quoted(runtime, text_of(runtime, parts[1]), true, out);
  }
  return Value::string(std::move(out));
}

Value filter_attr(Runtime& runtime, const Value& input, const Arguments& a) {
  const Value& name = a.require(0, "name", "attr");
  if (!name.is_string()) fail("'attr' needs the name of an attribute.");
  // Unlike a dot, the filter does not look into dictionaries.
  if (input.is_dict() && !has_method(input, name.as_bytes()))
    return Value::undefined(name.as_bytes());
  return get_attribute(runtime, input, name.as_bytes());
}

}  // namespace

FilterFunction find_text_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, FilterFunction> table = {
      {"default", filter_default},
      {"d", filter_default},
      {"trim", filter_trim},
      {"replace", filter_replace},
      {"upper", mapped<upper>},
      {"lower", mapped<lower>},
      {"capitalize", mapped<capitalize>},
      {"title",
       [](Runtime& runtime, const Value& input, const Arguments&) {
         return Value::string(title(text_of(runtime, input), false));
       }},
      {"int", filter_int},
      {"float", filter_float},
      {"round", filter_round},
      {"abs", filter_abs},
      {"tojson", filter_tojson},
      {"indent", filter_indent},
      {"escape", filter_escape},
      {"e", filter_escape},
      {"truncate", filter_truncate},
      {"format", filter_format},
      {"string", filter_string},
      {"safe", filter_string},  // nothing escapes by itself here
      {"attr", filter_attr},
      {"wordcount", filter_wordcount},
      {"center", filter_center},
      {"urlencode", filter_urlencode},
  };
  const auto it = table.find(name);
  return it == table.end() ? nullptr : it->second;
}

Value apply_filter(Runtime& runtime, std::string_view name, const Value& input,
                   const Arguments& arguments) {
  runtime.budget.step();
  FilterFunction filter = find_text_filter(name);
  if (filter == nullptr) filter = find_sequence_filter(name);
  if (filter == nullptr) fail("There is no filter '" + std::string(name) + "'.");
  return filter(runtime, input, arguments);
}

std::vector<MarkedText> split_lines(const MarkedText& s, bool keep_ends) {
  std::vector<MarkedText> lines;
  const std::string& bytes = s.bytes();
  size_t begin = 0;
  for (size_t at = 0; at < bytes.size();) {
    const Utf8Char c = read_utf8(bytes, at);
    size_t end = at + (c.kind == Utf8Char::Kind::kValid ? c.length : 1);
    const bool ends_line = (c.code >= 10 && c.code <= 13) || (c.code >= 0x1C && c.code <= 0x1E) ||
                           c.code == 0x85 || c.code == 0x2028 || c.code == 0x2029;
    if (ends_line) {
      if (c.code == '\r' && end < bytes.size() && bytes[end] == '\n') ++end;
      lines.push_back(s.substr(begin, keep_ends ? end : at));
      begin = end;
    }
    at = end;
  }
  if (begin < s.size()) lines.push_back(s.substr(begin, s.size()));
  return lines;
}

MarkedText format_percent(Runtime& runtime, const MarkedText& format, const Value& values) {
  const bool many = values.is_list() && values.as_list().tuple;
  size_t used = 0;
  const auto next = [&]() -> const Value& {
    if (many ? used >= values.as_list().items.size() : used > 0) {
      fail("The format string needs more values.");
    }
    ++used;
    return many ? values.as_list().items[used - 1] : values;
  };
  MarkedText out;
  const std::string& f = format.bytes();
  runtime.budget.bytes(static_cast<int64_t>(f.size()));
  for (size_t at = 0; at < f.size(); ++at) {
    if (f[at] != '%') {
      out.append(format, at, at + 1);
      continue;
    }
    size_t end = at + 1;
    const auto skip = [&](std::string_view set) {
      while (end < f.size() && set.find(f[end]) != std::string_view::npos) ++end;
    };
    skip("-+ 0");
    skip("0123456789");
    if (end < f.size() && f[end] == '.') {
      ++end;
      skip("0123456789");
    }
    const char kind = end < f.size() ? f[end] : '\0';
    const std::string flags = f.substr(at + 1, end - at - 1);
    if (kind == '%' && flags.empty()) {
      out.append("%", true);
    } else if (kind == 's' && flags.empty()) {
      write_str(next(), runtime.budget, out);
    } else if (kind == 'r' && flags.empty()) {
      write_repr(next(), runtime.budget, out);
    } else if ((kind == 'd' || kind == 'i' || kind == 'f' || kind == 'x') && flags.size() <= 5) {
      const Value& v = next();
      if (!v.is_number()) fail("The format string needs a number, not a " + v.type_name() + ".");
      const std::string pattern = "%" + flags + (kind == 'f' ? "f" : kind == 'x' ? "llx" : "lld");
      const double real = v.as_real();
      if (kind != 'f' && !(std::abs(real) < 9.2e18)) fail("A number is out of range.");
      const auto integer =
          static_cast<long long>(v.is_real() ? real : 0) + (v.is_real() ? 0 : v.as_integer());
      // Flags are digits, signs and dots, at most five: the width stays below 100000.
      std::string buffer(101'000, '\0');
      const int n = kind == 'f'
                        ? std::snprintf(buffer.data(), buffer.size(), pattern.c_str(), real)
                        : std::snprintf(buffer.data(), buffer.size(), pattern.c_str(), integer);
      runtime.budget.bytes(static_cast<int64_t>(buffer.size()));
      if (n < 0 || n >= static_cast<int>(buffer.size())) fail("A formatted number is too long.");
      out.append(std::string_view(buffer).substr(0, n), true);
    } else {
      const size_t length = end < f.size() ? static_cast<size_t>(read_utf8(f, end).length) : 0;
      fail("The format '%" + flags + f.substr(end, length) + "' is not supported.");
    }
    at = end;
  }
  if (many && used < values.as_list().items.size()) fail("The format string has too many values.");
  return out;
}

}  // namespace chimere::text::jinja
