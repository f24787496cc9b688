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

/// Which of the shipped models stands in where none is named.
enum class ShippedModel { kText, kEmbedder };
/// "chimere-mini", "chimere-embed".
const char* shipped_name(ShippedModel shipped);

/// The model folder: --models, or the default place. Errors: kInvalidArgument, where there is no
/// home folder to have it in, saying what to set.
Result<std::string> model_folder(const Settings& settings);

/// `name` is a path; or a name in the model folder (see hub::find_local_model) or of a shipped
/// model, with or without ".gguf"; or empty for `shipped`. Errors: kNotFound, naming the places.
Result<ModelPath> find_model(const std::string& name, const Settings& settings,
                             ShippedModel shipped = ShippedModel::kText);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_MODEL_PATH_H_
