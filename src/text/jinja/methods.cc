// Methods of strings, dictionaries, lists and loops.
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>

#include "text/jinja/characters.h"
#include "text/jinja/runtime.h"
#include "text/utf8.h"

namespace chimere::text::jinja {
namespace {

using Method = std::function<Value(Runtime&, const Value& self, const Arguments&)>;

const MarkedText& text_argument(const Arguments& a, size_t at, std::string_view name,
                                std::string_view method) {
  const Value& v = a.require(at, name, method);
  if (!v.is_string()) {
    fail("'" + std::string(method) + "' needs a string, not a " + v.type_name() + ".");
  }
  return v.as_text();
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
  return [=](Runtime&, const Value& self, const Arguments& a) {
    const Value& wanted = a.require(0, "prefix", front ? "startswith" : "endswith");
    const auto matches = [&](const Value& v) {
      if (!v.is_string())
        fail("A value of type " + v.type_name() + " cannot be the beginning of a string.");
      const std::string& s = self.as_bytes();
      return front ? s.starts_with(v.as_bytes()) : s.ends_with(v.as_bytes());
    };
    if (!wanted.is_list()) return Value::boolean(matches(wanted));
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
    const std::string& s = self.as_bytes();
    runtime.budget.step(static_cast<int64_t>(s.size() / 16));
    const std::string& wanted = text_argument(a, 0, "sub", "find").bytes();
    const size_t found = from_right ? s.rfind(wanted) : s.find(wanted);
    if (found == std::string::npos) {
      if (must_exist) fail("'index' does not find the string.");
      return Value::integer(-1);
    }
    return Value::integer(count_characters(std::string_view(s).substr(0, found)));
  };
}

/// True if there are characters and all satisfy the condition (letters beyond ASCII count as such).
Method all_method(bool (*condition)(uint32_t)) {
  return [=](Runtime&, const Value& self, const Arguments&) {
    const std::string& s = self.as_bytes();
    for (size_t at = 0; at < s.size();) {
      const Utf8Char c = read_utf8(s, at);
      if (!condition(c.code)) return Value::boolean(false);
      at += c.length;
    }
    return Value::boolean(!s.empty());
  };
}

bool is_ascii_digit(uint32_t c) { return c >= '0' && c <= '9'; }
bool is_letter(uint32_t c) {
  return (c < 0x80 && std::isalpha(static_cast<int>(c)) != 0) || (c >= 0xC0 && !is_space(c));
}

/// Whether all letters with case have the one that `map` gives, and there is one.
Method case_method(uint32_t (*map)(uint32_t), uint32_t (*other)(uint32_t)) {
  return [=](Runtime&, const Value& self, const Arguments&) {
    bool any = false;
    const std::string& s = self.as_bytes();
    for (size_t at = 0; at < s.size();) {
      const Utf8Char c = read_utf8(s, at);
      if (map(c.code) != c.code) return Value::boolean(false);
      any = any || other(c.code) != c.code;
      at += c.length;
    }
    return Value::boolean(any);
  };
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

/// "{} {0} {name}".format(...), without format specifications.
Value format(Runtime& runtime, const Value& self, const Arguments& a) {
  const MarkedText& s = self.as_text();
  const std::string& bytes = s.bytes();
  MarkedText out;
  size_t automatic = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    const char c = bytes[at];
    if ((c == '{' || c == '}') && at + 1 < bytes.size() && bytes[at + 1] == c) {
      out.append(s, at, at + 1);
      ++at;
    } else if (c == '{') {
      const size_t end = bytes.find('}', at);
      if (end == std::string::npos) fail("'format' misses a closing brace.");
      const std::string name = bytes.substr(at + 1, end - at - 1);
      const bool number = !name.empty() && name.size() < 6 && std::ranges::all_of(name, [](char d) {
        return is_ascii_digit(static_cast<uint8_t>(d));
      });
      const size_t position = name.empty() ? automatic++ : number ? std::stoul(name) : SIZE_MAX;
      write_str(a.require(position, name, "format"), runtime.budget, out);
      at = end;
    } else if (c == '}') {
      fail("'format' has a closing brace without an opening one.");
    } else {
      out.append(s, at, at + 1);
    }
  }
  runtime.budget.bytes(static_cast<int64_t>(s.size()));
  return Value::string(std::move(out));
}

template <MarkedText (*fn)(const MarkedText&)>
Value mapped(Runtime& runtime, const Value& self, const Arguments&) {
  runtime.budget.bytes(static_cast<int64_t>(self.as_text().size()));
  return Value::string(fn(self.as_text()));
}

const std::unordered_map<std::string_view, Method>& string_methods() {
  static const std::unordered_map<std::string_view, Method> table = {
      {"strip", strip_method(true, true)},
      {"lstrip", strip_method(true, false)},
      {"rstrip", strip_method(false, true)},
      {"startswith", affix_method(true)},
      {"endswith", affix_method(false)},
      {"removeprefix", remove_affix_method(true)},
      {"removesuffix", remove_affix_method(false)},
      {"split", split_method(false)},
      {"rsplit", split_method(true)},
      {"partition", partition_method(false)},
      {"rpartition", partition_method(true)},
      {"find", find_method(false, false)},
      {"rfind", find_method(true, false)},
      {"index", find_method(false, true)},
      {"isdigit", all_method(is_ascii_digit)},
      {"isdecimal", all_method(is_ascii_digit)},
      {"isnumeric", all_method(is_ascii_digit)},
      {"isalpha", all_method(is_letter)},
      {"isalnum", all_method([](uint32_t c) { return is_ascii_digit(c) || is_letter(c); })},
      {"isspace", all_method(is_space)},
      {"isupper", case_method(to_upper, to_lower)},
      {"islower", case_method(to_lower, to_upper)},
      {"upper", mapped<upper>},
      {"lower", mapped<lower>},
      {"casefold", mapped<lower>},
      {"capitalize", mapped<capitalize>},
      {"title",
       [](Runtime& runtime, const Value& self, const Arguments&) {
         runtime.budget.bytes(static_cast<int64_t>(self.as_text().size()));
         return Value::string(title(self.as_text(), true));
       }},
      {"join", join},
      {"format", format},
      {"replace", [](Runtime& runtime, const Value& self,
                     const Arguments& a) { return apply_filter(runtime, "replace", self, a); }},
      {"count",
       [](Runtime& runtime, const Value& self, const Arguments& a) {
         const std::string& s = self.as_bytes();
         const std::string& wanted = text_argument(a, 0, "sub", "count").bytes();
         runtime.budget.step(static_cast<int64_t>(s.size() / 16));
         if (wanted.empty()) return Value::integer(count_characters(s) + 1);
         int64_t n = 0;
         for (size_t at = s.find(wanted); at != std::string::npos;
              at = s.find(wanted, at + wanted.size())) {
           ++n;
         }
         return Value::integer(n);
       }},
      {"splitlines",
       [](Runtime& runtime, const Value& self, const Arguments& a) {
         std::vector<Value> lines;
         for (MarkedText& line : split_lines(self.as_text(), a.truth(0, "keepends", false))) {
           runtime.budget.bytes(static_cast<int64_t>(line.size() + sizeof(Value)));
           lines.push_back(Value::string(std::move(line)));
         }
         return Value::list(std::move(lines));
       }},
      {"zfill",
       [](Runtime& runtime, const Value& self, const Arguments& a) {
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
       }},
  };
  return table;
}

constexpr std::string_view kDictMethods[] = {"copy", "get", "items", "keys", "values"};
constexpr std::string_view kListMethods[] = {"copy", "count", "index"};
/// Known, so that their use has a message of its own.
constexpr std::string_view kChangingMethods[] = {"append", "clear",   "extend",    "insert",
                                                 "remove", "pop",     "sort",      "reverse",
                                                 "update", "popitem", "setdefault"};

bool is_in(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

Value dict_method(Runtime& runtime, const Value& self, std::string_view name, const Arguments& a) {
  const Dict& dict = self.as_dict();
  if (name == "get") {
    const Value* found = dict.find(a.require(0, "key", "get"));
    return found != nullptr ? *found : a.get(1, "default", Value::none());
  }
  if (name == "copy") return self;
  if (name == "keys") return Value::list(elements(self, runtime.budget));
  std::vector<Value> out;
  for (const auto& [key, value] : dict.entries()) {
    runtime.budget.bytes(3 * sizeof(Value));
    out.push_back(name == "items" ? Value::tuple({key, value}) : value);
  }
  return Value::list(std::move(out));
}

Value list_method(Runtime& runtime, const Value& self, std::string_view name, const Arguments& a) {
  if (name == "copy") return self;
  const Value& wanted = a.require(0, "value", name);
  int64_t n = 0;
  int64_t count = 0;
  for (const Value& item : self.as_list().items) {
    const bool same = equal(item, wanted, runtime.budget);
    if (same && name == "index") return Value::integer(n);
    count += same ? 1 : 0;
    ++n;
  }
  if (name == "index") fail("'index' does not find the value.");
  return Value::integer(count);
}

Value loop_method(Runtime& runtime, Loop& loop, std::string_view name, const Arguments& a) {
  if (name == "cycle") {
    if (a.positional.empty()) fail("'cycle' needs values.");
    return a.positional[loop.index % a.positional.size()];
  }
  const Value now = Value::tuple(a.positional);
  const bool changed = !loop.has_changed_value || !equal(loop.changed_value, now, runtime.budget);
  loop.has_changed_value = true;
  loop.changed_value = now;
  return Value::boolean(changed);
}

}  // namespace

bool has_method(const Value& object, std::string_view name) {
  if (object.is_string()) return string_methods().contains(name);
  if (object.is_dict()) return is_in(kDictMethods, name) || is_in(kChangingMethods, name);
  if (object.is_list()) return is_in(kListMethods, name) || is_in(kChangingMethods, name);
  return object.as_loop() != nullptr && (name == "cycle" || name == "changed");
}

Value call_method(Runtime& runtime, const Value& self, std::string_view name,
                  const Arguments& arguments) {
  if (self.is_string()) return string_methods().at(name)(runtime, self, arguments);
  if (Loop* loop = self.as_loop()) return loop_method(runtime, *loop, name, arguments);
  if (is_in(kChangingMethods, name)) {
    fail("'" + std::string(name) + "' would change a " + self.type_name() +
         ", which templates must not do.");
  }
  return self.is_dict() ? dict_method(runtime, self, name, arguments)
                        : list_method(runtime, self, name, arguments);
}

}  // namespace chimere::text::jinja
