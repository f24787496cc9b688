#include "model_path.h"

#include <filesystem>
#include <system_error>
#include <vector>

#include "base/system.h"

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

Result<ModelPath> find_model(const std::string& name) {
  const fs::path program = program_folder();
  if (name.empty()) {
    // Installed; in a build folder; in the repository beside a build folder, and one level deeper.
    const std::vector<fs::path> folders = {program / "../share/chimere", program / "models",
                                           program / "../models", program / "../../models"};
    for (const fs::path& folder : folders) {
      if (is_file(folder / kShipped))
        return ModelPath{(folder / kShipped).lexically_normal().string(), true};
    }
    return not_found("No model was named (-m), and the shipped model " + std::string(kShipped) +
                     " is in none of: " + list(folders) + ".");
  }
  if (is_file(name)) return ModelPath{name, false};
  std::vector<fs::path> folders;
  if (!home_folder().empty())
    folders.push_back(fs::path(home_folder()) / ".local/share/chimere/models");
  folders.push_back(program / "models");
  const bool plain = name.find('/') == std::string::npos;
  for (const fs::path& folder : folders) {
    for (const std::string& file : {name, name + ".gguf"}) {
      if (plain && is_file(folder / file))
        return ModelPath{(folder / file).lexically_normal().string(), false};
    }
  }
  if (!plain) return not_found("There is no model file '" + name + "'; check the path.");
  return not_found("There is no model '" + name + "': it is no file here, and not in " +
                   list(folders) + ". Give a path to a GGUF file with -m.");
}

}  // namespace chimere::app
