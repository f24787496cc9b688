// A conversation that continues where an earlier run of the program left it (--state FILE).
#ifndef CHIMERE_APPS_CHIMERE_SAVED_CONVERSATION_H_
#define CHIMERE_APPS_CHIMERE_SAVED_CONVERSATION_H_

#include <optional>
#include <string>

#include "base/result.h"
#include "command.h"
#include "conversation.h"
#include "engine/request.h"
#include "model/model.h"

namespace chimere::app {

/// Adds the flag.
Option add_state_flag(Command& command, std::string& path);

/// Fills an empty conversation with the messages of the file and returns the state behind the first
/// of their tokens, if there is one; a file that does not exist is an empty conversation. Errors:
/// those of state::load_checkpoint().
Result<std::optional<engine::Prefix>> load_conversation(const std::string& path,
                                                        model::Model& model,
                                                        Conversation& conversation);

/// Replaces the file by the messages and the state. Errors: those of state::save_checkpoint().
Status save_conversation(const std::string& path, model::Model& model,
                         const Conversation& conversation,
                         const std::optional<engine::Prefix>& prefix);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_SAVED_CONVERSATION_H_
