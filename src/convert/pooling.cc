#include "convert/pooling.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "convert/json_text.h"

namespace chimere::convert {
namespace {

struct ModeRow {
  const char* flag;  ///< "pooling_mode_..." of older files
  const char* mode;  ///< "pooling_mode" of newer ones
  int64_t type;      ///< of GGUF
};
constexpr ModeRow kModes[] = {{"pooling_mode_mean_tokens", "mean", 1},
                              {"pooling_mode_cls_token", "cls", 2},
                              {"pooling_mode_lasttoken", "lasttoken", 3}};

/// The folder of the Pooling module that modules.json names; empty: none.
Result<std::string> pooling_folder(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / "modules.json").string();
  std::error_code failure;
  if (!std::filesystem::exists(path, failure)) return std::string();
  CHIMERE_TRY(const std::string text, read_text(path));
  // A list, which parse_json() would refuse.
  CHIMERE_TRY(const Json wrapped, parse_json("{\"modules\":" + text + "}", path));
  for (const Json& module : wrapped["modules"]) {
    if (!module.is_object() || !module.contains("type") || !module["type"].is_string() ||
        !module["type"].get_ref<const std::string&>().ends_with("Pooling")) {
      continue;
    }
    const bool named = module.contains("path") && module["path"].is_string();
    const std::string name = named ? module["path"].get<std::string>() : std::string();
    if (name.empty() || name != std::filesystem::path(name).filename().string()) {
      return invalid_data(path + " names a Pooling module that is not beside it");
    }
    return name;
  }
  return std::string();
}

}  // namespace

Status write_pooling(const std::string& folder, KeyWriter& out) {
  CHIMERE_TRY(const std::string name, pooling_folder(folder));
  if (name.empty()) return {};
  const std::string path = (std::filesystem::path(folder) / name / "config.json").string();
  CHIMERE_TRY(const auto config, read_json(path));
  if (!config) return not_found(path + " is missing");
  for (const ModeRow& row : kModes) {
    const auto flag = config->find(row.flag);
    const auto mode = config->find("pooling_mode");
    if ((flag != config->end() && *flag == true) || (mode != config->end() && *mode == row.mode)) {
      out.integer("pooling_type", row.type);
      return {};
    }
  }
  return unsupported(path + " pools by another rule than mean, first and last token");
}

}  // namespace chimere::convert
