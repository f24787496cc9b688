#include "convert/checkpoint.h"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "convert/json_text.h"

namespace chimere::convert {
namespace {

/// File of each tensor.
using WeightMap = std::map<std::string, std::string>;

Result<WeightMap> read_index(const Json& index, const std::string& path) {
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object() || map->empty()) {
    return invalid_data(path + " has no weight_map");
  }
  WeightMap out;
  for (const auto& [name, file] : map->items()) {
    const bool text = file.is_string();
    const std::string value = text ? file.get<std::string>() : std::string();
    // Files of the folder itself only: an index must not open anything else.
    if (value.empty() || value != std::filesystem::path(value).filename().string() ||
        value.front() == '.') {
      return invalid_data(path + " says that '" + name.substr(0, kShownBytes) +
                          "' is in a file that is not beside it");
    }
    out.emplace(name, value);
  }
  return out;
}

Error unlisted(const std::string& index, const std::string& tensor, const std::string& file) {
  return invalid_data(index + " does not say that '" + tensor.substr(0, kShownBytes) + "' is in " +
                      file);
}

Error absent(const std::string& index, const std::string& tensor, const std::string& file) {
  return invalid_data(file + " has no tensor '" + tensor.substr(0, kShownBytes) + "', which " +
                      index + " says is there");
}

Status check_index(const Checkpoint& checkpoint, const WeightMap& index, const std::string& path) {
  std::set<std::string> present;
  for (const SafetensorsFile& file : checkpoint.files) {
    const std::string own = std::filesystem::path(file.file.path()).filename().string();
    for (const SourceTensor& tensor : file.tensors) {
      const auto entry = index.find(tensor.name);
      if (entry == index.end() || entry->second != own) {
        return unlisted(path, tensor.name, own);
      }
      present.insert(tensor.name);
    }
  }
  for (const auto& [name, file] : index) {
    if (!present.contains(name)) {
      return absent(path, name, file);
    }
  }
  return {};
}

}  // namespace

std::vector<const SourceTensor*> Checkpoint::tensors() const {
  std::vector<const SourceTensor*> out;
  for (const SafetensorsFile& file : files) {
    for (const SourceTensor& tensor : file.tensors) out.push_back(&tensor);
  }
  return out;
}

Status Checkpoint::check_unchanged() const {
  for (const SafetensorsFile& file : files) CHIMERE_CHECK_OK(file.file.check_unchanged());
  return {};
}

Result<Checkpoint> open_checkpoint(const std::string& folder) {
  const std::filesystem::path root(folder);
  Checkpoint out = {.folder = folder, .files = {}};
  const std::string index_path = (root / "model.safetensors.index.json").string();
  CHIMERE_TRY(const auto index, read_json(index_path));
  if (!index) {
    auto single = open_safetensors((root / "model.safetensors").string());
    if (!single.ok() && single.error().code == Error::Code::kNotFound) {
      return not_found(folder + " has no model.safetensors and no model.safetensors.index.json");
    }
    if (!single.ok()) return std::move(single).error();
    out.files.push_back(*std::move(single));
    return out;
  }
  CHIMERE_TRY(const WeightMap map, read_index(*index, index_path));
  std::set<std::string> names;
  for (const auto& [tensor, file] : map) names.insert(file);
  for (const std::string& name : names) {
    CHIMERE_TRY(SafetensorsFile file, open_safetensors((root / name).string()));
    out.files.push_back(std::move(file));
  }
  CHIMERE_CHECK_OK(check_index(out, map, index_path));
  return out;
}

}  // namespace chimere::convert
