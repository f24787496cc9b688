// A conversation that continues in a later run of the program (--state FILE).
#ifndef CHIMERE_APPS_CHIMERE_SAVED_CONVERSATION_H_
#define CHIMERE_APPS_CHIMERE_SAVED_CONVERSATION_H_

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "command.h"
#include "conversation.h"
#include "engine/request.h"
#include "model/model.h"
#include "runtime/loaded_model.h"
#include "state/weights_hash.h"

namespace chimere::app {

/// Adds the flag --state.
Option add_state_flag(Command& command, std::string& path);

/// Checks before any computation that a conversation can be saved in this file. An empty path needs
/// no check. Errors: kInvalidArgument (the folder does not exist, the path is a folder), kIo,
/// kOutOfSpace; each message names the remedy.
Status check_state_file(const std::string& path);

/// The file of a saved conversation.
struct StateFile {
  std::string path;                             ///< empty: none
  std::shared_ptr<state::WeightsHash> weights;  ///< of the model; nullptr if `path` is empty
  engine::RequestAdapters adapters;             ///< that the conversation uses
};
/// Starts hashing the model's weights. The model must outlive the result.
StateFile open_state_file(const std::string& path, const Settings& settings,
                          const runtime::LoadedModel& loaded);

/// Adds the messages of the file to an empty conversation, and returns the saved state of a prefix
/// of their tokens, if there is one. A missing file is an empty conversation. Waits for the hash of
/// the weights if the file exists. Errors: those of state::load_checkpoint() and
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
