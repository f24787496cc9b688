// The folder that pulled models live in: FOLDER/OWNER/NAME/FILE.gguf, and files that users put
// there.
#ifndef CHIMERE_HUB_MODEL_FOLDER_H_
#define CHIMERE_HUB_MODEL_FOLDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "hub/repository.h"

namespace chimere::hub {

struct LocalModel {
  std::string name;  ///< path in the folder, without part number and ".gguf"
  std::string path;  ///< of its first part
  std::vector<std::string> files;
  int64_t bytes = 0;
  bool partial = false;  ///< an unfinished download
};

/// Everything in the folder, by name; split models whole or not at all. A folder that does not
/// exist is empty.
std::vector<LocalModel> list_models(const std::string& folder);

/// The model with this name: as list_models() gives it, with or without ".gguf"; as it was pulled,
/// OWNER/NAME or OWNER/NAME:QUANT; or the file's name alone, if only one has it. Errors: kNotFound,
/// also when several have it; the message names them.
Result<LocalModel> find_local_model(const std::string& folder, const std::string& name);

/// Deletes the model's files, its checksums and the folders that become empty. Errors: kIo.
Status remove_model(const std::string& folder, const LocalModel& model);

/// Where a file of a repository belongs.
std::string local_path(const std::string& folder, const std::string& repository,
                       const std::string& path);
/// Of its unfinished download; the checksum keeps different contents apart.
std::string partial_path(const std::string& path, const std::string& sha256);
/// Of the checksum beside a finished file, in the form of sha256sum(1).
std::string checksum_path(const std::string& path);

}  // namespace chimere::hub

#endif  // CHIMERE_HUB_MODEL_FOLDER_H_
