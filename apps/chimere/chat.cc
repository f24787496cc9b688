// chimere chat: a conversation on the terminal.
#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/system.h"
#include "command.h"
#include "conversation.h"
#include "generate.h"
#include "generation_stream.h"
#include "json.h"
#include "loading.h"
#include "runtime/loaded_model.h"
#include "runtime/request.h"
#include "saved_conversation.h"

namespace chimere::app {
namespace {

constexpr const char* kHelp =
    "/help   this list\n"
    "/reset  start over\n"
    "/exit   leave (as do Ctrl-D and Ctrl-C)\n"
    "Ctrl-C ends the answer that is being generated; twice ends the program.\n";

class Chat {
 public:
  /// `request`: settings of every turn. `file`: keeps the conversation.
  Chat(const CommandLine& line, const runtime::LoadedModel& loaded, engine::Engine& engine,
       engine::Request request, Conversation conversation, StateFile file)
      : line_(line),
        loaded_(loaded),
        engine_(engine),
        request_(std::move(request)),
        conversation_(std::move(conversation)),
        file_(std::move(file)) {}

  /// Continues from the file. Errors: those of load_conversation().
  Status resume() {
    CHIMERE_TRY(prefix_, load_conversation(file_, *loaded_.model, conversation_));
    return {};
  }

  Status run() {
    const bool interactive = is_terminal(StandardStream::kInput);
    if (interactive) std::cerr << "Ask something; /help lists commands.\n";
    std::string text;
    while (true) {
      if (interactive) std::cerr << "> " << std::flush;
      if (!std::getline(std::cin, text)) break;
      if (is_blank(text)) continue;
      if (text == "/exit") break;
      if (text == "/help") {
        std::cerr << kHelp;
      } else if (text == "/reset") {
        conversation_.clear();
        prefix_.reset();
        keep();
      } else if (text.starts_with('/')) {
        std::cerr << "There is no command " << text << "; /help lists them.\n";
      } else {
        const Status turn = take_turn(text);
        // An error, such as a message that does not fit, does not end the chat.
        if (!turn.ok()) std::cerr << "chimere: " << turn.error().message << '\n';
      }
    }
    if (interactive) std::cerr << '\n';
    return leave();
  }

 private:
  Status leave() const {
    if (line_.json) print_json({{"turns", turns_}});
    return {};
  }

  Status take_turn(const std::string& text) {
    CHIMERE_TRY(Conversation::Prompt asked, conversation_.ask(text));
    engine::Request request = request_;
    request.sampling.seed = runtime::seed_from(line_.settings);
    request.prompt = std::move(asked.tokens);
    request.prefix = prefix_;
    request.keep_prefix = true;
    const uint64_t seed = request.sampling.seed;
    warn_of_context(loaded_, request);
    GenerationStream stream(line_, asked.start);
    auto outcome =
        generate(engine_, std::move(request), [&](std::string_view piece) { stream.push(piece); });
    if (!outcome.ok()) {
      conversation_.remove_last();
      return std::move(outcome).error();
    }
    stream.finish();
    if (line_.json) {
      turns_.push_back({{"text", stream.answer()},
                        {"reasoning", stream.reasoning()},
                        {"tokens", outcome->tokens.size()},
                        {"prompt_tokens", outcome->prompt_tokens},
                        {"reused_tokens", outcome->reused_tokens},
                        {"finish", engine::finish_reason_name(outcome->reason)},
                        {"seed", seed}});
    }
    if (!line_.settings.get(settings::kQuiet))
      std::cerr << '(' << statistics(*outcome, seed) << ")\n";
    if (outcome->prefix) prefix_ = std::move(outcome->prefix);
    conversation_.add_answer(outcome->text);
    keep();
    return {};
  }

  /// Saves the conversation; called after every turn because Ctrl-C ends the program at once. A
  /// conversation that cannot be saved continues nevertheless.
  void keep() const {
    if (file_.path.empty()) return;
    const Status saved = save_conversation(file_, *loaded_.model, conversation_, prefix_);
    if (!saved.ok()) std::cerr << "chimere: " << saved.error().message << '\n';
  }

  const CommandLine& line_;
  const runtime::LoadedModel& loaded_;
  engine::Engine& engine_;
  engine::Request request_;
  Conversation conversation_;
  StateFile file_;
  std::optional<engine::Prefix> prefix_;
  Json turns_ = Json::array();
};

}  // namespace

Status run_chat(const CommandLine& line, const std::string& state) {
  CHIMERE_CHECK_OK(check_state_file(state));
  CHIMERE_TRY(const runtime::LoadedModel loaded, load(line.settings, {.checkpoints = 2}));
  CHIMERE_TRY(const auto engine, make_engine(loaded));
  CHIMERE_TRY(Conversation conversation,
              Conversation::start(loaded, line.settings.get(settings::kReasoning)));
  CHIMERE_TRY(engine::Request request, runtime::request_from(line.settings, *loaded.tokenizer));
  Chat chat(line, loaded, *engine, std::move(request), std::move(conversation),
            open_state_file(state, line.settings, loaded));
  CHIMERE_CHECK_OK(chat.resume());
  return chat.run();
}

void declare_chat(Command& app, CommandLine& line) {
  const auto state = std::make_shared<std::string>();
  Command command = add_command(app, line, "chat", "A conversation on the terminal",
                                [&line, state] { return run_chat(line, *state); });
  add_state_flag(command, *state);
  add_settings(command, line,
               {SettingGroup::kModel, SettingGroup::kSampling, SettingGroup::kEngram,
                SettingGroup::kQuiet, SettingGroup::kStateFolder});
}

}  // namespace chimere::app
