// Which file a model's name stands for.
#ifndef CHIMERE_APPS_CHIMERE_MODEL_PATH_H_
#define CHIMERE_APPS_CHIMERE_MODEL_PATH_H_

#include <string>

#include "base/result.h"
#include "base/settings.h"

namespace chimere::app {

struct ModelPath {
  std::string path;
  bool shipped = false;  ///< nobody named a model
};

/// The model folder: --models, or the default place.
std::string model_folder(const Settings& settings);

/// `name` is a path; or a name in the model folder (see hub::find_local_model) or in models/ beside
/// the program, with or without ".gguf"; or empty for the shipped model. Errors: kNotFound, naming
/// the places.
Result<ModelPath> find_model(const std::string& name, const std::string& folder);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_MODEL_PATH_H_
