// Filters of single values, and how filters are found.
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
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
  return replace_text(runtime, text, from, to, a.integer_or_none(2, "count", -1));
}

/// The digits of a number in Python's notation, where an underscore may stand between two of them;
/// empty: there is something else.
std::string plain_digits(std::string_view text, int base) {
  std::string digits;
  bool after_digit = false;
  for (const char c : text) {
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 10
                      : c >= 'A' && c <= 'Z' ? c - 'A' + 10
                                             : base;
    if (digit >= base && (c != '_' || !after_digit)) return {};
    after_digit = digit < base;
    if (after_digit) digits += c;
  }
  return after_digit ? digits : "";
}

/// Python's int(text, base), if it is one.
std::optional<int64_t> parse_integer(std::string_view text, int64_t base) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  for (const auto& [letters, prefixed] : {std::pair{"xX", 16}, {"oO", 8}, {"bB", 2}}) {
    const bool has = text.size() > 2 && text[0] == '0' && std::strchr(letters, text[1]) != nullptr;
    if (!has || (base != 0 && base != prefixed)) continue;
    base = prefixed;
    text.remove_prefix(text[2] == '_' ? 3 : 2);
    break;
  }
  const bool zeros_only = text.find_first_not_of("0_") == std::string_view::npos;
  if (base == 0 && text.starts_with('0') && !zeros_only) return std::nullopt;
  const std::string digits = plain_digits(text, base == 0 ? 10 : static_cast<int>(base));
  if (digits.empty()) return std::nullopt;
  errno = 0;
  const long long value = std::strtoll(((negative ? "-" : "") + digits).c_str(), nullptr,
                                       base == 0 ? 10 : static_cast<int>(base));
  if (errno != 0) fail("An integer grows beyond 64 bits.");
  return value;
}

/// Python's float(text), if it is one.
std::optional<double> parse_real(const MarkedText& marked) {
  std::string text = lower(strip(marked, "", true, true)).bytes();
  const size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  const std::string_view unsigned_text = std::string_view(text).substr(sign);
  const bool word = unsigned_text == "inf" || unsigned_text == "infinity" || unsigned_text == "nan";
  for (size_t at = 0; !word && at < text.size(); ++at) {
    if (std::strchr("0123456789.e+-_", text[at]) == nullptr) return std::nullopt;
    if (text[at] != '_') continue;
    const auto digit_at = [&](size_t i) {
      return i < text.size() && text[i] >= '0' && text[i] <= '9';
    };
    if (at == 0 || !digit_at(at - 1) || !digit_at(at + 1)) return std::nullopt;
    text.erase(at, 1);
  }
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || end != text.c_str() + text.size()) return std::nullopt;
  return number;
}

Value filter_int(Runtime&, const Value& input, const Arguments& a) {
  if (input.is_undefined()) fail("'" + input.undefined_name() + "' is undefined.");
  if (input.is_bool() || input.is_integer()) return Value::integer(input.as_integer());
  const Value base = a.get(1, "base", Value::integer(10));
  std::optional<double> number;
  if (input.is_real()) {
    number = input.as_real();
  } else if (input.is_string()) {
    const std::string text = strip(input.as_text(), "", true, true).bytes();
    if (base.is_bool() || base.is_integer()) {
      if (const auto integer = parse_integer(text, base.as_integer()))
        return Value::integer(*integer);
    }
    number = parse_real(input.as_text());
  }
  if (!number.has_value() || std::isnan(*number)) return a.get(0, "default", Value::integer(0));
  if (!(std::abs(*number) < 9.2e18)) fail("An integer grows beyond 64 bits.");
  return Value::integer(static_cast<int64_t>(*number));
}

/// Python's float() of a number or a string, if it is one.
std::optional<double> real_of(const Value& v) {
  if (v.is_undefined()) fail("'" + v.undefined_name() + "' is undefined.");
  if (v.is_number()) return v.as_real();
  return v.is_string() ? parse_real(v.as_text()) : std::nullopt;
}

Value filter_float(Runtime&, const Value& input, const Arguments& a) {
  const std::optional<double> number = real_of(input);
  return number.has_value() ? Value::real(*number) : a.get(0, "default", Value::real(0));
}

/// Python's round() of an integer to a multiple of a power of ten.
int64_t round_integer(int64_t number, int64_t zeros) {
  if (zeros > 18) return 0;
  int64_t unit = 1;
  for (int64_t i = 0; i < zeros; ++i) unit *= 10;
  int64_t whole = number / unit;
  const int64_t rest = std::abs(number % unit);
  const bool away = rest > unit - rest || (rest == unit - rest && whole % 2 != 0);
  if (away) whole += number < 0 ? -1 : 1;
  int64_t rounded = 0;
  if (__builtin_mul_overflow(whole, unit, &rounded)) fail("An integer grows beyond 64 bits.");
  return rounded;
}

Value filter_round(Runtime&, const Value& input, const Arguments& a) {
  if (!input.is_number()) fail("'round' needs a number, not a " + input.type_name() + ".");
  const Value method = a.get(1, "method", Value::string("common", true));
  const double number = input.as_real();
  const auto is = [&method](const char* name) {
    return method.is_string() && method.as_bytes() == name;
  };
  const Value* given = a.find(0, "precision");
  const bool to_integer = is("common") && given != nullptr && given->is_none();
  const int64_t precision = to_integer ? 0 : a.integer(0, "precision", 0);
  if (precision < -300 || precision > 300) fail("'round' cannot keep that many digits.");
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (is("ceil") || is("floor")) {
    const double whole = is("ceil") ? std::ceil(number * scale) : std::floor(number * scale);
    if (!std::isfinite(whole)) fail("'round' cannot make an integer of that number.");
    return Value::real((whole + 0.0) / scale);  // + 0.0: Python's integers have no negative zero
  }
  if (!is("common")) fail("'round' knows the methods common, ceil and floor.");
  if (!input.is_real()) {
    return Value::integer(precision >= 0 ? input.as_integer()
                                         : round_integer(input.as_integer(), -precision));
  }
  if (to_integer && !(std::abs(number) < 9.2e18)) fail("An integer grows beyond 64 bits.");
  if (precision <= 0) {
    const double unit = std::pow(10.0, static_cast<double>(-precision));
    const double rounded = std::nearbyint(number / unit) * unit;
    return to_integer ? Value::integer(static_cast<int64_t>(rounded)) : Value::real(rounded);
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

/// A string, or as many spaces as a number says.
MarkedText margin_of(Runtime& runtime, const Value& width, std::string_view name) {
  if (width.is_string()) return width.as_text();
  Arguments only;
  only.positional = {width};
  const int64_t n = std::max<int64_t>(only.integer(0, name, 0), 0);
  runtime.budget.bytes(n);
  return {std::string(static_cast<size_t>(n), ' '), true};
}

Value filter_tojson(Runtime& runtime, const Value& input, const Arguments& a) {
  // The order of parameters is that of transformers' own tojson.
  JsonStyle style;
  style.ascii_only = a.truth(0, "ensure_ascii", false);
  const Value indent = a.get(1, "indent", Value::none());
  if (!indent.is_none()) {
    style.lines = true;
    style.indent = margin_of(runtime, indent, "indent");
    style.item_separator = MarkedText(",", true);
  }
  const Value separators = a.get(2, "separators", Value::none());
  std::vector<Value> items;
  if (!separators.is_none()) {
    items = elements(separators, runtime.budget);
    if (items.size() != 2 || !items[0].is_string() || !items[1].is_string()) {
      fail("The separators of 'tojson' must be two strings.");
    }
    style.item_separator = items[0].as_text();
    style.key_separator = items[1].as_text();
  }
  style.sort_keys = a.truth(3, "sort_keys", false);
  return Value::string(to_json(input, style, runtime.budget));
}

Value filter_indent(Runtime& runtime, const Value& input, const Arguments& a) {
  const bool first = a.truth(1, "first", false);
  const bool blank = a.truth(2, "blank", false);
  const MarkedText margin = margin_of(runtime, a.get(0, "width", Value::integer(4)), "width");
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
  const Value limit = a.get(0, "length", Value::integer(255));
  const bool kill_words = a.truth(1, "killwords", false);
  const Value end = a.get(2, "end", Value::string("...", true));
  Value leeway = a.get(3, "leeway", Value::none());
  if (leeway.is_none()) leeway = Value::integer(5);
  const auto less = [&](const Value& x, const Value& y) {
    return compare(x, y, runtime.budget) < 0;
  };
  const Value end_length = Value::integer(length(end));
  if (less(limit, end_length) || less(leeway, Value::integer(0))) {
    fail("'truncate' needs room for its end mark.");
  }
  const Value most = arithmetic(runtime, "+", limit, leeway);
  if (!less(most, Value::integer(length(input)))) return input;
  if (!input.is_string() || !end.is_string()) fail("'truncate' can cut strings only.");
  const Value kept = arithmetic(runtime, "-", limit, end_length);
  const Value cut = get_slice(runtime, input, Value::none(), kept, Value::none());
  const size_t space = kill_words ? std::string::npos : cut.as_bytes().rfind(' ');
  MarkedText out = space == std::string::npos ? cut.as_text() : cut.as_text().substr(0, space);
  out.append(end.as_text());
  return Value::string(std::move(out));
}

Value filter_format(Runtime& runtime, const Value& input, const Arguments& a) {
  if (!a.positional.empty() && !a.named.empty()) {
    fail("'format' takes either values or named values.");
  }
  Dict named;
  for (const auto& [name, value] : a.named) named.set(name, value);
  return Value::string(
      format_percent(runtime, text_of(runtime, input),
                     a.named.empty() ? Value::tuple(a.positional) : Value::dict(std::move(named))));
}

Value filter_filesizeformat(Runtime&, const Value& input, const Arguments& a) {
  const std::optional<double> size = real_of(input);
  if (!size.has_value()) fail("'filesizeformat' needs a number.");
  const bool binary = a.truth(0, "binary", false);
  const double base = binary ? 1024 : 1000;
  if (*size == 1) return Value::string("1 Byte", true);
  if (*size < base) {
    if (!std::isfinite(*size)) fail("'filesizeformat' needs a finite number.");
    if (!(std::abs(*size) < 9.2e18)) fail("An integer grows beyond 64 bits.");
    return Value::string(std::to_string(static_cast<int64_t>(*size)) + " Bytes", true);
  }
  if (std::isnan(*size)) return Value::string(binary ? "nan YiB" : "nan YB", true);
  constexpr std::string_view kPrefixes = "kMGTPEZY";
  size_t at = 0;
  double unit = base * base;
  for (; at + 1 < kPrefixes.size() && *size >= unit; ++at) unit *= base;
  char number[400];
  std::snprintf(number, sizeof number, "%.1f ", base * *size / unit);
  const char prefix = binary && at == 0 ? 'K' : kPrefixes[at];
  return Value::string(std::string(number) + prefix + (binary ? "iB" : "B"), true);
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
  if (input.is_string() || !can_be_looped_over(input)) {
    write_quoted(runtime, text_of(runtime, input), false, out);
    return Value::string(std::move(out));
  }
  const Value pairs = input.is_dict() ? call_method(runtime, input, "items", {}) : input;
  for (const Value& pair : elements(pairs, runtime.budget)) {
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

const Filter* find_text_filter(std::string_view name) {
  static const std::unordered_map<std::string_view, Filter> table = {
      {"default", {filter_default, "[default_value] [boolean]"}},
      {"d", {filter_default, "[default_value] [boolean]"}},
      {"trim", {filter_trim, "[chars]"}},
      {"replace", {filter_replace, "old new [count]"}},
      {"upper", {mapped<upper>, ""}},
      {"lower", {mapped<lower>, ""}},
      {"capitalize", {mapped<capitalize>, ""}},
      {"title",
       {[](Runtime& runtime, const Value& input, const Arguments&) {
          return Value::string(title(text_of(runtime, input), false));
        },
        ""}},
      {"int", {filter_int, "[default] [base]"}},
      {"float", {filter_float, "[default]"}},
      {"round", {filter_round, "[precision] [method]"}},
      {"abs", {filter_abs, ""}},
      {"tojson", {filter_tojson, "[ensure_ascii] [indent] [separators] [sort_keys]"}},
      {"indent", {filter_indent, "[width] [first] [blank]"}},
      {"escape", {filter_escape, ""}},
      {"e", {filter_escape, ""}},
      {"forceescape", {filter_escape, ""}},
      {"truncate", {filter_truncate, "[length] [killwords] [end] [leeway]"}},
      {"format", {filter_format, "*"}},
      {"string", {filter_string, ""}},
      {"safe", {filter_string, ""}},  // nothing escapes by itself here
      {"attr", {filter_attr, "name"}},
      {"wordcount", {filter_wordcount, ""}},
      {"center", {filter_center, "[width]"}},
      {"urlencode", {filter_urlencode, ""}},
      {"filesizeformat", {filter_filesizeformat, "[binary]"}},
  };
  const auto it = table.find(name);
  return it == table.end() ? nullptr : &it->second;
}

Value replace_text(Runtime& runtime, const MarkedText& text, const MarkedText& from,
                   const MarkedText& to, int64_t count) {
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

const Filter* find_filter(std::string_view name) {
  const Filter* filter = find_text_filter(name);
  if (filter == nullptr) filter = find_sequence_filter(name);
  return filter != nullptr ? filter : find_layout_filter(name);
}

Value apply_filter(Runtime& runtime, std::string_view name, const Value& input,
                   const Arguments& arguments) {
  runtime.budget.step();
  const Filter* filter = find_filter(name);
  if (filter == nullptr) fail("There is no filter '" + std::string(name) + "'.");
  check_arguments(name, filter->parameters, arguments);
  return filter->call(runtime, input, arguments);
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

}  // namespace chimere::text::jinja
