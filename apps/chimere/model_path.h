// Which file a model's name stands for.
#ifndef CHIMERE_APPS_CHIMERE_MODEL_PATH_H_
#define CHIMERE_APPS_CHIMERE_MODEL_PATH_H_

#include <string>

#include "base/result.h"

namespace chimere::app {

struct ModelPath {
  std::string path;
  bool shipped = false;  ///< nobody named a model
};

/// `name` is a path; or a name, with or without ".gguf", in ~/.local/share/chimere/models or in
/// models/ beside the program; or empty for the shipped model. Errors: kNotFound, naming the
/// places.
Result<ModelPath> find_model(const std::string& name);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_MODEL_PATH_H_
