// The commands of the chat: one table, from which /help, completion and docs/terminal.md follow.
#ifndef CHIMERE_APPS_CHIMERE_CHAT_COMMANDS_H_
#define CHIMERE_APPS_CHIMERE_CHAT_COMMANDS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace chimere::app {

struct ChatCommand {
  enum class Id : uint8_t {
    kHelp,
    kModel,
    kSystem,
    kSet,
    kSave,
    kLoad,
    kRetry,
    kUndo,
    kEdit,
    kFile,
    kJson,
    kStats,
    kClear,
    kExit,
  };
  enum class Argument : uint8_t { kNone, kText, kModel, kFile, kSetting, kSwitch };

  Id id;
  std::string_view name;      ///< "/help"
  std::string_view alias;     ///< of other programs; empty: none
  std::string_view argument;  ///< as the help shows it; empty: none
  Argument completes;
  std::string_view help;  ///< one sentence, no full stop
};

std::span<const ChatCommand> chat_commands();
/// By name or alias; nullptr: there is none.
const ChatCommand* find_chat_command(std::string_view name);

/// What /help prints.
std::string chat_help();

/// A line that begins with the name of a command, or with what looks like one.
struct ChatInput {
  bool is_command = false;  ///< false: the line is a message, though it may begin with a slash
  std::string name;
  std::string argument;  ///< without the space around it
};
ChatInput read_chat_input(std::string_view line);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_CHAT_COMMANDS_H_
