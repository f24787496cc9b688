#include "served_folder.h"

#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "hub/model_folder.h"
#include "pull_model.h"
#include "runtime/model_catalogue.h"
#include "runtime/model_path.h"

namespace chimere::app {
namespace {

/// A hard link, or a copy where the file system has none.
Status link_or_copy(const std::string& from, const std::string& to) {
  std::error_code error;
  std::filesystem::create_hard_link(from, to, error);
  if (error) std::filesystem::copy_file(from, to, error);
  if (!error) return {};
  return io_error("'" + to + "' cannot be written: " + error.message() + ".");
}

}  // namespace

Status ServedFolder::pull(const std::string& name, const Progress& progress) {
  CHIMERE_TRY(const hub::ModelName model, hub::parse_model_name(name));
  hub::PullOptions options;
  options.endpoint = hub_address(settings_);
  options.token = settings_.get(settings::kHubToken);
  CHIMERE_TRY(options.folder, runtime::model_folder(settings_));
  options.offline = settings_.get(settings::kOffline);
  int64_t done = 0;
  int64_t total = 0;
  const auto pulled = hub::pull(
      model, options,
      [&](const hub::PullProgress& p) {
        done = p.done;
        total = p.total;
      },
      [&] { return !progress(done, total); });
  return pulled.ok() ? Status() : Status(pulled.error());
}

Status ServedFolder::remove(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  CHIMERE_TRY(const std::string folder, runtime::model_folder(settings_));
  CHIMERE_TRY(const hub::LocalModel model, hub::find_local_model(folder, name));
  return hub::remove_model(folder, model);
}

Status ServedFolder::copy(const std::string& from, const std::string& to) {
  const std::scoped_lock lock(mutex_);
  CHIMERE_CHECK_OK(runtime::check_model_name(to));
  CHIMERE_TRY(const std::string folder, runtime::model_folder(settings_));
  if (hub::find_local_model(folder, to).ok()) {
    return invalid_argument("There is a model '" + to + "' already; delete it first.");
  }
  CHIMERE_TRY(const hub::LocalModel model, hub::find_local_model(folder, from));
  const std::filesystem::path root(folder);
  const size_t stem = (root / model.name).string().size();
  std::error_code error;
  std::filesystem::create_directories((root / to).parent_path(), error);
  // The first part last: a model is complete or absent.
  for (size_t i = model.files.size(); i-- > 0;) {
    const std::string& file = model.files[i];
    CHIMERE_CHECK_OK(link_or_copy(file, (root / to).string() + file.substr(stem)));
  }
  return {};
}

}  // namespace chimere::app
