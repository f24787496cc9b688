// The files of a server's models, as its API changes them.
#ifndef CHIMERE_SERVING_MODEL_FILES_H_
#define CHIMERE_SERVING_MODEL_FILES_H_

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"

namespace chimere::serving {

/// Any thread. The registry learns of a change about a second later.
class ModelFiles {
 public:
  virtual ~ModelFiles() = default;

  /// Receives bytes that are there and bytes of the model; false: stop.
  using Progress = std::function<bool(int64_t done, int64_t total)>;
  /// Downloads the model unless it is there. Errors: those of hub::pull().
  virtual Status pull(const std::string& name, const Progress& progress) = 0;
  /// Deletes the model. Errors: kNotFound, kIo.
  virtual Status remove(const std::string& name) = 0;
  /// Makes the model available under another name. Errors: kNotFound (`from`), kInvalidArgument
  /// (`to` is no name, or that of a model), kIo.
  virtual Status copy(const std::string& from, const std::string& to) = 0;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_MODEL_FILES_H_
