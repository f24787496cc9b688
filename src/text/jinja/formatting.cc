// Python's two ways to format: `format % values` and format.format(...).
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "text/jinja/characters.h"
#include "text/jinja/runtime.h"
#include "text/utf8.h"

namespace chimere::text::jinja {
namespace {

/// How a value is laid out: https://docs.python.org/3/library/string.html#formatspec, and what the
/// flags of the operator % say.
struct Spec {
  std::string fill = " ";  ///< one character
  char align = 0;          ///< one of < > ^ = (after the sign); 0: not given
  char sign = 0;           ///< + - or a space; 0: not given
  bool no_negative_zero = false;
  bool alternate = false;
  int64_t width = 0;
  char grouping = 0;  ///< , or _ between digits
  int64_t precision = -1;
  char type = 0;
};

bool is_one_of(char c, std::string_view set) {
  return c != 0 && set.find(c) != std::string_view::npos;
}

/// A number at `at`, or `otherwise`. Huge widths fail later, when their bytes are charged.
int64_t read_number(std::string_view s, size_t& at, int64_t otherwise) {
  if (at >= s.size() || s[at] < '0' || s[at] > '9') return otherwise;
  int64_t number = 0;
  for (; at < s.size() && s[at] >= '0' && s[at] <= '9'; ++at) {
    number = number * 10 + (s[at] - '0');
    if (number > INT32_MAX) fail("A format has too many digits.");
  }
  return number;
}

Spec parse_spec(std::string_view s, bool number) {
  Spec spec;
  size_t at = 0;
  const auto take = [&](std::string_view set) {
    return at < s.size() && is_one_of(s[at], set) ? s[at++] : '\0';
  };
  const size_t first = s.empty() ? 0 : static_cast<size_t>(read_utf8(s, 0).length);
  const bool has_fill = first > 0 && first < s.size() && is_one_of(s[first], "<>=^");
  if (has_fill) {
    spec.fill = s.substr(0, first);
    at = first;
  }
  spec.align = take("<>=^");
  spec.sign = take("+- ");
  spec.no_negative_zero = take("z") != 0;
  spec.alternate = take("#") != 0;
  if (!has_fill && take("0") != 0) {
    spec.fill = "0";
    if (spec.align == 0 && number) spec.align = '=';
  }
  spec.width = read_number(s, at, 0);
  spec.grouping = take(",_");
  if (take(".") != 0) {
    spec.precision = read_number(s, at, -1);
    if (spec.precision < 0) fail("The format '" + std::string(s) + "' misses a precision.");
  }
  if (at + 1 == s.size()) spec.type = s[at++];
  if (at != s.size()) fail("The format '" + std::string(s) + "' is not valid.");
  return spec;
}

/// `text` filled up to the width, between the first `before` characters and the others for '='.
MarkedText filled(Runtime& runtime, const MarkedText& text, const Spec& spec, char align,
                  size_t before = 0) {
  const int64_t missing = std::max<int64_t>(spec.width - count_characters(text.bytes()), 0);
  runtime.budget.bytes(missing * static_cast<int64_t>(spec.fill.size()));
  const int64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  const auto fill = [&](int64_t n, MarkedText& out) {
    for (int64_t i = 0; i < n; ++i) out.append(spec.fill, true);
  };
  MarkedText out = text.substr(0, align == '=' ? before : 0);
  fill(left, out);
  out.append(text, out.size() - spec.fill.size() * static_cast<size_t>(left), text.size());
  fill(missing - left, out);
  return out;
}

/// Digits in groups, with zeros before them until there are `width` characters.
std::string grouped(std::string_view digits, char separator, int size, int64_t width) {
  std::string reversed;
  int in_group = 0;
  while (!digits.empty() || static_cast<int64_t>(reversed.size()) < width) {
    if (in_group++ == size) {
      reversed += separator;
      in_group = 1;
    }
    reversed += digits.empty() ? '0' : digits.back();
    if (!digits.empty()) digits.remove_suffix(1);
  }
  return {reversed.rbegin(), reversed.rend()};
}

/// A number of digits and what stands around them.
MarkedText number_text(Runtime& runtime, bool negative, const std::string& prefix,
                       const std::string& number, const Spec& spec) {
  std::string head = negative ? "-" : is_one_of(spec.sign, "+ ") ? std::string(1, spec.sign) : "";
  head += prefix;
  const bool in_base = is_one_of(spec.type, "boxX");
  const size_t end = in_base ? number.size() : number.find_first_not_of("0123456789");
  const size_t whole = spec.grouping == 0 ? 0 : std::min(end, number.size());
  std::string digits = number;
  if (whole > 0) {
    const bool zeros = spec.fill == "0" && spec.align == '=';
    const auto others = static_cast<int64_t>(head.size() + number.size() - whole);
    runtime.budget.bytes(zeros ? 2 * spec.width : 0);
    digits = grouped(number.substr(0, whole), spec.grouping, in_base ? 4 : 3,
                     zeros ? spec.width - others : 0) +
             number.substr(whole);
  }
  runtime.budget.bytes(static_cast<int64_t>(head.size() + digits.size()));
  return filled(runtime, MarkedText(head + digits, true), spec, spec.align == 0 ? '>' : spec.align,
                head.size());
}

std::string digits_of(uint64_t number, unsigned base, bool capitals) {
  std::string reversed;
  do {
    reversed += (capitals ? "0123456789ABCDEF" : "0123456789abcdef")[number % base];
    number /= base;
  } while (number > 0);
  return {reversed.rbegin(), reversed.rend()};
}

MarkedText integer_text(Runtime& runtime, int64_t value, const Spec& spec) {
  const bool capitals = spec.type == 'X';
  const unsigned base = spec.type == 'b'             ? 2
                        : spec.type == 'o'           ? 8
                        : is_one_of(spec.type, "xX") ? 16
                                                     : 10;
  const auto bits = static_cast<uint64_t>(value);
  std::string digits = digits_of(value < 0 ? ~bits + 1 : bits, base, capitals);
  if (spec.precision > static_cast<int64_t>(digits.size())) {
    runtime.budget.bytes(spec.precision);
    digits.insert(0, static_cast<size_t>(spec.precision) - digits.size(), '0');
  }
  const bool prefix = spec.alternate && base != 10;
  return number_text(runtime, value < 0, prefix ? std::string{'0', spec.type} : "", digits, spec);
}

/// The digits of a number that is not negative, as C's printf gives them for e, f and g.
std::string print_real(Runtime& runtime, double value, char type, int64_t precision,
                       bool alternate) {
  if (!std::isfinite(value)) {
    const bool capitals = is_one_of(type, "EFG");
    return std::isnan(value) ? capitals ? "NAN" : "nan" : capitals ? "INF" : "inf";
  }
  runtime.budget.bytes(precision + 400);
  std::string buffer(static_cast<size_t>(precision) + 400, '\0');
  const std::string pattern = std::string(alternate ? "%#.*" : "%.*") + type;
  const int n = std::snprintf(buffer.data(), buffer.size(), pattern.c_str(),
                              static_cast<int>(precision), value);
  buffer.resize(static_cast<size_t>(std::max(n, 0)));
  return buffer;
}

/// Without a type a number has an exponent or at least one digit after the point.
std::string print_plain_real(Runtime& runtime, double value, int64_t precision, bool alternate) {
  if (precision < 0 || !std::isfinite(value)) {
    std::string out = format_real(value);
    const bool point = !alternate || !std::isfinite(value) || out.find('.') != std::string::npos;
    return point ? out : out.insert(out.find('e'), 1, '.');
  }
  precision = std::max<int64_t>(precision, 1);
  std::string out = print_real(runtime, value, 'e', precision - 1, alternate);
  const size_t e = out.find('e');
  const int exponent = std::stoi(out.substr(e + 1));
  const auto without_zeros = [&](std::string s) {
    if (alternate || s.find('.') == std::string::npos) return s;
    s.erase(s.find_last_not_of('0') + 1);
    if (s.back() == '.') s.pop_back();
    return s;
  };
  if (exponent < -4 || exponent + 1 > precision - 1) {
    return without_zeros(out.substr(0, e)) + out.substr(e);
  }
  out = without_zeros(
      print_real(runtime, value, 'f', std::max<int64_t>(precision - 1 - exponent, 0), alternate));
  return out.find('.') == std::string::npos ? out + ".0" : out;
}

MarkedText real_text(Runtime& runtime, double value, const Spec& spec) {
  const bool percent = spec.type == '%';
  const char type = percent ? 'f' : spec.type == 'n' ? 'g' : spec.type;
  const double magnitude = std::abs(percent ? value * 100 : value);
  std::string number = type == 0
                           ? print_plain_real(runtime, magnitude, spec.precision, spec.alternate)
                           : print_real(runtime, magnitude, type,
                                        spec.precision < 0 ? 6 : spec.precision, spec.alternate);
  const bool zero =
      number.find_first_of("123456789inIN") >= std::min(number.find_first_of("eE"), number.size());
  const bool negative =
      std::signbit(value) && !std::isnan(value) && !(spec.no_negative_zero && zero);
  if (percent) number += '%';
  return number_text(runtime, negative, "", number, spec);
}

MarkedText ascii_text(Runtime& runtime, const Value& value) {
  MarkedText repr;
  write_repr(value, runtime.budget, repr);
  MarkedText out;
  for (size_t at = 0; at < repr.size();) {
    const Utf8Char c = read_utf8(repr.bytes(), at);
    if (c.code < 0x80) {
      out.append(repr, at, at + c.length);
    } else {
      char escape[16];
      const char* format = c.code < 0x100 ? "\\x%02x" : c.code < 0x10000 ? "\\u%04x" : "\\U%08x";
      std::snprintf(escape, sizeof escape, format, c.code);
      runtime.budget.bytes(10);
      out.append(escape, true);
    }
    at += c.length;
  }
  return out;
}

/// str, repr or ascii of a value: s, r or a.
MarkedText converted(Runtime& runtime, const Value& value, char conversion) {
  if (conversion == 'a') return ascii_text(runtime, value);
  MarkedText out;
  conversion == 'r' ? write_repr(value, runtime.budget, out)
                    : write_str(value, runtime.budget, out);
  return out;
}

MarkedText beginning(const MarkedText& text, int64_t characters) {
  if (characters < 0) return text;
  const std::vector<size_t> offsets = character_offsets(text.bytes());
  return text.substr(0, offsets[std::min(static_cast<size_t>(characters), offsets.size() - 1)]);
}

/// The character with a number, or a string that is one.
MarkedText character_text(const Value& value) {
  if (value.is_string() && count_characters(value.as_bytes()) == 1) return value.as_text();
  if (!value.is_bool() && !value.is_integer()) {
    fail("A " + value.type_name() + " is not one character.");
  }
  const int64_t code = value.as_integer();
  if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
    fail("There is no character " + std::to_string(code) + ".");
  }
  std::string out;
  append_utf8(out, static_cast<uint32_t>(code));
  return {out, true};
}

/// format(value, specification)
MarkedText format_value(Runtime& runtime, const Value& value, std::string_view text) {
  if (text.empty()) return to_text(value, runtime.budget);
  const auto refuse_if = [&](bool wrong) {
    if (wrong)
      fail("The format '" + std::string(text) + "' does not suit a " + value.type_name() + ".");
  };
  refuse_if(!value.is_string() && !value.is_number());
  const Spec spec = parse_spec(text, value.is_number());
  if (value.is_string()) {
    refuse_if(spec.sign != 0 || spec.no_negative_zero || spec.alternate || spec.align == '=' ||
              spec.grouping != 0 || (spec.type != 0 && spec.type != 's'));
    return filled(runtime, beginning(value.as_text(), spec.precision), spec,
                  spec.align == 0 ? '<' : spec.align);
  }
  refuse_if(spec.grouping != 0 &&
            (spec.type == 'n' || is_one_of(spec.type, spec.grouping == ',' ? "cboxX" : "c")));
  if (is_one_of(spec.type, "eEfFgG%") ||
      (value.is_real() && (spec.type == 0 || spec.type == 'n'))) {
    return real_text(runtime, value.as_real(), spec);
  }
  refuse_if(value.is_real() || spec.precision >= 0 || spec.no_negative_zero ||
            (spec.type != 0 && !is_one_of(spec.type, "bcdonxX")));
  if (spec.type != 'c') return integer_text(runtime, value.as_integer(), spec);
  refuse_if(spec.sign != 0 || spec.alternate);
  return filled(runtime, character_text(value), spec,
                spec.align == 0     ? '<'
                : spec.align == '=' ? '>'
                                    : spec.align);
}

/// The state of str.format().
class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const Arguments& arguments)
      : runtime_(runtime), arguments_(arguments) {}

  /// `depth`: how often a specification may hold fields of its own.
  MarkedText format(const MarkedText& s, int depth) {
    if (depth < 0) fail("The fields of a format are nested too deeply.");
    const std::string& bytes = s.bytes();
    runtime_.budget.bytes(static_cast<int64_t>(s.size()));
    MarkedText out;
    for (size_t at = 0; at < bytes.size(); ++at) {
      const char c = bytes[at];
      if (c != '{' && c != '}') {
        out.append(s, at, at + 1);
      } else if (at + 1 < bytes.size() && bytes[at + 1] == c) {
        out.append(s, at, at + 1);
        ++at;
      } else if (c == '}') {
        fail("'format' has a closing brace without an opening one.");
      } else {
        at = field(s, at + 1, depth, out);
      }
    }
    return out;
  }

 private:
  /// Writes the field that begins at `begin`; the place of its closing brace.
  size_t field(const MarkedText& s, size_t begin, int depth, MarkedText& out) {
    const std::string& bytes = s.bytes();
    size_t at = begin;
    bool in_brackets = false;
    for (; at < bytes.size(); ++at) {
      const char c = bytes[at];
      if (c == '{') fail("'format' has a brace inside a name.");
      if (c == '[') in_brackets = true;
      if (c == ']') in_brackets = false;
      if (!in_brackets && is_one_of(c, "}:!")) break;
    }
    const Value value = find(bytes.substr(begin, at - begin));
    char conversion = 0;
    if (at + 1 < bytes.size() && bytes[at] == '!') {
      conversion = bytes[at + 1];
      at += 2;
      if (!is_one_of(conversion, "rsa")) fail("'format' knows the conversions !r, !s and !a.");
      if (at < bytes.size() && !is_one_of(bytes[at], ":}")) {
        fail("'format' needs a colon after a conversion.");
      }
    }
    const size_t spec_begin = std::min(at + 1, bytes.size());
    for (int open = 1; at < bytes.size(); ++at) {
      open += bytes[at] == '{' ? 1 : bytes[at] == '}' ? -1 : 0;
      if (open == 0) break;
    }
    if (at >= bytes.size()) fail("'format' misses a closing brace.");
    MarkedText spec;
    if (spec_begin < at) spec = format(s.substr(spec_begin, at), depth - 1);
    out.append(format_value(
        runtime_, conversion == 0 ? value : Value::string(converted(runtime_, value, conversion)),
        spec.bytes()));
    return at;
  }

  /// The value of "name.member[key]".
  Value find(const std::string& name) {
    const size_t end = std::min(name.find_first_of(".["), name.size());
    const std::string first = name.substr(0, end);
    Value value = first_value(first, name.size() == end);
    for (size_t at = end; at < name.size();) {
      const bool member = name[at] == '.';
      if (!member && name[at] != '[') fail("'format' needs a dot or a bracket after a bracket.");
      const size_t stop =
          member ? std::min(name.find_first_of(".[", at + 1), name.size()) : name.find(']', at);
      if (stop == std::string::npos) fail("'format' misses a closing bracket.");
      const std::string key = name.substr(at + 1, stop - at - 1);
      if (key.empty()) fail("'format' misses the name of a member.");
      value = member           ? get_attribute(runtime_, value, key)
              : is_number(key) ? get_item(runtime_, value, Value::integer(position(key)))
                               : get_item(runtime_, value, Value::string(key, true));
      at = stop + (member ? 0 : 1);
    }
    return value;
  }

  Value first_value(const std::string& name, bool alone) {
    int64_t at = 0;
    if (alone && (name.empty() || is_number(name))) {
      const Numbering wanted = name.empty() ? Numbering::kAutomatic : Numbering::kManual;
      if (numbering_ != Numbering::kNone && numbering_ != wanted) {
        fail("'format' cannot mix numbered and unnumbered fields.");
      }
      numbering_ = wanted;
      at = name.empty() ? next_++ : position(name);
    } else if (is_number(name)) {
      at = position(name);
    } else {
      const auto named =
          std::ranges::find(arguments_.named, name, [](const auto& n) { return n.first; });
      if (named == arguments_.named.end()) fail("'format' needs the argument '" + name + "'.");
      return named->second;
    }
    const auto n = static_cast<int64_t>(arguments_.positional.size());
    if (at >= n) fail("'format' needs more than " + std::to_string(n) + " arguments.");
    return arguments_.positional[at];
  }

  static bool is_number(const std::string& s) {
    return !s.empty() && s.find_first_not_of("0123456789") == std::string::npos;
  }
  static int64_t position(const std::string& s) {
    size_t at = 0;
    return read_number(s, at, 0);
  }

  enum class Numbering { kNone, kAutomatic, kManual };
  Runtime& runtime_;
  const Arguments& arguments_;
  Numbering numbering_ = Numbering::kNone;
  int64_t next_ = 0;
};

/// The state of `format % values`.
class PercentFormatter {
 public:
  PercentFormatter(Runtime& runtime, const MarkedText& format, const Value& values)
      : runtime_(runtime), format_(format), f_(format.bytes()), values_(values) {
    const bool tuple = values.is_list() && values.as_list().tuple;
    const Iterable* i = values.as_iterable();
    if (tuple) {
      queue_ = values.as_list().items;
    } else {
      queue_ = {values};
    }
    is_mapping_ = !tuple && (values.is_dict() || values.is_list() || values.is_undefined() ||
                             (i != nullptr && i->kind == Iterable::Kind::kRange));
  }

  MarkedText format() {
    runtime_.budget.bytes(static_cast<int64_t>(f_.size()));
    MarkedText out;
    while (at_ < f_.size()) {
      if (f_[at_] != '%') {
        out.append(format_, at_, at_ + 1);
        ++at_;
      } else {
        ++at_;
        out.append(field());
      }
    }
    if (used_ < queue_.size() && !is_mapping_) fail("The format string has too many values.");
    return out;
  }

 private:
  const Value& next() {
    if (used_ >= queue_.size()) fail("The format string needs more values.");
    return queue_[used_++];
  }

  bool take(char c) { return at_ < f_.size() && f_[at_] == c && (++at_, true); }

  /// A number or, for a star, the next value.
  int64_t number(int64_t otherwise) {
    if (!take('*')) return read_number(f_, at_, otherwise);
    const Value& v = next();
    if (!v.is_bool() && !v.is_integer()) fail("A star in a format needs an integer.");
    if (std::abs(v.as_real()) > INT32_MAX) fail("A format has too many digits.");
    return v.as_integer();
  }

  /// "%(name)s": from here on the values are that member.
  void select_member() {
    if (!is_mapping_) fail("The format string needs a dictionary.");
    const size_t begin = at_;
    for (int open = 1; at_ < f_.size(); ++at_) {
      open += f_[at_] == '(' ? 1 : f_[at_] == ')' ? -1 : 0;
      if (open == 0) break;
    }
    if (at_ >= f_.size()) fail("The format string misses a closing parenthesis.");
    const std::string key = f_.substr(begin, at_ - begin);
    const Value* found = values_.is_dict() ? values_.as_dict().find(key) : nullptr;
    if (found == nullptr) fail("The format string needs the value '" + key + "'.");
    queue_ = {*found};
    used_ = 0;
    ++at_;
  }

  MarkedText field() {
    const size_t begin = at_;
    if (take('(')) select_member();
    Spec spec;
    for (; at_ < f_.size() && is_one_of(f_[at_], "-+ #0"); ++at_) {
      const char flag = f_[at_];
      if (flag == '-') spec.align = '<';
      if (flag == '+' || (flag == ' ' && spec.sign == 0)) spec.sign = flag;
      if (flag == '#') spec.alternate = true;
      if (flag == '0') spec.fill = "0";
    }
    spec.width = number(0);
    if (spec.width < 0) {
      spec.align = '<';
      spec.width = -spec.width;
    }
    if (take('.')) spec.precision = std::max<int64_t>(number(0), 0);
    if (at_ < f_.size() && is_one_of(f_[at_], "hlL")) ++at_;
    if (at_ >= f_.size()) fail("The format string ends inside a field.");
    const size_t length = static_cast<size_t>(read_utf8(f_, at_).length);
    spec.type = f_[at_];
    at_ += length;
    if (spec.align == '<') spec.fill = " ";
    if (spec.type == '%') return {"%", true};
    if (is_one_of(spec.type, "sra") || spec.type == 'c') {
      spec.fill = " ";
      const MarkedText text =
          spec.type == 'c' ? character_text(next())
                           : beginning(converted(runtime_, next(), spec.type), spec.precision);
      return filled(runtime_, text, spec, spec.align == 0 ? '>' : spec.align);
    }
    if (!is_one_of(spec.type, "diuxXoeEfFgG")) {
      fail("The format '%" + f_.substr(begin, at_ - begin) + "' is not supported.");
    }
    const Value& v = next();
    if (!v.is_number()) fail("The format string needs a number, not a " + v.type_name() + ".");
    if (spec.fill == "0") spec.align = '=';
    if (is_one_of(spec.type, "eEfFgG")) return real_text(runtime_, v.as_real(), spec);
    if (v.is_real() && is_one_of(spec.type, "xXo")) fail("The format string needs an integer.");
    if (v.is_real() && !(std::abs(v.as_real()) < 9.2e18)) fail("A number is out of range.");
    return integer_text(runtime_, v.is_real() ? static_cast<int64_t>(v.as_real()) : v.as_integer(),
                        spec);
  }

  Runtime& runtime_;
  const MarkedText& format_;
  const std::string& f_;
  const Value& values_;
  std::vector<Value> queue_;
  size_t used_ = 0;
  size_t at_ = 0;
  bool is_mapping_ = false;
};

}  // namespace

MarkedText format_percent(Runtime& runtime, const MarkedText& format, const Value& values) {
  return PercentFormatter(runtime, format, values).format();
}

MarkedText format_braces(Runtime& runtime, const MarkedText& format, const Arguments& arguments) {
  constexpr int kDepth = 2;  // as in Python
  return BraceFormatter(runtime, arguments).format(format, kDepth);
}

}  // namespace chimere::text::jinja
