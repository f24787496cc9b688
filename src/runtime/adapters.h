// The adapters that settings name, loaded into a model.
#ifndef CHIMERE_RUNTIME_ADAPTERS_H_
#define CHIMERE_RUNTIME_ADAPTERS_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/settings.h"
#include "engine/adapter_set.h"
#include "runtime/loaded_model.h"
#include "state/checksum.h"

namespace chimere::runtime {

/// An item of --lora.
struct AdapterPath {
  std::string name;  ///< of the file, without folder and extension
  std::string path;
  float scale = 1;
};

/// "FILE[=SCALE],...": an "=" that no number follows is part of the file's name. Errors:
/// kInvalidArgument (no file, a scale that is no number, two files of the same name).
Result<std::vector<AdapterPath>> adapter_paths(std::string_view lora);

/// Loads the adapters of --lora into the model, before it computes anything. Errors:
/// kInvalidArgument (the setting; an adapter of another model, with the name of the tensor), those
/// of gguf::Reader::open(), model::read_adapter() and Model::add_adapter().
Status load_adapters(const Settings& settings, LoadedModel& loaded);

/// The key of states that these adapters have computed; that of the weights alone without adapters.
state::Hash128 with_adapters(const state::Hash128& weights,
                             const engine::RequestAdapters& adapters);

}  // namespace chimere::runtime

#endif  // CHIMERE_RUNTIME_ADAPTERS_H_
