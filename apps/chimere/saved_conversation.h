// A conversation that continues where an earlier run of the program left it (--state FILE).
#ifndef CHIMERE_APPS_CHIMERE_SAVED_CONVERSATION_H_
#define CHIMERE_APPS_CHIMERE_SAVED_CONVERSATION_H_

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "command.h"
#include "conversation.h"
#include "engine/request.h"
#include "loaded_model.h"
#include "model/model.h"
#include "state/weights_hash.h"

namespace chimere::app {

/// Adds the flag.
Option add_state_flag(Command& command, std::string& path);

/// Whether a conversation could be kept in this file (empty: none is), before anything is computed.
/// Errors: kInvalidArgument (its folder does not exist, it is itself a folder), kIo, kOutOfSpace;
/// each says what to do.
Status check_state_file(const std::string& path);

/// A file that keeps a conversation of a model.
struct StateFile {
  std::string path;                             ///< empty: none
  std::shared_ptr<state::WeightsHash> weights;  ///< of the model, where there is a path
};
/// Begins to hash the model's weights. The model must outlive the result.
StateFile open_state_file(const std::string& path, const Settings& settings,
                          const LoadedModel& loaded);

/// Fills an empty conversation with the messages of the file and returns the state behind the first
/// of their tokens, if there is one; a file that does not exist is an empty conversation. Waits for
/// the hash of the weights if the file exists. Errors: those of state::load_checkpoint() and
/// WeightsHash::get().
Result<std::optional<engine::Prefix>> load_conversation(const StateFile& file, model::Model& model,
                                                        Conversation& conversation);

/// Replaces the file by the messages and the state. Waits for the hash of the weights. Errors:
/// those of state::save_checkpoint() and WeightsHash::get().
Status save_conversation(const StateFile& file, model::Model& model,
                         const Conversation& conversation,
                         const std::optional<engine::Prefix>& prefix);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_SAVED_CONVERSATION_H_
