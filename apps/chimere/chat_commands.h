// The commands of the chat: one table, from which /help, completion and docs/terminal.md follow.
#ifndef CHIMERE_APPS_CHIMERE_CHAT_COMMANDS_H_
#define CHIMERE_APPS_CHIMERE_CHAT_COMMANDS_H_

#include <cstddef>
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
    kShow,
    kClear,
    kExit,
  };
  enum class Argument : uint8_t { kNone, kText, kModel, kFile, kSetting, kSwitch };

  Id id;
  std::string_view name;      ///< "/help"
  std::string_view alias;     ///< of other programs, with spaces between them; empty: none
  std::string_view argument;  ///< as the help shows it; empty: none
  Argument completes;
  std::string_view help;  ///< one sentence, no full stop
};

std::span<const ChatCommand> chat_commands();
/// By name or alias; nullptr: there is none.
const ChatCommand* find_chat_command(std::string_view name);

/// What /help prints.
std::string chat_help(size_t columns);

/// A line that begins with the name of a command, or with what looks like one.
struct ChatInput {
  bool is_command = false;  ///< false: the line is a message, though it may begin with a slash
  std::string name;
  std::string argument;  ///< without the space around it
};
ChatInput read_chat_input(std::string_view line);

/// The words of /set as `NAME VALUE`, from what Ollama has in their place: "parameter NAME VALUE",
/// "system TEXT". Empty members: there is none.
struct SetWords {
  std::string name = {};
  std::string value = {};
};
SetWords read_set_words(std::string_view argument);

/// Whether """ begins a text of several lines in this line and does not end it.
bool opens_block(std::string_view line);
/// Whether a line of such a text ends it.
bool closes_block(std::string_view line);
/// A text between """, without them; any other text as it is.
std::string block_text(std::string_view text);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_CHAT_COMMANDS_H_
