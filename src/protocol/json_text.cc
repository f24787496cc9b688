#include "protocol/json_text.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <set>
#include <vector>

namespace chimere::protocol {
namespace {

ApiError damaged(const std::string& what) {
  return bad_field("The body is not a valid JSON request: " + what + ".", "", "invalid_json");
}

/// Checks nesting and the number of values by counting brackets and commas outside strings, before
/// anything is allocated. Never counts fewer values than the parser creates.
std::optional<ApiError> check_size(std::string_view text, const JsonLimits& limits) {
  int64_t depth = 0;
  int64_t values = 1;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      ++values;
      if (++depth > limits.nesting) {
        return damaged("it is nested deeper than " + std::to_string(limits.nesting) + " levels");
      }
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',') {
      ++values;
    }
  }
  if (values > limits.values) {
    return damaged("it holds more than " + std::to_string(limits.values) + " values");
  }
  return std::nullopt;
}

/// The code of an escape with four hexadecimal digits at `at`; -1: there is none.
int escape_at(std::string_view text, size_t at) {
  if (at + 6 > text.size() || text[at] != '\\' || text[at + 1] != 'u') return -1;
  int value = 0;
  const char* const end = text.data() + at + 6;
  const auto [stopped, error] = std::from_chars(text.data() + at + 2, end, value, 16);
  return error == std::errc() && stopped == end && value >= 0 ? value : -1;
}

/// Finds the first name that an object has twice, while the parser reads.
class DuplicateNames {
 public:
  bool operator()(int /*depth*/, Json::parse_event_t event, const Json& parsed) {
    switch (event) {
      case Json::parse_event_t::object_start:
      case Json::parse_event_t::array_start:
        begin_value();
        levels_.push_back({event == Json::parse_event_t::object_start, {}, {}, -1});
        break;
      case Json::parse_event_t::object_end:
      case Json::parse_event_t::array_end:
        levels_.pop_back();
        break;
      case Json::parse_event_t::key:
        name(parsed.get_ref<const std::string&>());
        break;
      case Json::parse_event_t::value:
        begin_value();
        break;
    }
    return true;
  }
  /// "messages[0].role"; empty: every name is there once.
  const std::string& found() const { return found_; }

 private:
  struct Level {
    bool object;
    std::set<std::string, std::less<>> names;
    std::string name;  ///< of the member that is being read
    int64_t index;     ///< of the element that is being read
  };
  void begin_value() {
    if (!levels_.empty() && !levels_.back().object) ++levels_.back().index;
  }
  void name(const std::string& name) {
    Level& level = levels_.back();
    level.name = name;
    if (!level.names.insert(name).second && found_.empty()) found_ = path();
  }
  std::string path() const {
    std::string out;
    for (const Level& level : levels_) {
      if (out.size() > kLongestPath) return out + "...";
      if (!level.object) {
        out += "[" + std::to_string(level.index) + "]";
      } else {
        out += (out.empty() ? "" : ".") + level.name.substr(0, kLongestName);
      }
    }
    return out;
  }

  static constexpr size_t kLongestName = 100;
  static constexpr size_t kLongestPath = 1000;
  std::vector<Level> levels_;
  std::string found_;
};

}  // namespace

std::string_view with_whole_pairs(std::string_view text, std::string& storage) {
  constexpr std::string_view kReplacement = "\\ufffd";
  size_t copied = 0;
  for (size_t at = text.find('\\'); at != std::string_view::npos; at = text.find('\\', at)) {
    const int value = escape_at(text, at);
    if (value < 0xd800 || value > 0xdfff) {
      at += 2;
      continue;
    }
    const int next = value < 0xdc00 ? escape_at(text, at + 6) : -1;
    if (next >= 0xdc00 && next <= 0xdfff) {
      at += 12;
      continue;
    }
    storage.append(text.substr(copied, at - copied)).append(kReplacement);
    at += 6;
    copied = at;
  }
  if (copied == 0) return text;
  storage.append(text.substr(copied));
  return storage;
}

std::optional<ApiError> parse_object(std::string_view text, const JsonLimits& limits, Json& out) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return damaged("it is empty; send an object");
  }
  if (auto error = check_size(text, limits)) return error;
  DuplicateNames duplicates;
  std::string storage;
  try {
    out = Json::parse(with_whole_pairs(text, storage), std::ref(duplicates));
  } catch (const Json::parse_error& e) {
    return damaged("syntax error at byte " + std::to_string(e.byte));
  } catch (const Json::out_of_range&) {
    return damaged("it holds a number that is too large");
  }
  if (!out.is_object()) return damaged("it must be an object");
  if (!duplicates.found().empty()) {
    return bad_field("The field '" + duplicates.found() + "' is there twice; give it once.",
                     duplicates.found(), "duplicate_field");
  }
  return std::nullopt;
}

std::string to_text(const Json& document) {
  struct Level {
    const Json* container;
    Json::const_iterator next;
  };
  std::string out;
  std::vector<Level> levels;
  const auto scalar = [](const Json& value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  const auto begin = [&](const Json& value) {
    if (!value.is_structured() || value.empty()) {
      out += scalar(value);
      return;
    }
    out += value.is_object() ? '{' : '[';
    levels.push_back({&value, value.begin()});
  };
  begin(document);
  while (!levels.empty()) {
    Level& level = levels.back();
    const bool object = level.container->is_object();
    if (level.next == level.container->end()) {
      out += object ? '}' : ']';
      levels.pop_back();
      continue;
    }
    if (level.next != level.container->begin()) out += ',';
    if (object) out += scalar(Json(level.next.key())) + ':';
    const Json& value = *level.next;
    ++level.next;
    begin(value);  // may invalidate `level`
  }
  return out;
}

}  // namespace chimere::protocol
