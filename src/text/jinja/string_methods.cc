// Methods of strings.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <unordered_map>

#include "text/jinja/characters.h"
#include "text/jinja/runtime.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace chimere::text::jinja {
namespace {

using Method = std::function<Value(Runtime&, const Value& self, const Arguments&)>;

struct StringMethod {
  Method call;
  std::string_view parameters = "";  ///< see check_arguments
};

const MarkedText& text_argument(const Arguments& a, size_t at, std::string_view name,
                                std::string_view method) {
  const Value& v = a.require(at, name, method);
  if (!v.is_string()) {
    fail("'" + std::string(method) + "' needs a string, not a " + v.type_name() + ".");
  }
  return v.as_text();
}

/// The part of a string that start and end choose, as characters and as bytes.
struct Part {
  std::string_view bytes;
  int64_t begin = 0;
  bool exists = true;  ///< false: the part would begin after its end
};

Part part_of(Runtime& runtime, const std::string& s, const Arguments& a) {
  runtime.budget.step(static_cast<int64_t>(s.size() / 16));
  if (a.positional.size() < 2) return {s};
  const std::vector<size_t> offsets = character_offsets(s);
  const auto n = static_cast<int64_t>(offsets.size()) - 1;
  const auto border = [&](size_t position, const char* name, int64_t otherwise) {
    const int64_t at = a.integer_or_none(position, name, otherwise);
    return at < 0 ? std::max<int64_t>(at + n, 0) : at;
  };
  const int64_t begin = border(1, "start", 0);
  const int64_t end = std::min(border(2, "end", n), n);
  if (begin > end) return {{}, begin, false};
  return {std::string_view(s).substr(offsets[begin], offsets[end] - offsets[begin]), begin};
}

/// The argument of strip(): characters, or "" for white space.
std::string_view strip_set(const Arguments& a) {
  const Value* v = a.find(0, "chars");
  if (v == nullptr || v->is_none()) return {};
  if (!v->is_string()) fail("'strip' needs a string of characters.");
  return v->as_bytes();
}

Method strip_method(bool left, bool right) {
  return [=](Runtime&, const Value& self, const Arguments& a) {
    const Value* given = a.find(0, "chars");
    const bool nothing = given != nullptr && given->is_string() && given->as_text().empty();
    return nothing ? self : Value::string(strip(self.as_text(), strip_set(a), left, right));
  };
}

Method affix_method(bool front) {
  return [=](Runtime& runtime, const Value& self, const Arguments& a) {
    const Value& wanted = a.positional[0];
    const Part part = part_of(runtime, self.as_bytes(), a);
    const auto matches = [&](const Value& v) {
      if (!v.is_string())
        fail("A value of type " + v.type_name() + " cannot be the beginning of a string.");
      return part.exists &&
             (front ? part.bytes.starts_with(v.as_bytes()) : part.bytes.ends_with(v.as_bytes()));
    };
    if (!wanted.is_list() || !wanted.as_list().tuple) return Value::boolean(matches(wanted));
    return Value::boolean(std::ranges::any_of(wanted.as_list().items, matches));
  };
}

Method remove_affix_method(bool front) {
  return [=](Runtime&, const Value& self, const Arguments& a) {
    const MarkedText& s = self.as_text();
    const std::string& affix = text_argument(a, 0, "affix", "removeprefix").bytes();
    if (front && s.bytes().starts_with(affix))
      return Value::string(s.substr(affix.size(), s.size()));
    if (!front && s.bytes().ends_with(affix))
      return Value::string(s.substr(0, s.size() - affix.size()));
    return self;
  };
}

/// Splits at white space; `limit` < 0: everywhere.
std::vector<Value> split_at_space(const MarkedText& s, int64_t limit, bool from_right) {
  const std::vector<size_t> offsets = character_offsets(s.bytes());
  const auto n = static_cast<int64_t>(offsets.size()) - 1;
  const auto space_at = [&](int64_t i) {
    const Utf8Char c = read_utf8(s.bytes(), offsets[i]);
    return c.kind == Utf8Char::Kind::kValid && is_space(c.code);
  };
  std::vector<Value> parts;
  if (from_right) {
    int64_t end = n;
    while (true) {
      while (end > 0 && space_at(end - 1)) --end;
      if (end == 0) break;
      if (limit == 0) {
        parts.push_back(Value::string(s.substr(0, offsets[end])));
        break;
      }
      int64_t begin = end;
      while (begin > 0 && !space_at(begin - 1)) --begin;
      parts.push_back(Value::string(s.substr(offsets[begin], offsets[end])));
      end = begin;
      --limit;
    }
    std::ranges::reverse(parts);
    return parts;
  }
  int64_t begin = 0;
  while (true) {
    while (begin < n && space_at(begin)) ++begin;
    if (begin == n) break;
    int64_t end = begin;
    if (limit == 0) {
      parts.push_back(Value::string(s.substr(offsets[begin], offsets[n])));
      break;
    }
    while (end < n && !space_at(end)) ++end;
    parts.push_back(Value::string(s.substr(offsets[begin], offsets[end])));
    begin = end;
    --limit;
  }
  return parts;
}

Method split_method(bool from_right) {
  return [=](Runtime& runtime, const Value& self, const Arguments& a) {
    const MarkedText& s = self.as_text();
    runtime.budget.bytes(static_cast<int64_t>(s.size()));
    int64_t limit = a.integer(1, "maxsplit", -1);
    const Value separator = a.get(0, "sep", Value::none());
    std::vector<Value> parts;
    if (separator.is_none()) {
      parts = split_at_space(s, limit, from_right);
    } else {
      if (!separator.is_string()) fail("'split' needs a string to split at.");
      const std::string& at = separator.as_bytes();
      if (at.empty()) fail("'split' needs a separator that is not empty.");
      size_t begin = 0;
      size_t end = s.size();
      while (limit != 0) {
        const std::string_view rest = std::string_view(s.bytes()).substr(begin, end - begin);
        const size_t found = from_right ? rest.rfind(at) : rest.find(at);
        if (found == std::string_view::npos) break;
        if (from_right) {
          parts.push_back(Value::string(s.substr(begin + found + at.size(), end)));
          end = begin + found;
        } else {
          parts.push_back(Value::string(s.substr(begin, begin + found)));
          begin += found + at.size();
        }
        --limit;
      }
      parts.push_back(Value::string(s.substr(begin, end)));
      if (from_right) std::ranges::reverse(parts);
    }
    runtime.budget.bytes(static_cast<int64_t>(parts.size() * (sizeof(Value) + sizeof(MarkedText))));
    return Value::list(std::move(parts));
  };
}

Method partition_method(bool from_right) {
  return [=](Runtime& runtime, const Value& self, const Arguments& a) {
    const MarkedText& s = self.as_text();
    const MarkedText& at = text_argument(a, 0, "sep", "partition");
    if (at.empty()) fail("'partition' needs a separator that is not empty.");
    runtime.budget.bytes(static_cast<int64_t>(s.size()));
    const size_t found = from_right ? s.bytes().rfind(at.bytes()) : s.bytes().find(at.bytes());
    const Value empty = Value::string("", true);
    if (found == std::string::npos) {
      return from_right ? Value::tuple({empty, empty, self}) : Value::tuple({self, empty, empty});
    }
    return Value::tuple({Value::string(s.substr(0, found)), Value::string(at),
                         Value::string(s.substr(found + at.size(), s.size()))});
  };
}

Method find_method(bool from_right, bool must_exist) {
  return [=](Runtime& runtime, const Value& self, const Arguments& a) {
    const std::string& wanted = text_argument(a, 0, "sub", "find").bytes();
    const Part part = part_of(runtime, self.as_bytes(), a);
    const size_t found = !part.exists ? std::string_view::npos
                         : from_right ? part.bytes.rfind(wanted)
                                      : part.bytes.find(wanted);
    if (found == std::string_view::npos) {
      if (must_exist) fail("'index' does not find the string.");
      return Value::integer(-1);
    }
    return Value::integer(part.begin + count_characters(part.bytes.substr(0, found)));
  };
}

Value count(Runtime& runtime, const Value& self, const Arguments& a) {
  const std::string& wanted = text_argument(a, 0, "sub", "count").bytes();
  const Part part = part_of(runtime, self.as_bytes(), a);
  if (wanted.empty()) return Value::integer(part.exists ? count_characters(part.bytes) + 1 : 0);
  int64_t n = 0;
  for (size_t at = part.bytes.find(wanted); at != std::string_view::npos;
       at = part.bytes.find(wanted, at + wanted.size())) {
    ++n;
  }
  return Value::integer(n);
}

/// True if all characters satisfy the condition; `empty`: what an empty string gives.
Method all_method(bool (*condition)(uint32_t), bool empty = false) {
  return [=](Runtime&, const Value& self, const Arguments&) {
    const std::string& s = self.as_bytes();
    for (size_t at = 0; at < s.size();) {
      const Utf8Char c = read_utf8(s, at);
      if (!condition(c.code)) return Value::boolean(false);
      at += c.length;
    }
    return Value::boolean(!s.empty() || empty);
  };
}

bool is_decimal(uint32_t c) { return category(c) == Category::kNd; }
/// Also superscripts, subscripts and digits in circles.
bool is_digit(uint32_t c) {
  return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
         (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) ||
         (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247C) ||
         (c >= 0x2488 && c <= 0x2490) || c == 0x24EA || (c >= 0x2776 && c <= 0x277E);
}

/// Whether there are letters with case, none of them in a case that `wrong` names.
Method case_method(bool (*right)(uint32_t), bool (*wrong)(uint32_t)) {
  return [=](Runtime&, const Value& self, const Arguments&) {
    bool any = false;
    const std::string& s = self.as_bytes();
    for (size_t at = 0; at < s.size();) {
      const Utf8Char c = read_utf8(s, at);
      if (wrong(c.code) || category(c.code) == Category::kLt) return Value::boolean(false);
      any = any || right(c.code);
      at += c.length;
    }
    return Value::boolean(any);
  };
}

/// Words begin with a capital and continue with small letters.
Value is_title(Runtime&, const Value& self, const Arguments&) {
  bool any = false;
  bool inside = false;
  const std::string& s = self.as_bytes();
  for (size_t at = 0; at < s.size();) {
    const Utf8Char c = read_utf8(s, at);
    const bool capital = is_upper(c.code) || category(c.code) == Category::kLt;
    if (capital ? inside : is_lower(c.code) && !inside) return Value::boolean(false);
    inside = capital || is_lower(c.code);
    any = any || inside;
    at += c.length;
  }
  return Value::boolean(any);
}

Value is_identifier(Runtime&, const Value& self, const Arguments&) {
  const std::string& s = self.as_bytes();
  for (size_t at = 0; at < s.size();) {
    const Utf8Char c = read_utf8(s, at);
    const Category kind = category(c.code);
    const bool begins = is_letter(c.code) || kind == Category::kNl || c.code == '_';
    const bool goes_on = begins || kind == Category::kMn || kind == Category::kMc ||
                         kind == Category::kNd || kind == Category::kPc;
    if (at == 0 ? !begins : !goes_on) return Value::boolean(false);
    at += c.length;
  }
  return Value::boolean(!s.empty());
}

/// center, ljust, rjust: `left` and `right` say which side is filled.
Method fill_method(bool left, bool right) {
  return [=](Runtime& runtime, const Value& self, const Arguments& a) {
    const MarkedText& s = self.as_text();
    const int64_t width = a.integer(0, "width", 0);
    const Value fill = a.get(1, "fillchar", Value::string(" ", true));
    if (!fill.is_string() || count_characters(fill.as_bytes()) != 1) {
      fail("A string is filled up with one character.");
    }
    const int64_t missing = width - count_characters(s.bytes());
    if (missing <= 0) return self;
    runtime.budget.bytes(missing);  // first: the product could overflow
    runtime.budget.bytes(missing * static_cast<int64_t>(fill.as_bytes().size()));
    // Python's way to share an odd number.
    const int64_t before = left && right ? missing / 2 + (missing & width & 1) : left ? missing : 0;
    MarkedText out;
    for (int64_t i = 0; i < before; ++i) out.append(fill.as_text());
    out.append(s);
    for (int64_t i = before; i < missing; ++i) out.append(fill.as_text());
    return Value::string(std::move(out));
  };
}

Value expand_tabs(Runtime& runtime, const Value& self, const Arguments& a) {
  const MarkedText& s = self.as_text();
  const int64_t size = std::clamp<int64_t>(a.integer(0, "tabsize", 8), 0, 1000);
  MarkedText out;
  int64_t column = 0;
  for (size_t at = 0; at < s.size();) {
    const Utf8Char c = read_utf8(s.bytes(), at);
    if (c.code == '\t') {
      const int64_t spaces = size == 0 ? 0 : size - column % size;
      runtime.budget.bytes(spaces);
      out.append(std::string(spaces, ' '), s.trusted_at(at));
      column += spaces;
    } else {
      out.append(s, at, at + c.length);
      column = c.code == '\n' || c.code == '\r' ? 0 : column + 1;
    }
    at += c.length;
  }
  return Value::string(std::move(out));
}

Value join(Runtime& runtime, const Value& self, const Arguments& a) {
  MarkedText out;
  bool first = true;
  for (const Value& item : elements(a.require(0, "iterable", "join"), runtime.budget)) {
    if (!item.is_string()) fail("'join' needs strings, not a " + item.type_name() + ".");
    if (!first) write_str(self, runtime.budget, out);
    first = false;
    write_str(item, runtime.budget, out);
  }
  return Value::string(std::move(out));
}

MarkedText title_words(const MarkedText& s) { return title(s, true); }

template <MarkedText (*fn)(const MarkedText&)>
Value converted(Runtime& runtime, const Value& self, const Arguments&) {
  runtime.budget.bytes(static_cast<int64_t>(self.as_text().size()));
  return Value::string(fn(self.as_text()));
}

Value split_into_lines(Runtime& runtime, const Value& self, const Arguments& a) {
  std::vector<Value> lines;
  for (MarkedText& line : split_lines(self.as_text(), a.integer(0, "keepends", 0) != 0)) {
    runtime.budget.bytes(static_cast<int64_t>(line.size() + sizeof(Value)));
    lines.push_back(Value::string(std::move(line)));
  }
  return Value::list(std::move(lines));
}

Value zero_fill(Runtime& runtime, const Value& self, const Arguments& a) {
  const MarkedText& s = self.as_text();
  const int64_t width = a.integer(0, "width", 0);
  const int64_t present = count_characters(s.bytes());
  if (width <= present) return self;
  const int64_t missing = width - present;
  runtime.budget.bytes(missing);
  const bool sign = !s.empty() && (s.bytes()[0] == '-' || s.bytes()[0] == '+');
  MarkedText out = s.substr(0, sign ? 1 : 0);
  out.append(std::string(missing, '0'), true);
  out.append(s, sign ? 1 : 0, s.size());
  return Value::string(std::move(out));
}

const std::unordered_map<std::string_view, StringMethod>& string_methods() {
  static const std::unordered_map<std::string_view, StringMethod> table = {
      {"strip", {strip_method(true, true), "/[chars]"}},
      {"lstrip", {strip_method(true, false), "/[chars]"}},
      {"rstrip", {strip_method(false, true), "/[chars]"}},
      {"startswith", {affix_method(true), "/prefix [start] [end]"}},
      {"endswith", {affix_method(false), "/suffix [start] [end]"}},
      {"removeprefix", {remove_affix_method(true), "/prefix"}},
      {"removesuffix", {remove_affix_method(false), "/suffix"}},
      {"split", {split_method(false), "[sep] [maxsplit]"}},
      {"rsplit", {split_method(true), "[sep] [maxsplit]"}},
      {"partition", {partition_method(false), "/sep"}},
      {"rpartition", {partition_method(true), "/sep"}},
      {"find", {find_method(false, false), "/sub [start] [end]"}},
      {"rfind", {find_method(true, false), "/sub [start] [end]"}},
      {"index", {find_method(false, true), "/sub [start] [end]"}},
      {"rindex", {find_method(true, true), "/sub [start] [end]"}},
      {"count", {count, "/sub [start] [end]"}},
      {"isdigit", {all_method(is_digit)}},
      {"isdecimal", {all_method(is_decimal)}},
      {"isnumeric", {all_method(is_number)}},
      {"isalpha", {all_method(is_letter)}},
      {"isalnum", {all_method([](uint32_t c) { return is_number(c) || is_letter(c); })}},
      {"isspace", {all_method(is_space)}},
      {"isascii", {all_method([](uint32_t c) { return c < 0x80; }, true)}},
      {"isprintable", {all_method(is_printable, true)}},
      {"isupper", {case_method(is_upper, is_lower)}},
      {"islower", {case_method(is_lower, is_upper)}},
      {"istitle", {is_title}},
      {"isidentifier", {is_identifier}},
      {"swapcase", {converted<swap_case>}},
      {"center", {fill_method(true, true), "/width [fillchar]"}},
      {"ljust", {fill_method(false, true), "/width [fillchar]"}},
      {"rjust", {fill_method(true, false), "/width [fillchar]"}},
      {"expandtabs", {expand_tabs, "[tabsize]"}},
      {"upper", {converted<upper>}},
      {"lower", {converted<lower>}},
      {"casefold", {converted<fold_case>}},
      {"capitalize", {converted<capitalize>}},
      {"title", {converted<title_words>}},
      {"join", {join, "/iterable"}},
      {"format",
       {[](Runtime& runtime, const Value& self, const Arguments& a) {
          return Value::string(format_braces(runtime, self.as_text(), a));
        },
        "*"}},
      {"replace",
       {[](Runtime& runtime, const Value& self, const Arguments& a) {
          return replace_text(runtime, self.as_text(), text_argument(a, 0, "old", "replace"),
                              text_argument(a, 1, "new", "replace"), a.integer(2, "count", -1));
        },
        "/old new [count]"}},
      {"splitlines", {split_into_lines, "[keepends]"}},
      {"zfill", {zero_fill, "/width"}},
  };
  return table;
}

}  // namespace

bool has_string_method(std::string_view name) { return string_methods().contains(name); }

Value call_string_method(Runtime& runtime, const Value& self, std::string_view name,
                         const Arguments& arguments) {
  const StringMethod& method = string_methods().at(name);
  check_arguments(name, method.parameters, arguments);
  return method.call(runtime, self, arguments);
}

}  // namespace chimere::text::jinja
