// The model folder: pulled models as FOLDER/OWNER/NAME/FILE.gguf, and files that users put there.
#ifndef CHIMERE_HUB_MODEL_FOLDER_H_
#define CHIMERE_HUB_MODEL_FOLDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "hub/repository.h"

namespace chimere::hub {

struct LocalModel {
  std::string name;   ///< path in the folder, without part number and ".gguf"
  std::string path;   ///< of its first part
  std::string quant;  ///< as RepositoryModel::quant
  std::vector<std::string> files;
  int64_t bytes = 0;
  bool partial = false;  ///< an unfinished download
};

/// All models in the folder, by name; split models only if complete. A folder that does not exist
/// is empty.
std::vector<LocalModel> list_models(const std::string& folder);

/// Whether list_models() would list a whole model of this name: not those of parts, projectors and
/// importance matrices, and none that is too deep in the folder.
bool can_list(const std::string& name);

/// Finds a model by the name that list_models() gives, with or without ".gguf"; as it was pulled,
/// OWNER/NAME or OWNER/NAME:QUANT; or by its file name alone, if that is unique. Errors: kNotFound,
/// also for an ambiguous name; the message lists the matches.
Result<LocalModel> find_local_model(const std::string& folder, const std::string& name);

/// Deletes the model's files, their checksums and folders that become empty. Errors: kIo.
Status remove_model(const std::string& folder, const LocalModel& model);

/// Final path of a repository's file.
std::string local_path(const std::string& folder, const std::string& repository,
                       const std::string& path);
/// Path of its unfinished download; the checksum in the name distinguishes different contents.
std::string partial_path(const std::string& path, const std::string& sha256);
/// Path of the checksum beside a finished file, in the format of sha256sum(1).
std::string checksum_path(const std::string& path);

}  // namespace chimere::hub

#endif  // CHIMERE_HUB_MODEL_FOLDER_H_
