#include "runtime/state_folder.h"

#include "base/system.h"

namespace chimere::runtime {

std::string state_folder(const Settings& settings) {
  const std::string& named = settings.get(settings::kStateFolder);
  if (!named.empty()) return named;
  const std::string users = chimere::state_folder();
  return users.empty() ? "" : users + "/chimere";
}

std::shared_ptr<state::WeightsHash> hash_weights(const Settings& settings,
                                                 const gguf::Reader& file) {
  const std::string folder = state_folder(settings);
  return state::WeightsHash::start(
      file.files(), {.folder = folder.empty() ? "" : folder + "/weights", .now_ns = nullptr});
}

}  // namespace chimere::runtime
