#include "convert/json_text.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "base/mapped_file.h"

namespace chimere::convert {
namespace {

constexpr int64_t kMaxNesting = 64;
constexpr uint64_t kMaxFileBytes = uint64_t{256} << 20;

/// Counts brackets outside strings, before anything is allocated.
bool too_deep(std::string_view text) {
  int64_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxNesting) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace

Result<Json> parse_json(std::string_view text, const std::string& what) {
  if (too_deep(text)) {
    return invalid_data(what + " is nested deeper than " + std::to_string(kMaxNesting) + " levels");
  }
  std::vector<std::set<std::string, std::less<>>> names;
  std::string twice;
  const auto watch = [&](int /*depth*/, Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::object_start) names.emplace_back();
    if (event == Json::parse_event_t::object_end && !names.empty()) names.pop_back();
    if (event == Json::parse_event_t::key && !names.empty()) {
      const auto& name = parsed.get_ref<const std::string&>();
      if (!names.back().insert(name).second && twice.empty()) twice = name;
    }
    return true;
  };
  Json out = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (out.is_discarded() || !out.is_object()) {
    return invalid_data(what + " is not a JSON object");
  }
  constexpr size_t kShown = 80;
  if (!twice.empty()) {
    return invalid_data(what + " has the name '" + twice.substr(0, kShown) + "' twice");
  }
  return out;
}

Result<std::string> read_text(const std::string& path) {
  CHIMERE_TRY(const MappedFile file, MappedFile::open(path));
  if (file.size() > kMaxFileBytes) {
    return invalid_data(path + " has " + std::to_string(file.size()) +
                        " bytes, more than such a file can need");
  }
  std::string text(file.size(), '\0');
  CHIMERE_CHECK_OK(file.read(0, {reinterpret_cast<uint8_t*>(text.data()), text.size()}));
  return text;
}

Result<std::optional<Json>> read_json(const std::string& path) {
  std::error_code failure;
  if (!std::filesystem::exists(path, failure)) return std::optional<Json>();
  CHIMERE_TRY(const std::string text, read_text(path));
  CHIMERE_TRY(Json parsed, parse_json(text, path));
  return std::optional<Json>(std::move(parsed));
}

}  // namespace chimere::convert
