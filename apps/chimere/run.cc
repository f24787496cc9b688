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
#include "chat.h"
#include "command.h"
#include "constraints/reasoning_before.h"
#include "conversation.h"
#include "generate.h"
#include "generation_stream.h"
#include "json.h"
#include "loading.h"
#include "output_constraint_flags.h"
#include "prompt_words.h"
#include "pull_model.h"
#include "question_language.h"
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
  std::string file;
  ChatFlags chat;
};

Json outcome_json(const Generation& generation, const GenerationStream& stream, uint64_t seed) {
  const engine::Outcome& o = generation.outcome;
  Json ids = Json::array();
  for (const auto& t : o.tokens) ids.push_back(t.id);
  Json drafts = Json::object();
  for (const engine::DraftCounts& of : o.speculation.sources) {
    drafts[std::string(of.source)] = {{"drafted", of.drafted}, {"accepted", of.accepted}};
  }
  return {{"text", stream.answer()},
          {"reasoning", stream.reasoning()},
          {"tokens", o.tokens.size()},
          {"ids", std::move(ids)},
          {"prompt_tokens", o.prompt_tokens},
          {"reused_tokens", o.reused_tokens},
          {"prompt_tok_s", prompt_rate(o)},
          {"decode_tok_s", decode_rate(o)},
          {"drafted", o.speculation.drafted()},
          {"accepted", o.speculation.accepted()},
          {"drafts", std::move(drafts)},
          {"thinking_tokens", o.thinking.tokens},
          {"thinking_end", engine::thinking_end_name(o.thinking.end)},
          {"finish", finish_name(generation)},
          {"seed", seed}};
}

/// Without the newline that ends a text in a file or pipe.
void trim_end(std::string& text) {
  while (text.ends_with('\n')) text.pop_back();
}

/// The words as a model, which goes into the settings, and a prompt. Errors: those of
/// read_prompt_words(); kInvalidArgument (two prompts).
Result<std::optional<std::string>> take_words(const RunFlags& flags, CommandLine& line) {
  const bool model_named = std::ranges::any_of(
      line.flags, [](const auto& flag) { return flag.first == &settings::kModel; });
  const auto find = [&](const std::string& name) -> Status {
    CHIMERE_CHECK_OK(offer_pull(name, line.settings));
    CHIMERE_TRY(const runtime::ModelPath found,
                runtime::find_model_or_suggest(name, line.settings));
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
  if (!flags.file.empty() && (words.prompt || flags.prompt)) {
    return invalid_argument("The prompt is given twice: with --file " + flags.file +
                            " and in words.");
  }
  if (flags.prompt) return flags.prompt;
  if (!words.prompt) return std::optional<std::string>();
  if (!has_piped_input()) return words.prompt;
  // As in `cat notes.txt | chimere run "Summarise this:"`.
  CHIMERE_TRY(std::string input, read_standard_input());
  trim_end(input);
  return std::optional(input.empty() ? *words.prompt : *words.prompt + "\n\n" + input);
}

Status run(CommandLine line, const RunFlags& flags) {
  CHIMERE_TRY(const std::optional<std::string> given, take_words(flags, line));
  CHIMERE_CHECK_OK(offer_pull(line.settings.get(settings::kModel), line.settings));
  std::string prompt;
  if (given) {
    prompt = *given;
  } else if (flags.file.empty() && is_terminal(StandardStream::kInput)) {
    return run_chat(line, flags.chat);
  } else {
    CHIMERE_TRY(prompt, read_file(flags.file.empty() ? "-" : flags.file));
    if (!flags.raw) trim_end(prompt);
  }
  if (flags.raw ? prompt.empty() : is_blank(prompt)) {
    return invalid_argument("The prompt is empty; give one with -p or on standard input.");
  }
  const bool keep = !flags.chat.state.empty();
  CHIMERE_CHECK_OK(check_state_file(flags.chat.state));
  CHIMERE_TRY(auto spec, constraint_spec(flags.chat.constraint));
  CHIMERE_TRY(const runtime::LoadedModel loaded,
              load(line.settings, {.checkpoints = keep ? 2 : 0, .drafter = true}));
  const StateFile file = open_state_file(flags.chat.state, line.settings, loaded);
  CHIMERE_TRY(const auto engine, make_engine(loaded));
  std::optional<Conversation> conversation;
  std::optional<engine::Prefix> prefix;
  if (!flags.raw) {
    CHIMERE_TRY(conversation, Conversation::start(loaded, line.settings));
  }
  const text::ReasoningTags tags = conversation ? conversation->format().reasoning
                                                : text::vocabulary_reasoning(*loaded.tokenizer);
  CHIMERE_TRY(engine::Request request, runtime::request_from(line.settings, loaded, tags));
  request.stop = flags.stop;
  auto start = text::ReasoningSplitter::Start::kContent;
  if (flags.raw) {
    if (!flags.chat.system.empty()) {
      return invalid_argument("--system needs the chat template, which --raw leaves out.");
    }
    request.prompt = loaded.tokenizer->encode_with_bos(prompt, true);
  } else {
    if (keep) {
      CHIMERE_TRY(prefix, load_conversation(file, *loaded.model, *conversation));
      request.prefix = prefix;
      request.keep_prefix = true;
    }
    if (!flags.chat.system.empty()) conversation->set_system(flags.chat.system);
    CHIMERE_TRY(Conversation::Prompt asked, conversation->ask(prompt));
    request.prompt = std::move(asked.tokens);
    start = asked.start;
    request.reasoning = start;
  }
  CHIMERE_TRY(
      request.constraint,
      compile(std::move(spec), loaded,
              constraints::reasoning_before(tags, start, line.settings.get(settings::kReasoning))));
  const uint64_t seed = request.sampling.seed;
  warn_of_context(loaded, request);
  if (!flags.raw && !line.settings.get(settings::kQuiet)) {
    const std::string notice = language_notice(prompt, model_languages(*loaded.file));
    if (!notice.empty()) show_note(message_rows(notice));
  }
  // JSON and texts without a template are no Markdown.
  const bool plain = flags.raw || request.constraint != nullptr;
  GenerationStream stream(
      line, {start, tags},
      plain ? GenerationStream::Form::kPlain : GenerationStream::Form::kMarkdown);
  CHIMERE_TRY(const Generation generation,
              generate(*engine, std::move(request), line.settings,
                       [&](std::string_view text) { stream.push(text); }));
  const engine::Outcome& outcome = generation.outcome;
  stream.finish();
  tell_of_end(generation, loaded, line.settings, AnswerOf::kRun);
  Status kept;
  if (keep) {
    conversation->add_answer(outcome.text);
    if (outcome.prefix) prefix = outcome.prefix;
    kept = save_conversation(file, *loaded.model, *conversation, prefix);
  }
  if (line.json) {
    print_json(outcome_json(generation, stream, seed));
  } else if (shows_statistics(line.settings)) {
    show_note(message_rows(statistics(generation, seed)));
  }
  return kept;
}

}  // namespace

void declare_run(Command& app, CommandLine& line) {
  const auto flags = std::make_shared<RunFlags>();
  Command command = add_command(app, line, "run", "Answers one question",
                                [&line, flags] { return run(line, *flags); });
  command.option(
      "WORDS", flags->words,
      "A model's name, then the question; either may be left out, and what is piped in follows "
      "the question");
  command.option(
      "-p,--prompt", flags->prompt,
      "The question, in place of WORDS; without both it is read from standard input, and "
      "on a terminal a conversation opens");
  const Option raw = command.flag(
      "--raw", flags->raw, "Continue the text as it is: it is no question of a conversation");
  command.option("--stop", flags->stop, "The answer ends before this text; may be repeated")
      .one_value()
      .repeatable();
  command.option("-f,--file", flags->file, "File with the question, in place of WORDS");
  add_conversation_flags(command, flags->chat).excludes(raw);
  add_output_constraint(command, flags->chat.constraint);
  add_settings(command, line,
               {SettingGroup::kModel, SettingGroup::kDrafter, SettingGroup::kAdapters,
                SettingGroup::kChatTemplate, SettingGroup::kSampling, SettingGroup::kEngram,
                SettingGroup::kQuiet, SettingGroup::kVerbose, SettingGroup::kStateFolder});
}

}  // namespace chimere::app
