// chimere run: text in, text out.
#include <fmt/format.h>

#include <algorithm>
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
#include "output_constraint_flags.h"
#include "prompt_words.h"
#include "runtime/loaded_model.h"
#include "runtime/model_path.h"
#include "runtime/request.h"
#include "saved_conversation.h"

namespace chimere::app {
namespace {

struct RunFlags {
  std::vector<std::string> words;
  std::optional<std::string> prompt;
  bool raw = false;
  std::vector<std::string> stop;
  std::string state;
  OutputConstraintFlags constraint;
};

Json outcome_json(const engine::Outcome& o, const GenerationStream& stream, uint64_t seed) {
  Json ids = Json::array();
  for (const auto& t : o.tokens) ids.push_back(t.id);
  return {{"text", stream.answer()},
          {"reasoning", stream.reasoning()},
          {"tokens", o.tokens.size()},
          {"ids", std::move(ids)},
          {"prompt_tokens", o.prompt_tokens},
          {"reused_tokens", o.reused_tokens},
          {"prompt_tok_s", prompt_rate(o)},
          {"decode_tok_s", decode_rate(o)},
          {"drafted", o.speculation.drafted},
          {"accepted", o.speculation.accepted},
          {"thinking_tokens", o.thinking.tokens},
          {"thinking_end", engine::thinking_end_name(o.thinking.end)},
          {"finish", engine::finish_reason_name(o.reason)},
          {"seed", seed}};
}

/// The words as a model, which goes into the settings, and a prompt. Errors: those of
/// read_prompt_words(); kInvalidArgument (two prompts).
Result<std::optional<std::string>> take_words(const RunFlags& flags, CommandLine& line) {
  const bool model_named = std::ranges::any_of(
      line.flags, [](const auto& flag) { return flag.first == &settings::kModel; });
  const auto find = [&](const std::string& name) -> Status {
    CHIMERE_TRY(const runtime::ModelPath found, runtime::find_model(name, line.settings));
    // Any file could be meant by a path.
    if (found.path.ends_with(".gguf")) return {};
    return not_found("'" + found.path + "' is no GGUF file.");
  };
  CHIMERE_TRY(const PromptWords words, read_prompt_words(flags.words, model_named, find));
  if (!words.model.empty()) {
    CHIMERE_CHECK_OK(line.settings.set(settings::kModel, words.model, "MODEL"));
  }
  if (words.prompt && flags.prompt) {
    return invalid_argument("The prompt is given twice: '" + *words.prompt + "' and with -p.");
  }
  if (!words.notice.empty() && !line.settings.get(settings::kQuiet)) {
    std::cerr << words.notice << '\n';
  }
  return words.prompt ? words.prompt : flags.prompt;
}

Status run(CommandLine line, const RunFlags& flags) {
  CHIMERE_TRY(const std::optional<std::string> given, take_words(flags, line));
  std::string prompt;
  if (given) {
    prompt = *given;
  } else if (is_terminal(StandardStream::kInput)) {
    return run_chat(line, flags.state);
  } else {
    CHIMERE_TRY(prompt, read_standard_input());
    // The newline that ends a piped text is not part of the prompt.
    while (!flags.raw && prompt.ends_with('\n')) prompt.pop_back();
  }
  if (flags.raw ? prompt.empty() : is_blank(prompt)) {
    return invalid_argument("The prompt is empty; give one with -p or on standard input.");
  }
  const bool keep = !flags.state.empty();
  CHIMERE_CHECK_OK(check_state_file(flags.state));
  CHIMERE_TRY(auto spec, constraint_spec(flags.constraint));
  CHIMERE_TRY(const runtime::LoadedModel loaded,
              load(line.settings, {.checkpoints = keep ? 2 : 0}));
  const StateFile file = open_state_file(flags.state, line.settings, loaded);
  CHIMERE_TRY(const auto engine, make_engine(loaded));
  std::optional<Conversation> conversation;
  std::optional<engine::Prefix> prefix;
  CHIMERE_TRY(engine::Request request, runtime::request_from(line.settings, loaded));
  request.stop = flags.stop;
  auto start = text::ReasoningSplitter::Start::kContent;
  if (flags.raw) {
    request.prompt = loaded.tokenizer->encode_with_bos(prompt, true);
  } else {
    CHIMERE_TRY(conversation, Conversation::start(loaded, line.settings));
    if (keep) {
      CHIMERE_TRY(prefix, load_conversation(file, *loaded.model, *conversation));
      request.prefix = prefix;
      request.keep_prefix = true;
    }
    CHIMERE_TRY(Conversation::Prompt asked, conversation->ask(prompt));
    request.prompt = std::move(asked.tokens);
    start = asked.start;
    request.reasoning = start;
  }
  CHIMERE_TRY(request.constraint, compile(std::move(spec), loaded, start));
  const uint64_t seed = request.sampling.seed;
  warn_of_context(loaded, request);
  // JSON and texts without a template are no Markdown.
  const bool plain = flags.raw || request.constraint != nullptr;
  GenerationStream stream(
      line, start, plain ? GenerationStream::Form::kPlain : GenerationStream::Form::kMarkdown);
  CHIMERE_TRY(
      const engine::Outcome outcome,
      generate(*engine, std::move(request), [&](std::string_view text) { stream.push(text); }));
  stream.finish();
  Status kept;
  if (keep) {
    conversation->add_answer(outcome.text);
    if (outcome.prefix) prefix = outcome.prefix;
    kept = save_conversation(file, *loaded.model, *conversation, prefix);
  }
  if (line.json) {
    print_json(outcome_json(outcome, stream, seed));
  } else if (!line.settings.get(settings::kQuiet)) {
    std::cerr << statistics(outcome, seed) << '\n';
  }
  return kept;
}

}  // namespace

void declare_run(Command& app, CommandLine& line) {
  const auto flags = std::make_shared<RunFlags>();
  Command command = add_command(app, line, "run", "Answers a prompt: text in, text out",
                                [&line, flags] { return run(line, *flags); });
  command.option("WORDS", flags->words, "A model's name, then the prompt; either may be left out");
  command.option("-p,--prompt", flags->prompt,
                 "The prompt; default: WORDS, else standard input, or a chat on a terminal");
  const Option raw = command.flag("--raw", flags->raw,
                                  "Use the prompt as it is, without the model's chat template");
  command.option("--stop", flags->stop, "A string that ends the generation; may be repeated")
      .one_value()
      .repeatable();
  add_state_flag(command, flags->state).excludes(raw);
  add_output_constraint(command, flags->constraint);
  add_settings(command, line,
               {SettingGroup::kModel, SettingGroup::kAdapters, SettingGroup::kChatTemplate,
                SettingGroup::kSampling, SettingGroup::kEngram, SettingGroup::kQuiet,
                SettingGroup::kStateFolder});
}

}  // namespace chimere::app
