#include "hub/model_folder.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

namespace chimere::hub {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxDepth = 6;
constexpr const char* kPartial = ".part";

/// Paths of regular files (including links to files) relative to the folder.
std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code error;
  fs::recursive_directory_iterator it(folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    if (it.depth() >= kMaxDepth) it.disable_recursion_pending();
    std::error_code ignored;
    if (it->is_regular_file(ignored)) {
      out.push_back(it->path().lexically_relative(folder).generic_string());
    }
  }
  std::ranges::sort(out);
  return out;
}

int64_t size_of(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(size);
}

/// "dir/.model.gguf.0123456789abcdef.part" -> "dir/model.gguf".
std::string name_of_partial(const std::string& path) {
  const size_t slash = path.rfind('/') + 1;
  const size_t end = path.rfind(".gguf.") + 5;
  return path.substr(0, slash) + path.substr(slash + 1, end - slash - 1);
}

bool is_partial(const std::string& path) {
  return path.ends_with(kPartial) && path[path.rfind('/') + 1] == '.' &&
         path.find(".gguf.", path.rfind('/') + 1) != std::string::npos;
}

std::string join(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& n : names) out += (out.empty() ? "" : ", ") + n;
  return out;
}

void remove_quietly(const fs::path& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
}

}  // namespace

std::string local_path(const std::string& folder, const std::string& repository,
                       const std::string& path) {
  return (fs::path(folder) / repository / path).string();
}

std::string partial_path(const std::string& path, const std::string& sha256) {
  const fs::path whole(path);
  return (whole.parent_path() /
          ("." + whole.filename().string() + "." + sha256.substr(0, 16) + kPartial))
      .string();
}

std::string checksum_path(const std::string& path) { return path + ".sha256"; }

std::vector<LocalModel> list_models(const std::string& folder) {
  std::vector<RepositoryFile> whole;
  std::vector<LocalModel> models;
  for (const std::string& path : files_below(folder)) {
    const fs::path full = fs::path(folder) / path;
    if (path.ends_with(".gguf")) whole.push_back({path, size_of(full), ""});
    if (!is_partial(path)) continue;
    const auto part = parse_part(name_of_partial(path));
    LocalModel& model = models.emplace_back();
    model.name = part ? part->model : path;
    model.path = full.string();
    model.files = {model.path};
    model.bytes = size_of(full);
    model.partial = true;
  }
  for (const RepositoryModel& m : group_models(whole)) {
    LocalModel& model = models.emplace_back();
    model.name = m.name;
    model.quant = m.quant;
    model.bytes = m.size();
    for (const RepositoryFile& f : m.files) {
      model.files.push_back((fs::path(folder) / f.path).string());
    }
    model.path = model.files.front();
  }
  std::ranges::stable_sort(models, {}, &LocalModel::name);
  return models;
}

bool can_list(const std::string& name) {
  if (std::ranges::count(name, '/') > kMaxDepth) return false;
  const std::vector<RepositoryModel> models = group_models({{name + ".gguf", 0, ""}});
  return models.size() == 1 && models[0].name == name;
}

Result<LocalModel> find_local_model(const std::string& folder, const std::string& name) {
  std::vector<LocalModel> models = list_models(folder);
  std::erase_if(models, [](const LocalModel& m) { return m.partial; });
  for (const LocalModel& m : models) {
    if (m.name == name || m.name + ".gguf" == name) return m;
  }
  if (const auto pulled = parse_model_name(name); pulled.ok()) {
    const std::string prefix = pulled->repository + "/";
    std::vector<RepositoryFile> files;
    for (const LocalModel& m : models) {
      if (!m.name.starts_with(prefix)) continue;
      files.push_back({m.name.substr(prefix.size()) + ".gguf", m.bytes, ""});
    }
    if (!files.empty()) {
      CHIMERE_TRY(const RepositoryModel chosen, choose_model(files, pulled->quant));
      return *std::ranges::find(models, prefix + chosen.name, &LocalModel::name);
    }
  }
  std::optional<LocalModel> found;
  std::vector<std::string> others;
  for (const LocalModel& m : models) {
    const std::string file = m.name.substr(m.name.rfind('/') + 1);
    if (file != name && file + ".gguf" != name) continue;
    others.push_back(m.name);
    found = m;
  }
  if (others.size() == 1) return *std::move(found);
  if (others.size() > 1) {
    return not_found("'" + name + "' matches several models: " + join(others) +
                     "; write one of these names.");
  }
  return not_found("There is no model '" + name + "' in " + folder + ".");
}

Status remove_model(const std::string& folder, const LocalModel& model) {
  for (const std::string& file : model.files) {
    std::error_code error;
    fs::remove(file, error);
    if (error) {
      return io_error("'" + fs::path(file).lexically_relative(folder).generic_string() +
                      "' cannot be deleted: " + error.message() + ".");
    }
    remove_quietly(checksum_path(file));
    remove_quietly(file + ".etag");
    const fs::path root(folder);
    for (fs::path parent = fs::path(file).parent_path();
         parent != root && parent.string().size() > root.string().size();
         parent = parent.parent_path()) {
      std::error_code full;
      if (!fs::remove(parent, full)) break;  // removes only empty folders
    }
  }
  return {};
}

}  // namespace chimere::hub
