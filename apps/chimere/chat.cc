// chimere chat: a conversation on the terminal, or of lines on standard input.
#include "chat.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_amount.h"
#include "base/nearest_word.h"
#include "base/terminal.h"
#include "chat_commands.h"
#include "chat_completion.h"
#include "chat_session.h"
#include "command.h"
#include "external_editor.h"
#include "generate.h"
#include "interrupt.h"
#include "json.h"
#include "pull_model.h"
#include "recap.h"
#include "recommended_models.h"
#include "runtime/model_facts.h"
#include "runtime/model_path.h"
#include "runtime/state_folder.h"
#include "terminal/cells.h"
#include "terminal/history.h"
#include "terminal/line_reader.h"
#include "text/utf8.h"
#include "wrap_text.h"

namespace chimere::app {
namespace {

/// Models with fewer parameters are called tiny.
constexpr int64_t kTiny = 500'000'000;

std::string count_text(int64_t count) {
  if (count >= 1'000'000'000)
    return fmt::format("{:.1f} billion", static_cast<double>(count) / 1e9);
  if (count >= 1'000'000) return fmt::format("{:.0f} million", static_cast<double>(count) / 1e6);
  return std::to_string(count);
}

class Chat {
 public:
  explicit Chat(std::unique_ptr<ChatSession> session) : session_(std::move(session)) {}

  /// Lines of standard input, until its end.
  Status read_lines() {
    const bool prompts = is_terminal(StandardStream::kInput);
    if (prompts) std::cerr << "Ask something; /help lists commands.\n";
    std::string text;
    while (true) {
      if (prompts) std::cerr << "> " << std::flush;
      if (!std::getline(std::cin, text)) break;
      for (std::string more; in_block(text) && std::getline(std::cin, more);) {
        text += "\n" + more;
      }
      if (!take(text)) break;
    }
    if (prompts) std::cerr << '\n';
    return finish();
  }

  /// A conversation with the line editor.
  Status converse() {
    interactive_ = true;
    const std::string folder = runtime::state_folder(session_->settings());
    terminal::History history(folder.empty() ? "" : folder + "/chat_history");
    InterruptScope interrupts;
    terminal::LineReader reader(
        history, {.completed = [&] { interrupts.reset(); },
                  .completer =
                      [this](std::string_view before) {
                        return complete_chat(before, session_->settings());
                      },
                  .open_editor = [this](const std::string& text) { return edit(text); },
                  .colours = has_colours(StandardStream::kError)});
    while (true) {
      std::optional<std::string> text = reader.read("> ");
      while (text && in_block(*text)) {
        const std::optional<std::string> more = reader.read("... ");
        if (!more) break;
        *text += "\n" + *more;
      }
      if (!text) break;
      const Status kept = history.add(*text);
      if (!kept.ok() && !history_failed_) {
        history_failed_ = true;
        complain(kept.error().message);
      }
      const TerminalMode silent(TerminalMode::Kind::kSilent);
      // Typed behind the text, before Ctrl-C was a signal again.
      if (reader.take_interrupt()) interrupts.interrupt();
      if (!take(*text)) break;
    }
    return finish();
  }

  void welcome() const {
    const ChatSession& s = *session_;
    if (s.settings().get(settings::kQuiet)) return;
    const std::string text =
        fmt::format("{} ({} parameters). {}", terminal::visible(s.model_name()),
                    count_text(s.facts().parameters), length_text());
    tell(text);
    // A conversation that continues has shown it before.
    if (s.facts().parameters < kTiny && s.conversation().questions() == 0) suggest_models();
  }

  /// What continues from a file.
  void resumed(const std::string& path) const {
    const Conversation& conversation = session_->conversation();
    const auto last = conversation.last_question();
    if (!last || session_->settings().get(settings::kQuiet)) return;
    const int64_t questions = conversation.questions();
    std::string text = fmt::format("Resumed {}: {} question{}", terminal::visible(path), questions,
                                   questions == 1 ? "" : "s");
    if (!conversation.system().empty()) text += ", a system message";
    if (const int64_t ready = session_->ready_tokens(); ready > 0) {
      text += fmt::format(", the model has read {} tokens of it already", ready);
    }
    // Of the last turns, what fits into a few rows.
    show_note(
        text + ":\n" +
        recap(conversation.messages(), conversation.format().reasoning.close.text, columns()));
  }

 private:
  static void complain(const std::string& message) {
    std::cerr << message_rows("chimere: " + message) << '\n';
  }
  static void tell(const std::string& message) { std::cerr << message_rows(message) << '\n'; }

  /// Rows of long texts are no wider.
  static size_t columns() {
    constexpr size_t kWidestRow = 100;
    return std::min(static_cast<size_t>(terminal_size(StandardStream::kError).columns), kWidestRow);
  }

  /// A text that """ began and did not end yet.
  static bool in_block(const std::string& text) {
    const size_t first = text.find('\n');
    if (!opens_block(std::string_view(text).substr(0, first))) return false;
    return first == std::string::npos || !closes_block(std::string_view(text).substr(first));
  }

  /// How long the conversation may become.
  std::string length_text() const {
    constexpr double kWordsPerToken = 0.75;  // of English texts
    const auto words =
        static_cast<int64_t>(static_cast<double>(session_->context()) * kWordsPerToken);
    return fmt::format("A conversation may have {} tokens, about {} words.", session_->context(),
                       words < 1000 ? words : words / 1000 * 1000);
  }

  void suggest_models() const {
    std::cerr << "This is a tiny model: it makes things up outside the little that it knows.\n";
    const auto models = models_for_memory(available_memory(), 3);
    if (models.empty()) return;
    std::cerr << "Better ones that fit into this machine's memory (list of " << kRecommendedDate
              << "):\n";
    for (const RecommendedModel& m : models) {
      std::cerr << fmt::format("  {} pull {}\n      about {} GB; {}\n", session_->line().program,
                               m.name, m.gigabytes, m.note);
    }
  }

  /// Errors: the one that ended the chat.
  Status finish() const {
    if (session_->line().json) print_json({{"turns", session_->turns()}});
    return end_;
  }

  /// Takes a line; false: leave. An error, such as a message that does not fit, does not end the
  /// chat, unless it leaves no model.
  bool take(const std::string& text) {
    if (is_blank(text)) return true;
    const ChatInput input = read_chat_input(text);
    if (text == "exit" || text == "quit") return false;
    if (!input.is_command) {
      const std::string message = block_text(text);
      if (!is_blank(message)) report(ask(message));
      return true;
    }
    const ChatCommand* command = find_chat_command(input.name);
    if (input.name == "/tools") {
      tell("The chat calls no tools; programs that use the API of `chimere serve` do.");
      return true;
    }
    if (command == nullptr) {
      std::vector<std::string> names;
      for (const ChatCommand& c : chat_commands()) names.emplace_back(c.name);
      const std::string near = nearest_word(input.name, names);
      tell("There is no command " + input.name + "; " +
           (near.empty() ? "/help lists them." : "did you mean " + near + "?"));
      return true;
    }
    if (command->id == ChatCommand::Id::kExit) return false;
    Status done = run(command->id, input.argument);
    if (!session_->has_model()) {
      end_ = std::move(done);
      return false;
    }
    report(done);
    return true;
  }

  static void report(const Status& done) {
    if (!done.ok()) complain(done.error().message);
  }

  Status ask(const std::string& text) {
    std::string question;
    for (const auto& [name, content] : files_) {
      question.append("File ").append(name).append(":\n```\n").append(content);
      question += content.ends_with('\n') ? "```\n\n" : "\n```\n\n";
    }
    Status done = session_->ask(question + text);
    if (done.ok()) files_.clear();
    return done;
  }

  Status run(ChatCommand::Id id, const std::string& argument) {
    using Id = ChatCommand::Id;
    switch (id) {
      case Id::kHelp:
        std::cerr << chat_help(columns());
        return {};
      case Id::kModel:
        return argument.empty() ? list_models() : switch_model(argument);
      case Id::kSystem:
        return system(argument);
      case Id::kSet:
        return set(argument);
      case Id::kSave:
        return save(argument);
      case Id::kLoad:
        return load(argument);
      case Id::kRetry:
        return session_->retry();
      case Id::kUndo:
        return undo();
      case Id::kEdit:
        return edit_last();
      case Id::kFile:
        return attach(argument);
      case Id::kJson:
        return json(argument);
      case Id::kStats:
        return stats(argument);
      case Id::kShow:
        return show(argument);
      case Id::kClear:
        session_->clear();
        files_.clear();
        if (interactive_) tell("Started over.");
        return {};
      case Id::kExit:
        return {};
    }
    return {};
  }

  Status list_models() const {
    const ChatSession& s = *session_;
    tell("This is " + terminal::visible(s.model_name()) + " (" + terminal::visible(s.model_path()) +
         ").");
    for (const runtime::NamedModel& m : runtime::named_models(s.settings())) {
      if (runtime::file_kind(m.path) != runtime::FileKind::kText) continue;
      tell(fmt::format(
          "  {}  {}", terminal::visible(m.name),
          m.shipped ? "comes with the program" : human_bytes(static_cast<double>(m.bytes))));
    }
    return {};
  }

  Status switch_model(const std::string& name) {
    CHIMERE_CHECK_OK(offer_pull(name, session_->settings(),
                                interactive_ ? TerminalUse::kSilent : TerminalUse::kFree));
    const std::string before = session_->model_name();
    CHIMERE_TRY(const bool switched,
                session_->switch_model(name, [](const Error& error) { complain(error.message); }));
    if (switched) {
      welcome();
    } else {
      tell("The conversation continues with " + terminal::visible(before) + ".");
    }
    return {};
  }

  Status system(const std::string& text) {
    if (text.empty()) {
      const std::string now = session_->conversation().system();
      std::cerr << (now.empty() ? "There is no system message." : terminal::visible(now)) << '\n';
      return {};
    }
    session_->set_system(text == "none" ? "" : text);
    tell(text == "none" ? "The system message is removed." : "The system message is set.");
    return {};
  }

  /// "temperature", "top_k": an option under its name in the API; nullptr: there is none.
  static const SettingInfo* option_of_api(std::string_view name) {
    if (name == "num_predict") return &settings::kMaxTokens;
    for (const SettingInfo* s : settings::in_group(SettingGroup::kSampling)) {
      if (!s->field.empty() && s->field == name) return s;
    }
    return nullptr;
  }

  Status show(const std::string& what) {
    const ChatSession& s = *session_;
    if (what == "system") return system("");
    if (what == "parameters") return set("");
    if (what == "reasoning") {
      const std::string& reasoning = s.last_reasoning();
      show_note(reasoning.empty() ? "The last answer came without reasoning."
                                  : terminal::visible(reasoning));
      return {};
    }
    tell(fmt::format("{} ({}, {} parameters). {}", terminal::visible(s.model_name()),
                     terminal::visible(s.facts().architecture), count_text(s.facts().parameters),
                     length_text()));
    tell("`" + s.line().program + " inspect " + terminal::visible(s.model_path()) + "` says more.");
    return {};
  }

  Status set(const std::string& argument) {
    auto [name, value] = read_set_words(argument);
    if (name == "num_ctx")
      return invalid_argument(
          "The length of the conversation is set at the start: chimere chat --ctx N");
    if (const SettingInfo* s = option_of_api(name); s != nullptr) name = s->name;
    if (name == "verbose") return set_verbose(value != "off");
    if (name == "quiet") return set_verbose(false);
    if (name == "system") return system(value);
    if (name == "format") return json(value == "json" ? "any" : value);
    if (name == "noformat") return json("off");
    if (name.empty()) {
      for (const SettingInfo* s : settings::in_group(SettingGroup::kSampling)) {
        std::cerr << list_row(s->name, s->help, 26, columns());
      }
      return {};
    }
    if (value.empty()) {
      const SettingInfo* s = settings::find(name);
      if (s == nullptr) return invalid_argument("There is no option '" + name + "'.");
      const std::string range = settings::range_text(*s);
      tell(fmt::format("{}: {}{}; default {}", s->name, s->help,
                       range.empty() ? "" : " (" + range + ")", s->default_value));
      return {};
    }
    CHIMERE_CHECK_OK(session_->set_option(name, value));
    tell(name + " is " + value + " from now on.");
    return {};
  }

  Status save(const std::string& argument) {
    const std::string path = argument.empty() ? session_->state_path() : argument;
    if (path.empty()) return invalid_argument("Name a file: /save talk.state");
    CHIMERE_CHECK_OK(session_->save(expand(path)));
    tell("Saved in " + path + ".");
    return {};
  }

  Status load(const std::string& argument) {
    if (argument.empty()) return invalid_argument("Name a file: /load talk.state");
    if (argument.ends_with(".gguf")) return switch_model(argument);
    const Status loaded = session_->load(expand(argument));
    // Ollama's /load takes a model.
    if (!loaded.ok() && loaded.error().code == Error::Code::kNotFound &&
        runtime::find_model(argument, session_->settings()).ok()) {
      return switch_model(argument);
    }
    CHIMERE_CHECK_OK(loaded);
    resumed(argument);
    return {};
  }

  Status undo() {
    const auto last = session_->conversation().last_question();
    CHIMERE_CHECK_OK(session_->undo());
    constexpr std::string_view kRemoved = "Removed: ";
    tell(std::string(kRemoved) + shorten_to_rows(last.value_or(""), 1, kRemoved.size(), columns()));
    return {};
  }

  std::optional<std::string> edit(const std::string& text) {
    auto edited = edit_in_editor(text, session_->settings());
    if (edited.ok()) return *std::move(edited);
    complain(edited.error().message);
    return std::nullopt;
  }

  Status edit_last() {
    if (!is_terminal(StandardStream::kInput) || !is_terminal(StandardStream::kOutput)) {
      return invalid_argument("/edit opens an editor, which needs a terminal.");
    }
    const auto last = session_->conversation().last_question();
    CHIMERE_TRY(std::string text, edit_in_editor(last.value_or(""), session_->settings()));
    while (text.ends_with('\n')) text.pop_back();
    if (is_blank(text) || text == last) {
      tell("Nothing was changed.");
      return {};
    }
    if (last) CHIMERE_CHECK_OK(session_->undo());
    std::cerr << "> " << terminal::visible(text) << '\n';
    return session_->ask(text);
  }

  Status attach(const std::string& argument) {
    if (argument.empty()) return invalid_argument("Name a file: /file notes.txt");
    if (argument == "-") return invalid_argument("/file reads files, not standard input.");
    CHIMERE_TRY(std::string text, read_file(expand(argument)));
    if (!text::is_valid_utf8(text) || text.find('\0') != std::string::npos) {
      return invalid_argument(argument + " is no text file.");
    }
    const int64_t tokens = session_->count_tokens(text);
    if (tokens >= session_->context()) {
      return invalid_argument(fmt::format("{} has {} tokens; the context holds {} (--ctx).",
                                          argument, tokens, session_->context()));
    }
    files_.emplace_back(argument, std::move(text));
    tell(fmt::format("{} ({} tokens) goes with the next question.", argument, tokens));
    return {};
  }

  Status json(const std::string& argument) {
    if (argument.empty()) {
      tell(session_->has_constraint()
               ? "Answers follow a schema, grammar or pattern; /json off ends it."
               : "Answers are text; /json SCHEMA.json or /json any makes JSON.");
      return {};
    }
    std::string schema;
    if (argument == "any") {
      schema = R"({"type": "object"})";
    } else if (argument.starts_with('{')) {
      schema = argument;
    } else if (argument != "off") {
      CHIMERE_TRY(schema, read_file(expand(argument)));
    }
    std::optional<constraints::ConstraintSpec> spec;
    if (!schema.empty()) spec.emplace(constraints::JsonSchemaSpec{schema}, std::nullopt);
    CHIMERE_CHECK_OK(session_->set_constraint(std::move(spec)));
    tell(schema.empty() ? "Answers are text again." : "Answers are JSON from now on.");
    return {};
  }

  Status set_verbose(bool verbose) {
    session_->set_verbose(verbose);
    tell(verbose
             ? "Statistics follow each answer, and reasoning is shown whole; /set quiet ends it."
             : "Statistics and long reasoning are not shown.");
    return {};
  }

  Status stats(const std::string& argument) {
    if (argument == "on" || argument == "off") return set_verbose(argument == "on");
    if (!argument.empty()) return invalid_argument("It is /stats, /stats on or /stats off.");
    const std::string last = session_->last_statistics();
    if (last.empty()) {
      tell("There is no answer yet.");
      return {};
    }
    tell(last);
    tell(fmt::format("The conversation fills {} of {} tokens of the context.",
                     session_->last_tokens(), session_->context()));
    return {};
  }

  /// ~/x below the home folder.
  static std::string expand(const std::string& path) {
    return path.starts_with("~/") ? home_folder() + path.substr(1) : path;
  }

  std::unique_ptr<ChatSession> session_;
  bool interactive_ = false;
  bool history_failed_ = false;
  Status end_;  ///< an error after which the chat cannot continue
  std::vector<std::pair<std::string, std::string>> files_;  ///< for the next question
};

}  // namespace

Option add_conversation_flags(Command& command, ChatFlags& flags) {
  command.option("--system", flags.system, "The system message, which says how to answer");
  return add_state_flag(command, flags.state);
}

Status run_chat(const CommandLine& line, const ChatFlags& flags) {
  const bool editor = is_terminal(StandardStream::kInput) &&
                      has_control_sequences(StandardStream::kError) && !line.json;
  CHIMERE_CHECK_OK(offer_pull(line.settings.get(settings::kModel), line.settings));
  CHIMERE_TRY(auto constraint, constraint_spec(flags.constraint));
  CHIMERE_TRY(auto session, ChatSession::open(line, flags.state, !editor));
  if (!flags.system.empty()) session->set_system(flags.system);
  CHIMERE_CHECK_OK(session->set_constraint(std::move(constraint)));
  Chat chat(std::move(session));
  if (editor) chat.welcome();
  chat.resumed(flags.state);
  if (!editor) return chat.read_lines();
  if (!line.settings.get(settings::kQuiet)) {
    std::cerr << "Ask something. /help lists commands, Ctrl-D leaves.\n";
  }
  return chat.converse();
}

void declare_chat(Command& app, CommandLine& line) {
  const auto flags = std::make_shared<ChatFlags>();
  Command command = add_command(app, line, "chat", "Opens a conversation on the terminal",
                                [&line, flags] { return run_chat(line, *flags); });
  add_conversation_flags(command, *flags);
  add_output_constraint(command, flags->constraint);
  add_settings(command, line,
               {SettingGroup::kModel, SettingGroup::kDrafter, SettingGroup::kAdapters,
                SettingGroup::kChatTemplate, SettingGroup::kSampling, SettingGroup::kEngram,
                SettingGroup::kQuiet, SettingGroup::kVerbose, SettingGroup::kStateFolder});
}

}  // namespace chimere::app
