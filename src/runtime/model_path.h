// Resolves a model's name to a file.
#ifndef CHIMERE_RUNTIME_MODEL_PATH_H_
#define CHIMERE_RUNTIME_MODEL_PATH_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "base/settings.h"

namespace chimere::runtime {

struct ModelPath {
  std::string path;
  bool shipped = false;  ///< the default, because no model was named
};

/// The shipped models that are used when none is named.
enum class ShippedModel { kText, kEmbedder };
/// "chimere-mini", "chimere-embed".
const char* shipped_name(ShippedModel shipped);

/// Names of all models that ship with the program, in order.
std::vector<std::string> shipped_models();

/// The model folder: --models, or the default one. Errors: kInvalidArgument without a home
/// folder, saying what to set.
Result<std::string> model_folder(const Settings& settings);

/// `name`: a path; a name in the model folder (see hub::find_local_model); a shipped model's name
/// with or without ".gguf"; or empty for `shipped`. Errors: kNotFound, naming the folders searched.
Result<ModelPath> find_model(const std::string& name, const Settings& settings,
                             ShippedModel shipped = ShippedModel::kText);

}  // namespace chimere::runtime

#endif  // CHIMERE_RUNTIME_MODEL_PATH_H_
