#include "runtime/model_path.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/nearest_word.h"
#include "base/system.h"
#include "hub/model_folder.h"
#include "runtime/model_facts.h"

namespace chimere::runtime {
namespace {

namespace fs = std::filesystem;

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

/// Where shipped models are, seen from the program or from libchimere: installed; in a build
/// folder; in the repository beside a build folder, and one level deeper.
std::vector<fs::path> shipped_folders() {
  std::vector<fs::path> out;
  for (const fs::path code : {program_folder(), library_folder()}) {
    for (const char* folder : {"../share/chimere", "models", "../models", "../../models"}) {
      const fs::path path = (code / folder).lexically_normal();
      if (!code.empty() && std::ranges::find(out, path) == out.end()) out.push_back(path);
    }
  }
  return out;
}

std::optional<std::string> find_shipped(const std::string& file) {
  for (const fs::path& folder : shipped_folders()) {
    if (is_file(folder / file)) return (folder / file).lexically_normal().string();
  }
  return std::nullopt;
}

/// The error with the nearest name of a drafter or, if `drafter` is false, of a model that runs
/// alone.
Error with_suggestion(Error error, const std::string& name, const Settings& settings,
                      bool drafter) {
  const std::vector<NamedModel> models = named_models(settings);
  std::vector<std::string> names;
  for (const NamedModel& m : models) names.push_back(m.name);
  // Only files with a similar name are opened.
  for (std::string near; !(near = nearest_word(name, names)).empty(); std::erase(names, near)) {
    const auto found = std::ranges::find(models, near, &NamedModel::name);
    const FileKind kind = file_kind(found->path);
    const bool alone =
        kind == FileKind::kText || kind == FileKind::kEmbedding || kind == FileKind::kReranking;
    if (drafter ? kind != FileKind::kDrafter : !alone) continue;
    error.message += " Or did you mean " + near + "?";
    break;
  }
  return error;
}

}  // namespace

const char* shipped_name(ShippedModel shipped) {
  return shipped == ShippedModel::kText ? "chimere-mini" : "chimere-embed";
}

std::vector<NamedModel> shipped_models() {
  std::vector<NamedModel> out;
  for (const fs::path& folder : shipped_folders()) {
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      const std::string name = at->path().filename().string();
      if (name.starts_with("chimere-") && name.ends_with(".gguf")) {
        std::error_code unreadable;
        const auto bytes = at->file_size(unreadable);
        out.push_back({.name = at->path().stem().string(),
                       .path = at->path().lexically_normal().string(),
                       .bytes = unreadable ? 0 : static_cast<int64_t>(bytes),
                       .shipped = true});
      }
    }
    if (!out.empty()) break;
  }
  std::ranges::sort(out, {}, &NamedModel::name);
  return out;
}

std::vector<NamedModel> named_models(const Settings& settings) {
  std::vector<NamedModel> out;
  if (const auto folder = model_folder(settings); folder.ok()) {
    for (hub::LocalModel& m : hub::list_models(*folder)) {
      if (m.partial) continue;
      out.push_back({.name = std::move(m.name), .path = std::move(m.path), .bytes = m.bytes});
    }
  }
  for (NamedModel& m : shipped_models()) {
    if (std::ranges::find(out, m.name, &NamedModel::name) == out.end()) out.push_back(std::move(m));
  }
  return out;
}

Result<std::string> model_folder(const Settings& settings) {
  const std::string& named = settings.get(settings::kModels);
  if (!named.empty()) return named;
  const std::string data = data_folder();
  if (!data.empty()) return data + "/chimere/models";
  return invalid_argument(
      "HOME is not set, so that there is no model folder; set it or XDG_DATA_HOME, or name a "
      "folder (--models FOLDER, CHIMERE_MODELS).");
}

Result<ModelPath> find_model(const std::string& name, const Settings& settings,
                             ShippedModel shipped) {
  if (name.empty()) {
    const std::string file = std::string(shipped_name(shipped)) + ".gguf";
    if (auto path = find_shipped(file)) return ModelPath{*std::move(path), true};
    return not_found("No model was given (-m), and the shipped model " + file +
                     " is in none of: " + list(shipped_folders()) + ".");
  }
  if (is_file(name)) return ModelPath{name, false};
  const auto folder = model_folder(settings);
  std::string complaint = folder.ok() ? "" : folder.error().message;
  if (folder.ok()) {
    const auto local = hub::find_local_model(*folder, name);
    if (local.ok()) return ModelPath{local->path, false};
    complaint = local.error().message;
  }
  if (name.find('/') == std::string::npos) {
    for (const std::string& file : {name, name + ".gguf"}) {
      if (auto path = find_shipped(file)) return ModelPath{*std::move(path), false};
    }
  }
  std::string advice =
      "Give a path to a GGUF file or a name that `chimere list` shows; "
      "`chimere pull OWNER/NAME` downloads a model.";
  if (hub::parse_model_name(name).ok()) advice = "`chimere pull " + name + "` downloads it.";
  return not_found("'" + name + "' is no file. " + complaint + " " + advice);
}

Result<ModelPath> find_model_or_suggest(const std::string& name, const Settings& settings,
                                        ShippedModel shipped) {
  auto found = find_model(name, settings, shipped);
  if (found.ok() || name.empty()) return found;
  return with_suggestion(std::move(found).error(), name, settings, false);
}

Result<ModelPath> find_drafter(const std::string& name, const Settings& settings) {
  auto found = find_model(name, settings);
  if (found.ok()) return found;
  return with_suggestion(std::move(found).error(), name, settings, true);
}

}  // namespace chimere::runtime
