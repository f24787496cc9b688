#include "runtime/model_catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "hub/model_folder.h"
#include "runtime/model_facts.h"
#include "runtime/model_path.h"

namespace chimere::runtime {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

Error wrong(const std::string& place, const std::string& what) {
  return invalid_data(place + ": " + what + ".");
}

/// Settings of a model: everything that is not of the process or of HTTP.
bool of_model(const SettingInfo& setting) {
  for (const SettingInfo* refused : {static_cast<const SettingInfo*>(&settings::kModel),
                                     static_cast<const SettingInfo*>(&settings::kModels),
                                     static_cast<const SettingInfo*>(&settings::kThreads),
                                     static_cast<const SettingInfo*>(&settings::kStateFolder)}) {
    if (setting.name == refused->name) return false;
  }
  for (const SettingInfo* more : {static_cast<const SettingInfo*>(&settings::kStateMemory),
                                  static_cast<const SettingInfo*>(&settings::kMaxRunning),
                                  static_cast<const SettingInfo*>(&settings::kMaxQueue)}) {
    if (setting.name == more->name) return true;
  }
  return std::ranges::any_of(
      std::initializer_list<SettingGroup>{SettingGroup::kModel, SettingGroup::kChatTemplate,
                                          SettingGroup::kPrefixCache, SettingGroup::kSampling,
                                          SettingGroup::kEngram, SettingGroup::kDrafter},
      [&](SettingGroup group) { return setting.groups.has(group); });
}

Status read_settings(const Json& object, const std::string& place, CatalogueModel& out) {
  if (!object.is_object()) return wrong(place, "must be an object of settings");
  for (const auto& [name, value] : object.items()) {
    const std::string here = fmt::format("{}.{}", place, name);
    const SettingInfo* setting = settings::find(name);
    if (setting == nullptr) return wrong(here, "there is no such setting; see docs/settings.md");
    if (!of_model(*setting)) return wrong(here, "is a setting of the server, not of one model");
    if (value.is_structured() || value.is_null()) {
      return wrong(here, "must be a text, a number or true or false");
    }
    const std::string text = value.is_string()    ? value.get<std::string>()
                             : value.is_boolean() ? (value.get<bool>() ? "1" : "0")
                                                  : value.dump();
    CHIMERE_CHECK_OK(out.settings.set(*setting, text, here));
    out.overrides += fmt::format("{}={}\n", name, text);
  }
  return {};
}

Status read_name(const Json& value, const std::string& place, std::string& out) {
  if (!value.is_string()) return wrong(place, "must be a text");
  out = value.get<std::string>();
  if (const Status named = check_model_name(out); !named.ok()) {
    return wrong(place,
                 "'" + out.substr(0, 200) + "' is no name for a model: " + named.error().message);
  }
  return {};
}

Result<std::string> find_file(const std::string& named, const std::string& folder,
                              const std::string& place, const Settings& defaults) {
  const fs::path beside = fs::path(folder) / named;  // `named` itself if it is absolute
  std::error_code error;
  if (fs::is_regular_file(beside, error)) return beside.string();
  auto found = find_model(named, defaults, ShippedModel::kText);
  if (!found.ok()) return Error{found.error().code, place + ": " + found.error().message};
  return found->path;
}

Result<CatalogueModel> read_model(const Json& row, const std::string& place,
                                  const std::string& folder, const Settings& defaults) {
  if (!row.is_object()) return wrong(place, "must be an object");
  CatalogueModel out;
  out.settings = defaults;
  if (!row.contains("name")) return wrong(place + ".name", "is missing");
  for (const auto& [key, value] : row.items()) {
    const std::string here = fmt::format("{}.{}", place, key);
    if (key == "name") {
      CHIMERE_CHECK_OK(read_name(value, here, out.name));
    } else if (key == "model") {
      if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
        return wrong(here, "must be a path or a name in the model folder");
      }
    } else if (key == "aliases") {
      if (!value.is_array()) return wrong(here, "must be a list of names");
      for (size_t i = 0; i < value.size(); ++i) {
        CHIMERE_CHECK_OK(
            read_name(value[i], here + "[" + std::to_string(i) + "]", out.aliases.emplace_back()));
      }
    } else if (key == "settings") {
      CHIMERE_CHECK_OK(read_settings(value, here, out));
    } else if (key == "preload") {
      if (!value.is_boolean()) return wrong(here, "must be true or false");
      out.preload = value.get<bool>();
    } else if (key == "keep_alive") {
      if (!value.is_number_integer()) return wrong(here, "must be a number of seconds");
      out.keep_alive = value.get<int64_t>();
    } else {
      return wrong(here,
                   "is unknown; a model has name, model, aliases, settings, preload and "
                   "keep_alive");
    }
  }
  const std::string named = row.value("model", out.name);
  CHIMERE_TRY(out.path, find_file(named, folder, place + ".model", defaults));
  return out;
}

/// Names that two models claim are refused.
Status check_unique(const std::vector<CatalogueModel>& models) {
  std::map<std::string, std::string> owner;
  for (size_t i = 0; i < models.size(); ++i) {
    const std::string place = "models[" + std::to_string(i) + "]";
    std::vector<std::string> names = models[i].aliases;
    names.push_back(models[i].name);
    for (const std::string& name : names) {
      const auto [at, fresh] = owner.emplace(name, place);
      if (!fresh) return wrong(place, "the name '" + name + "' belongs to " + at->second);
    }
  }
  return {};
}

}  // namespace

bool same_path(const std::string& a, const std::string& b) {
  std::error_code error;
  const fs::path first = fs::canonical(a, error);
  return !error && first == fs::canonical(b, error) && !error;
}

Status check_model_name(std::string_view name) {
  if (name.empty() || name.size() > 200) {
    return invalid_argument("it must have 1 to 200 characters");
  }
  const bool path = name.front() == '/' || name.back() == '/' ||
                    name.find("..") != std::string_view::npos ||
                    name.find("//") != std::string_view::npos;
  const bool odd = std::ranges::any_of(name, [](unsigned char c) {
    return c <= ' ' || c == '\\' || c == 0x7f || c == '\'' || c == '"';
  });
  if (path || odd) {
    return invalid_argument(
        "it may have no spaces, quotes, backslashes, '..', and no slash at either end");
  }
  return {};
}

Result<std::vector<CatalogueModel>> parse_catalogue(std::string_view text,
                                                    const std::string& folder,
                                                    const Settings& defaults, bool* with_folder) {
  const Json file = Json::parse(text, nullptr, false, true);
  if (file.is_discarded()) return wrong("the file", "is no valid JSON");
  if (!file.is_object()) return wrong("the file", "must be an object with a list 'models'");
  std::vector<CatalogueModel> out;
  bool add_folder = false;
  for (const auto& [key, value] : file.items()) {
    if (key == "models") {
      if (!value.is_array()) return wrong("models", "must be a list");
      for (size_t i = 0; i < value.size(); ++i) {
        CHIMERE_TRY(CatalogueModel model,
                    read_model(value[i], "models[" + std::to_string(i) + "]", folder, defaults));
        out.push_back(std::move(model));
      }
    } else if (key == "folder") {
      if (!value.is_boolean()) return wrong("folder", "must be true or false");
      add_folder = value.get<bool>();
    } else {
      return wrong(key, "is unknown; the file has 'models' and 'folder'");
    }
  }
  CHIMERE_CHECK_OK(check_unique(out));
  if (with_folder != nullptr) *with_folder = add_folder;
  if (add_folder) {
    CHIMERE_TRY(std::vector<CatalogueModel> more, folder_catalogue(defaults, out));
    std::ranges::move(more, std::back_inserter(out));
  }
  if (out.empty()) return wrong("models", "has no model");
  return out;
}

Result<std::vector<CatalogueModel>> read_catalogue(const std::string& path,
                                                   const Settings& defaults, bool* with_folder) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return not_found("The file '" + path + "' cannot be opened (--models-file).");
  const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  auto models = parse_catalogue(text, fs::path(path).parent_path().string(), defaults, with_folder);
  if (!models.ok()) return Error{models.error().code, path + ": " + models.error().message};
  return models;
}

std::string folder_fingerprint(const Settings& settings) {
  const auto folder = model_folder(settings);
  std::string out;
  if (!folder.ok()) return out;
  for (const hub::LocalModel& model : hub::list_models(*folder)) {
    if (model.partial) continue;
    for (const std::string& file : model.files) {
      out += file + "\n" + file_fingerprint(file) + "\n";
    }
  }
  return out;
}

Result<std::vector<CatalogueModel>> folder_catalogue(const Settings& defaults,
                                                     const std::vector<CatalogueModel>& taken) {
  CHIMERE_TRY(const std::string folder, model_folder(defaults));
  std::map<std::string, int> wanted;  // names and aliases, by how many models want them
  std::vector<CatalogueModel> out;
  std::set<std::string> names;
  for (const CatalogueModel& model : taken) {
    names.insert(model.name);
    names.insert(model.aliases.begin(), model.aliases.end());
  }
  for (const hub::LocalModel& model : hub::list_models(folder)) {
    if (model.partial || names.contains(model.name) || !check_model_name(model.name).ok()) continue;
    CatalogueModel& entry = out.emplace_back();
    entry.name = model.name;
    entry.path = model.path;
    entry.quant = model.quant;
    entry.in_folder = true;
    entry.configured = std::ranges::any_of(
        taken, [&](const CatalogueModel& other) { return same_path(other.path, entry.path); });
    entry.settings = defaults;
    const size_t file = model.name.rfind('/');
    if (file != std::string::npos) entry.aliases.push_back(model.name.substr(file + 1));
    const size_t owner = model.name.find('/');
    const size_t repository = owner == std::string::npos ? owner : model.name.find('/', owner + 1);
    if (repository != std::string::npos) {  // as it was pulled
      const std::string pulled = model.name.substr(0, repository);
      entry.aliases.push_back(pulled);
      if (!model.quant.empty()) entry.aliases.push_back(pulled + ":" + model.quant);
    }
    ++wanted[entry.name];
    for (const std::string& alias : entry.aliases) ++wanted[alias];
  }
  for (CatalogueModel& model : out) {
    std::erase_if(model.aliases, [&](const std::string& alias) {
      return wanted[alias] > 1 || names.contains(alias) || !check_model_name(alias).ok();
    });
  }
  return out;
}

}  // namespace chimere::runtime
