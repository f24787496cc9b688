#include "model_path.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "base/system.h"
#include "hub/model_folder.h"

namespace chimere::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kShipped = "chimere-mini.gguf";

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

std::string list(const std::vector<fs::path>& folders) {
  std::string out;
  for (const fs::path& f : folders)
    out += (out.empty() ? "" : ", ") + f.lexically_normal().string();
  return out;
}

}  // namespace

std::string model_folder(const Settings& settings) {
  const std::string& named = settings.get(settings::kModels);
  return named.empty() ? (fs::path(data_folder()) / "chimere/models").string() : named;
}

Result<ModelPath> find_model(const std::string& name, const std::string& folder) {
  const fs::path program = program_folder();
  if (name.empty()) {
    // Installed; in a build folder; in the repository beside a build folder, and one level deeper.
    const std::vector<fs::path> folders = {program / "../share/chimere", program / "models",
                                           program / "../models", program / "../../models"};
    for (const fs::path& place : folders) {
      if (is_file(place / kShipped))
        return ModelPath{(place / kShipped).lexically_normal().string(), true};
    }
    return not_found("No model was named (-m), and the shipped model " + std::string(kShipped) +
                     " is in none of: " + list(folders) + ".");
  }
  if (is_file(name)) return ModelPath{name, false};
  const auto local = hub::find_local_model(folder, name);
  if (local.ok()) return ModelPath{local->path, false};
  if (name.find('/') == std::string::npos) {
    for (const std::string& file : {name, name + ".gguf"}) {
      if (is_file(program / "models" / file)) {
        return ModelPath{(program / "models" / file).lexically_normal().string(), false};
      }
    }
  }
  std::string advice = "Give a path to a GGUF file, or a name that `chimere list` shows.";
  if (hub::parse_model_name(name).ok()) advice = "`chimere pull " + name + "` downloads it.";
  return not_found("'" + name + "' is no file. " + local.error().message + " " + advice);
}

}  // namespace chimere::app
