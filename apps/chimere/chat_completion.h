// What Tab completes in the chat.
#ifndef CHIMERE_APPS_CHIMERE_CHAT_COMPLETION_H_
#define CHIMERE_APPS_CHIMERE_CHAT_COMPLETION_H_

#include <string_view>

#include "base/settings.h"
#include "terminal/editor.h"

namespace chimere::app {

/// Names of commands, and their arguments: models of the model folder and shipped ones, files,
/// sampling options and their choices. Nothing in a message.
terminal::Completions complete_chat(std::string_view before, const Settings& settings);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_CHAT_COMPLETION_H_
