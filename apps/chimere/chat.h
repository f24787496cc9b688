// What `chimere chat` starts with, also for `chimere` and `chimere run` on a terminal.
#ifndef CHIMERE_APPS_CHIMERE_CHAT_H_
#define CHIMERE_APPS_CHIMERE_CHAT_H_

#include <string>

#include "base/result.h"
#include "command.h"
#include "output_constraint_flags.h"

namespace chimere::app {

struct ChatFlags {
  std::string state = {};   ///< file that keeps the conversation; empty: none
  std::string system = {};  ///< system message; empty: none, or that of `state`
  OutputConstraintFlags constraint = {};
};

/// Adds --state and --system. Returns --state.
Option add_conversation_flags(Command& command, ChatFlags& flags);

/// Runs the chat.
Status run_chat(const CommandLine& line, const ChatFlags& flags = {});

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_CHAT_H_
