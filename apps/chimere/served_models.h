// From settings to the models of the server, and how it loads them.
#ifndef CHIMERE_APPS_CHIMERE_SERVED_MODELS_H_
#define CHIMERE_APPS_CHIMERE_SERVED_MODELS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/settings.h"
#include "resident_models.h"
#include "serving/model_registry.h"

namespace chimere::app {

/// Whether requests choose among the models of a file or the model folder: --models-file or
/// --models-memory is given.
bool serves_several(const Settings& settings);

/// Memory that loaded models may take together; 0: no limit, because the server has only the models
/// that it starts with. Errors: kInvalidArgument (--models-memory).
Result<int64_t> models_memory(const Settings& settings);

/// A server's models.
struct ServedModels {
  std::vector<serving::ModelSource> sources;  ///< the default ones first
  std::vector<std::string> preload;           ///< ids of those to load at start
  bool with_folder = false;                   ///< those of the model folder are among them
};

/// Opens the files and reads what they are, without loading them. `start`: not a reload, which says
/// nothing of the default model again. Errors: those of open_model(), read_catalogue() and
/// folder_catalogue().
Result<ServedModels> served_models(const ServeContext& context, bool start);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_SERVED_MODELS_H_
