// A conversation that continues in a later run of the program (--state FILE).
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

/// Adds the flag --state.
Option add_state_flag(Command& command, std::string& path);

/// Adds the messages of the file to an empty conversation, and returns the saved state of a prefix
/// of their tokens, if there is one. A missing file is an empty conversation. Errors: those of
/// state::load_checkpoint().
Result<std::optional<engine::Prefix>> load_conversation(const std::string& path,
                                                        model::Model& model,
                                                        Conversation& conversation);

/// Replaces the file by the messages and the state. Errors: those of state::save_checkpoint().
Status save_conversation(const std::string& path, model::Model& model,
                         const Conversation& conversation,
                         const std::optional<engine::Prefix>& prefix);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_SAVED_CONVERSATION_H_
