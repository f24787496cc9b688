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
  /// Downloads the model that the hub finds by `name`, unless it is there. Returns its id in the
  /// registry. Errors: those of hub::pull().
  virtual Result<std::string> pull(const std::string& name, const Progress& progress) = 0;
  /// Deletes the model of this id. Errors: kNotFound, kIo.
  virtual Status remove(const std::string& id) = 0;
  /// Makes the model of the id `from` available as `to`. Errors: kNotFound (`from`),
  /// kInvalidArgument (`to` is no name of a model in the folder, or that of another one), kIo.
  virtual Status copy(const std::string& from, const std::string& to) = 0;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_MODEL_FILES_H_
