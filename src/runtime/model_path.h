// Resolves a model's name to a file.
#ifndef CHIMERE_RUNTIME_MODEL_PATH_H_
#define CHIMERE_RUNTIME_MODEL_PATH_H_

#include <cstdint>
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

/// A model that can be named: its file is whole.
struct NamedModel {
  std::string name;
  std::string path;
  int64_t bytes = 0;
  bool shipped = false;  ///< with the program
};
/// All models that ship with the program, by name.
std::vector<NamedModel> shipped_models();
/// Those of the model folder, by name, then the shipped ones that have other names.
std::vector<NamedModel> named_models(const Settings& settings);

/// The model folder: --models, or the default one. Errors: kInvalidArgument without a home
/// folder, saying what to set.
Result<std::string> model_folder(const Settings& settings);

/// `name`: a path; a name in the model folder (see hub::find_local_model); a shipped model's name
/// with or without ".gguf"; or empty for `shipped`. Errors: kNotFound, naming the folders searched.
Result<ModelPath> find_model(const std::string& name, const Settings& settings,
                             ShippedModel shipped = ShippedModel::kText);
/// The same, with an error that names a model of nearly the same name, if there is one.
Result<ModelPath> find_model_or_suggest(const std::string& name, const Settings& settings,
                                        ShippedModel shipped = ShippedModel::kText);
/// The same for a drafter, of which no shipped one is the default: suggests drafters.
Result<ModelPath> find_drafter(const std::string& name, const Settings& settings);

}  // namespace chimere::runtime

#endif  // CHIMERE_RUNTIME_MODEL_PATH_H_
