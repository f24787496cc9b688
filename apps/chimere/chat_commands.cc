#include "chat_commands.h"

#include <algorithm>
#include <array>
#include <utility>

#include "wrap_text.h"

namespace chimere::app {
namespace {

using CommandId = ChatCommand::Id;
using CommandArgument = ChatCommand::Argument;

constexpr auto kChatCommands = std::to_array<ChatCommand>({
    {CommandId::kHelp, "/help", "/?", "", CommandArgument::kNone, "This list"},
    {CommandId::kModel, "/model", "", "NAME", CommandArgument::kModel,
     "Continue with another model; without NAME: list the models"},
    {CommandId::kSystem, "/system", "", "TEXT", CommandArgument::kText,
     "Tell the model how to answer (the system message); none: no more; without TEXT: show it"},
    {CommandId::kSet, "/set", "", "NAME VALUE", CommandArgument::kSetting,
     "Change how answers are made; without arguments: list what there is"},
    {CommandId::kSave, "/save", "", "FILE", CommandArgument::kFile,
     "Save the conversation: FILE.json or FILE.md as text; any other name so that /load need not "
     "read it again"},
    {CommandId::kLoad, "/load", "", "FILE", CommandArgument::kFile,
     "Continue a saved conversation"},
    {CommandId::kRetry, "/retry", "", "", CommandArgument::kNone, "Answer the last question again"},
    {CommandId::kUndo, "/undo", "", "", CommandArgument::kNone,
     "Remove the last question and its answer"},
    {CommandId::kEdit, "/edit", "", "", CommandArgument::kNone,
     "Change the last question in $EDITOR and ask it again"},
    {CommandId::kFile, "/file", "", "FILE", CommandArgument::kFile,
     "Add a text file to the next question"},
    {CommandId::kJson, "/json", "", "SCHEMA", CommandArgument::kFile,
     "Answer in JSON that follows SCHEMA, a file or a text; any: any JSON; off: text again"},
    {CommandId::kStats, "/stats", "", "on|off", CommandArgument::kSwitch,
     "Show the length and speed of the last answer; on: after each answer"},
    {CommandId::kClear, "/clear", "", "", CommandArgument::kNone,
     "Start over; the system message remains"},
    {CommandId::kShow, "/show", "", "", CommandArgument::kNone,
     "What is known about the model; /show reasoning: how it came to its answer"},
    {CommandId::kExit, "/exit", "/bye /quit", "", CommandArgument::kNone, "Leave, as Ctrl-D does"},
});

constexpr std::string_view kQuotes = "\"\"\"";

}  // namespace

std::span<const ChatCommand> chat_commands() { return kChatCommands; }

const ChatCommand* find_chat_command(std::string_view name) {
  const auto* const found = std::ranges::find_if(kChatCommands, [&](const ChatCommand& command) {
    if (command.name == name) return true;
    for (std::string_view aliases = command.alias; !aliases.empty();) {
      const size_t end = std::min(aliases.find(' '), aliases.size());
      if (aliases.substr(0, end) == name) return true;
      aliases.remove_prefix(std::min(end + 1, aliases.size()));
    }
    return false;
  });
  return found == kChatCommands.end() ? nullptr : found;
}

std::string chat_help(size_t columns) {
  size_t width = 0;
  for (const ChatCommand& c : kChatCommands) {
    width = std::max(width, c.name.size() + c.argument.size());
  }
  std::string out;
  for (const ChatCommand& c : kChatCommands) {
    std::string left(c.name);
    if (!c.argument.empty()) (left += ' ') += c.argument;
    left.resize(width + 3, ' ');
    out += left + wrap_text(c.help, left.size(), columns, left.size()) + '\n';
  }
  return out + '\n' +
         wrap_text(
             "Enter sends. Alt-Enter, or a backslash at the end, begins a new line; \"\"\" begins "
             "and ends a text of several lines. Tab completes, Ctrl-R searches the history, Ctrl-X "
             "Ctrl-E opens $EDITOR. Ctrl-C stops the answer; twice at the prompt, it leaves.",
             0, columns, 0) +
         '\n';
}

ChatInput read_chat_input(std::string_view line) {
  if (!line.starts_with('/')) return {};
  const size_t end = std::min(line.find_first_of(" \t\n"), line.size());
  const std::string_view name = line.substr(0, end);
  const bool word = name.size() > 1 && std::ranges::all_of(name.substr(1), [](char c) {
                      return (c >= 'a' && c <= 'z') || c == '?';
                    });
  if (!word) return {};
  std::string_view argument = line.substr(end);
  const size_t first = argument.find_first_not_of(" \t\n");
  const size_t last = argument.find_last_not_of(" \t\n");
  argument = first == std::string_view::npos ? "" : argument.substr(first, last - first + 1);
  return {.is_command = true, .name = std::string(name), .argument = std::string(argument)};
}

SetWords read_set_words(std::string_view argument) {
  constexpr std::string_view kSpace = " \t\n";
  const auto take = [&]() -> std::string {
    const size_t end = std::min(argument.find_first_of(kSpace), argument.size());
    std::string word(argument.substr(0, end));
    argument.remove_prefix(std::min(argument.find_first_not_of(kSpace, end), argument.size()));
    return word;
  };
  std::string name = take();
  if (name == "parameter") name = take();
  std::string value(argument);
  if (value.size() > 1 && value.front() == '"' && value.back() == '"') {
    value = value.substr(1, value.size() - 2);
  }
  return {.name = std::move(name), .value = std::move(value)};
}

bool opens_block(std::string_view line) {
  return line.starts_with(kQuotes) && line.find(kQuotes, kQuotes.size()) == std::string_view::npos;
}

bool closes_block(std::string_view line) { return line.find(kQuotes) != std::string_view::npos; }

std::string block_text(std::string_view text) {
  if (!text.starts_with(kQuotes)) return std::string(text);
  text.remove_prefix(kQuotes.size());
  if (text.starts_with('\n')) text.remove_prefix(1);
  const size_t end = text.find(kQuotes);
  std::string out(text.substr(0, end));
  if (end != std::string_view::npos) out += text.substr(end + kQuotes.size());
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

}  // namespace chimere::app
