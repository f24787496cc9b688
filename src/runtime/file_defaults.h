// Defaults of generations that a model's file recommends.
#ifndef CHIMERE_RUNTIME_FILE_DEFAULTS_H_
#define CHIMERE_RUNTIME_FILE_DEFAULTS_H_

#include "base/result.h"
#include "base/settings.h"
#include "gguf/reader.h"

namespace chimere::runtime {

/// The settings, where those that no source has set are as "general.sampling.*" of the file says
/// (SettingInfo::file_key). Errors: kInvalidData (a value that the setting cannot have; setting it
/// helps).
Result<Settings> with_file_defaults(const Settings& settings, const gguf::Reader& file);

}  // namespace chimere::runtime

#endif  // CHIMERE_RUNTIME_FILE_DEFAULTS_H_
