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

Status link_or_copy(const std::string& from, const std::string& to, const std::string& model) {
  std::error_code error;
  std::filesystem::create_hard_link(from, to, error);
  if (error) std::filesystem::copy_file(from, to, error);
  if (!error) return {};
  return io_error("The model '" + model + "' cannot be written: " + error.message() + ".");
}

Result<hub::LocalModel> find_by_id(const std::string& folder, const std::string& id) {
  for (hub::LocalModel& model : hub::list_models(folder)) {
    if (!model.partial && model.name == id) return std::move(model);
  }
  return not_found("The model '" + id + "' is not in the model folder.");
}

}  // namespace

Result<std::string> ServedFolder::pull(const std::string& name, const Progress& progress) {
  CHIMERE_TRY(const hub::ModelName model, hub::parse_model_name(name));
  hub::PullOptions options;
  options.endpoint = hub_address(settings_);
  options.token = settings_.get(settings::kHubToken);
  CHIMERE_TRY(options.folder, runtime::model_folder(settings_));
  options.offline = settings_.get(settings::kOffline);
  int64_t done = 0;
  int64_t total = 0;
  auto pulled = hub::pull(
      model, options,
      [&](const hub::PullProgress& p) {
        done = p.done;
        total = p.total;
      },
      [&] { return !progress(done, total); });
  if (!pulled.ok()) return pulled.error();
  return std::move(pulled->model.name);
}

Status ServedFolder::remove(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  CHIMERE_TRY(const std::string folder, runtime::model_folder(settings_));
  CHIMERE_TRY(const hub::LocalModel model, find_by_id(folder, id));
  return hub::remove_model(folder, model);
}

Status ServedFolder::copy(const std::string& from, const std::string& to) {
  const std::scoped_lock lock(mutex_);
  if (const Status named = runtime::check_model_name(to); !named.ok()) {
    return invalid_argument("'" + to.substr(0, 200) +
                            "' is no name for a model: " + named.error().message + ".");
  }
  if (!hub::can_list(to)) {
    return invalid_argument("'" + to +
                            "' is no name for a model in the folder: such files are parts of a "
                            "model or other than models, or are too deep in the folder.");
  }
  CHIMERE_TRY(const std::string folder, runtime::model_folder(settings_));
  if (hub::find_local_model(folder, to).ok()) {
    return invalid_argument("There is a model '" + to + "' already; delete it first.");
  }
  CHIMERE_TRY(const hub::LocalModel model, find_by_id(folder, from));
  const std::filesystem::path root(folder);
  const size_t stem = (root / model.name).string().size();
  std::error_code error;
  std::filesystem::create_directories((root / to).parent_path(), error);
  // The first part last: a model is complete or absent.
  for (size_t i = model.files.size(); i-- > 0;) {
    const std::string& file = model.files[i];
    CHIMERE_CHECK_OK(link_or_copy(file, (root / to).string() + file.substr(stem), to));
  }
  return {};
}

}  // namespace chimere::app
