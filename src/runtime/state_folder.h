// The folder where stored states and the hashes of weights are kept.
#ifndef CHIMERE_RUNTIME_STATE_FOLDER_H_
#define CHIMERE_RUNTIME_STATE_FOLDER_H_

#include <memory>
#include <string>

#include "base/settings.h"
#include "gguf/reader.h"
#include "state/weights_hash.h"

namespace chimere::runtime {

/// --state-folder, or the default below the user's home; empty if there is neither.
std::string state_folder(const Settings& settings);

/// Starts hashing the file's weights; the hash identifies them in stored states. Hashes are kept in
/// the state folder. The file must outlive the hash.
std::shared_ptr<state::WeightsHash> hash_weights(const Settings& settings,
                                                 const gguf::Reader& file);

}  // namespace chimere::runtime

#endif  // CHIMERE_RUNTIME_STATE_FOLDER_H_
