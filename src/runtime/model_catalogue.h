// The models that one server can load: those of a file, and those of the model folder.
#ifndef CHIMERE_RUNTIME_MODEL_CATALOGUE_H_
#define CHIMERE_RUNTIME_MODEL_CATALOGUE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/settings.h"

namespace chimere::runtime {

/// A model by name.
struct CatalogueModel {
  std::string name;                   ///< unique; never a path
  std::vector<std::string> aliases;   ///< further names, unique among all names and aliases
  std::string path;                   ///< of its file, or of the first part
  std::string quant;                  ///< as its file's name says; empty: unknown
  Settings settings;                  ///< the server's, with those of the model
  std::string overrides;              ///< the settings of the model alone, as text
  bool preload = false;               ///< load it when the server starts
  std::optional<int64_t> keep_alive;  ///< seconds; negative: until memory is needed
  bool in_folder = false;             ///< found in the model folder, under this name
  bool configured = true;             ///< named by a flag or by the file
};

/// The models of a JSON file:
///
///     {"models": [{"name": "small",               required
///                  "model": "small-Q4_K_M.gguf",  a path, relative to the file's folder, or a name
///                                                 in the model folder; default: the name
///                  "aliases": ["gpt-4o-mini"],
///                  "settings": {"ctx": 8192, "temp": 0.2},
///                  "preload": true,
///                  "keep_alive": 600}],           seconds
///      "folder": true}                            further models: those of the model folder
///
/// Errors: kNotFound, kIo (the file), kInvalidData (what is wrong, with its place, such as
/// models[2].settings.temp), those of find_model(). `with_folder` receives its "folder".
Result<std::vector<CatalogueModel>> read_catalogue(const std::string& path,
                                                   const Settings& defaults,
                                                   bool* with_folder = nullptr);
/// The same for the text of the file; `folder` is the one that paths are relative to.
Result<std::vector<CatalogueModel>> parse_catalogue(std::string_view text,
                                                    const std::string& folder,
                                                    const Settings& defaults,
                                                    bool* with_folder = nullptr);

/// Changes when models of the model folder come, go or change; empty if there is no folder. Does
/// not open the files.
std::string folder_fingerprint(const Settings& settings);

/// The models of the model folder whose names `taken` does not have. Their aliases are those by
/// which find_local_model() finds them. Errors: those of model_folder().
Result<std::vector<CatalogueModel>> folder_catalogue(const Settings& defaults,
                                                     const std::vector<CatalogueModel>& taken);

/// Whether both paths lead to one file. Unlike its hard links, its symbolic links are the same
/// file: they need it.
bool same_path(const std::string& a, const std::string& b);

/// Letters, digits and punctuation but no "..", no leading or trailing slash, no backslash, at most
/// 200 bytes. Errors: kInvalidArgument.
Status check_model_name(std::string_view name);

}  // namespace chimere::runtime

#endif  // CHIMERE_RUNTIME_MODEL_CATALOGUE_H_
