#include "chat_session.h"

#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <span>
#include <vector>

#include "base/file_stream.h"
#include "constraints/reasoning_before.h"
#include "generate.h"
#include "generation_stream.h"
#include "loading.h"
#include "model/model.h"
#include "output_constraint_flags.h"
#include "question_language.h"
#include "runtime/model_path.h"
#include "runtime/request.h"

namespace chimere::app {
namespace {

std::string short_name(const std::string& path) {
  std::string name = std::filesystem::path(path).filename().string();
  if (name.ends_with(".gguf")) name.resize(name.size() - 5);
  return name;
}

Status write_file(const std::string& path, const std::string& text) {
  CHIMERE_TRY(AtomicFile file, AtomicFile::create(path));
  CHIMERE_CHECK_OK(
      file.write(std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size())));
  return file.commit();
}

std::string as_json(const std::vector<Message>& messages) {
  Json list = Json::array();
  for (const Message& m : messages) list.push_back({{"role", m.role}, {"content", m.content}});
  const Json document = {{"messages", std::move(list)}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string as_markdown(const std::vector<Message>& messages) {
  std::string out;
  for (const Message& m : messages) out += "## " + m.role + "\n\n" + m.content + "\n\n";
  return out;
}

Result<std::vector<Message>> from_json(const std::string& text, const std::string& path) {
  const auto refuse = [&] {
    return invalid_data(path +
                        " is no conversation: it needs {\"messages\": [{\"role\": ..., "
                        "\"content\": ...}, ...]} with texts.");
  };
  const Json document = Json::parse(text, nullptr, false);
  const Json* list = &document;
  if (document.is_object() && document.contains("messages")) list = &document["messages"];
  if (!list->is_array()) return refuse();
  std::vector<Message> messages;
  for (const Json& m : *list) {
    if (!m.is_object() || !m.contains("role") || !m.contains("content")) return refuse();
    const Json& role = m["role"];
    const Json& content = m["content"];
    if (!role.is_string() || !content.is_string()) return refuse();
    const auto name = role.get<std::string>();
    const bool known =
        name == "user" || name == "assistant" || (name == "system" && messages.empty());
    if (!known) return refuse();
    messages.push_back({.role = name, .content = content.get<std::string>()});
  }
  return messages;
}

}  // namespace

Result<std::unique_ptr<ChatSession::Model>> ChatSession::load_model(const Settings& settings,
                                                                    bool notice) {
  CHIMERE_TRY(const runtime::ModelPath found,
              runtime::find_model_or_suggest(settings.get(settings::kModel), settings));
  CHIMERE_TRY(auto file, notice ? open_model(settings) : gguf::Reader::open(found.path));
  CHIMERE_TRY(runtime::ModelFacts facts, runtime::model_facts(*file));
  CHIMERE_TRY(runtime::LoadedModel loaded,
              app::load(std::move(file), settings, {.checkpoints = 2, .drafter = true}));
  CHIMERE_TRY(auto engine, make_engine(loaded));
  CHIMERE_TRY(Conversation conversation, Conversation::start(loaded, settings));
  return std::make_unique<Model>(Model{short_name(found.path), found.path, std::move(facts),
                                       std::move(loaded), std::move(engine),
                                       std::move(conversation)});
}

Result<std::unique_ptr<ChatSession>> ChatSession::open(const CommandLine& line,
                                                       const std::string& state, bool notice) {
  CHIMERE_CHECK_OK(check_state_file(state));
  std::unique_ptr<ChatSession> session(new ChatSession(line));
  session->state_ = state;
  CHIMERE_TRY(auto model, load_model(line.settings, notice));
  CHIMERE_CHECK_OK(session->use(std::move(model)));
  session->file_ = open_state_file(state, line.settings, session->model_->loaded);
  CHIMERE_TRY(session->prefix_, load_conversation(session->file_, *session->model_->loaded.model,
                                                  session->model_->conversation));
  return session;
}

Status ChatSession::use(std::unique_ptr<Model> model) {
  CHIMERE_TRY(request_, runtime::request_from(line_.settings, model->loaded,
                                              model->conversation.format().reasoning));
  model_ = std::move(model);
  return {};
}

Status ChatSession::ask(const std::string& text) {
  CHIMERE_TRY(Conversation::Prompt prompt, model_->conversation.ask(text));
  tell_of_language(text);
  Status done = answer(std::move(prompt));
  if (!done.ok()) model_->conversation.remove_last();
  return done;
}

void ChatSession::tell_of_language(std::string_view question) {
  if (model_->language_told || line_.settings.get(settings::kQuiet)) return;
  const std::string notice = language_notice(question, model_languages(*model_->loaded.file));
  if (notice.empty()) return;
  show_note(message_rows(notice));
  model_->language_told = true;
}

Status ChatSession::retry() {
  Conversation& conversation = model_->conversation;
  if (!conversation.last_question()) return invalid_argument("There is no question to retry.");
  const std::vector<Message> before = conversation.messages();
  conversation.remove_last_answer();
  auto prompt = conversation.render();
  Status done = prompt.ok() ? answer(*std::move(prompt)) : Status(std::move(prompt).error());
  if (!done.ok()) conversation.resume(before);
  return done;
}

Status ChatSession::undo() {
  if (!model_->conversation.remove_last_turn()) {
    return invalid_argument("There is nothing to undo.");
  }
  keep();
  return {};
}

Status ChatSession::answer(Conversation::Prompt prompt) {
  if (static_cast<int64_t>(prompt.tokens.size()) >= context()) {
    return invalid_argument(
        fmt::format("With this question the conversation has {} tokens, and the context holds {}. "
                    "/clear starts over, /undo "
                    "removes the last question, and `chimere chat --ctx N` begins a longer one.",
                    prompt.tokens.size(), context()));
  }
  engine::Request request = request_;
  request.sampling.seed = runtime::seed_from(line_.settings);
  request.prompt = std::move(prompt.tokens);
  request.prefix = prefix_;
  request.keep_prefix = true;
  CHIMERE_TRY(request.constraint,
              compile(constraint_, model_->loaded,
                      constraints::reasoning_before(format().reasoning, prompt.start,
                                                    line_.settings.get(settings::kReasoning))));
  request.reasoning = prompt.start;
  last_seed_ = request.sampling.seed;
  warn_of_context(model_->loaded, request);
  const auto form =
      constraint_ ? GenerationStream::Form::kPlain : GenerationStream::Form::kMarkdown;
  using Reasoning = GenerationStream::Reasoning;
  const bool verbose = line_.settings.get(settings::kVerbose);
  GenerationStream stream(line_, {prompt.start, format().reasoning}, form,
                          verbose ? Reasoning::kWhole : Reasoning::kFolded);
  CHIMERE_TRY(Generation generation, generate(*model_->engine, std::move(request), line_.settings,
                                              [&](std::string_view piece) { stream.push(piece); }));
  engine::Outcome& outcome = generation.outcome;
  stream.finish();
  tell_of_end(generation, model_->loaded, line_.settings, AnswerOf::kChat);
  if (line_.json) {
    turns_.push_back({{"text", stream.answer()},
                      {"reasoning", stream.reasoning()},
                      {"tokens", outcome.tokens.size()},
                      {"prompt_tokens", outcome.prompt_tokens},
                      {"reused_tokens", outcome.reused_tokens},
                      {"finish", finish_name(generation)},
                      {"seed", last_seed_}});
  }
  if (shows_statistics(line_.settings)) {
    show_note(message_rows(statistics(generation, last_seed_)));
  }
  last_reasoning_ = stream.reasoning();
  if (outcome.prefix) prefix_ = std::move(outcome.prefix);
  outcome.prefix.reset();
  model_->conversation.add_answer(outcome.text);
  last_tokens_ = outcome.prompt_tokens + static_cast<int64_t>(outcome.tokens.size());
  last_ = std::move(generation);
  keep();
  return {};
}

/// Called after every change because Ctrl-C ends the program at once. A conversation that cannot
/// be saved continues nevertheless.
void ChatSession::keep() const {
  if (file_.path.empty()) return;
  const Status saved =
      save_conversation(file_, *model_->loaded.model, model_->conversation, prefix_);
  if (!saved.ok()) std::cerr << "chimere: " << saved.error().message << '\n';
}

void ChatSession::clear() {
  model_->conversation.clear();
  prefix_.reset();
  keep();
}

void ChatSession::set_system(std::string text) {
  model_->conversation.set_system(std::move(text));
  keep();
}

Status ChatSession::set_option(const std::string& name, const std::string& value) {
  const SettingInfo* setting = settings::find(name);
  if (setting == nullptr || !setting->groups.has(SettingGroup::kSampling)) {
    return invalid_argument("There is no option '" + name + "'; /set lists them.");
  }
  Settings changed = line_.settings;
  CHIMERE_CHECK_OK(changed.set(*setting, value, "/set " + name));
  CHIMERE_TRY(engine::Request request,
              runtime::request_from(changed, model_->loaded, format().reasoning));
  if (setting == &settings::kReasoning) model_->conversation.set_reasoning(value);
  request_ = std::move(request);
  line_.settings = std::move(changed);
  return {};
}

void ChatSession::set_verbose(bool verbose) {
  (void)line_.settings.set(settings::kVerbose, verbose ? "1" : "0", "/set verbose");
}

Status ChatSession::set_constraint(std::optional<constraints::ConstraintSpec> constraint) {
  CHIMERE_TRY(const auto compiled, compile(constraint, model_->loaded, std::nullopt));
  constraint_ = std::move(constraint);
  return {};
}

Status ChatSession::check_model(const Settings& settings) {
  const std::string& name = settings.get(settings::kModel);
  CHIMERE_TRY(const runtime::ModelPath found, runtime::find_model_or_suggest(name, settings));
  CHIMERE_TRY(const auto file, gguf::Reader::open(found.path));
  CHIMERE_CHECK_OK(model::check_architecture(*file));
  if (runtime::file_kind(*file) == runtime::FileKind::kText) return {};
  return invalid_argument(name + " computes vectors or scores, and no answers.");
}

Result<bool> ChatSession::switch_model(const std::string& name,
                                       const std::function<void(const Error&)>& refused) {
  Settings changed = line_.settings;
  Status checked = changed.set(settings::kModel, name, "/model");
  if (checked.ok()) checked = check_model(changed);
  if (!checked.ok()) {
    refused(checked.error());
    return false;
  }
  const std::vector<Message> messages = model_->conversation.messages();
  prefix_.reset();
  request_ = {};
  file_ = {};
  model_.reset();
  const auto load_and_use = [this](const Settings& settings) -> Status {
    CHIMERE_TRY(auto model, load_model(settings, false));
    return use(std::move(model));
  };
  std::swap(line_.settings, changed);
  const Status switched = load_and_use(line_.settings);
  if (!switched.ok()) {
    refused(switched.error());
    std::swap(line_.settings, changed);
    // What loading says of the old model was said at the start.
    Settings quiet = line_.settings;
    CHIMERE_CHECK_OK(quiet.set(settings::kQuiet, "1", "/model"));
    CHIMERE_CHECK_OK(load_and_use(quiet));
  }
  model_->conversation.resume(messages);
  file_ = open_state_file(state_, line_.settings, model_->loaded);
  return switched.ok();
}

Status ChatSession::save(const std::string& path) {
  const std::vector<Message>& messages = model_->conversation.messages();
  if (path.ends_with(".json")) return write_file(path, as_json(messages));
  if (path.ends_with(".md")) return write_file(path, as_markdown(messages));
  CHIMERE_CHECK_OK(check_state_file(path));
  const StateFile file = open_state_file(path, line_.settings, model_->loaded);
  return save_conversation(file, *model_->loaded.model, model_->conversation, prefix_);
}

Status ChatSession::load(const std::string& path) {
  Conversation& conversation = model_->conversation;
  if (path.ends_with(".json")) {
    CHIMERE_TRY(const std::string text, read_file(path));
    CHIMERE_TRY(std::vector<Message> messages, from_json(text, path));
    conversation.resume(std::move(messages));
    prefix_.reset();
    keep();
    return {};
  }
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return not_found("There is no file " + path + "; /save writes one.");
  }
  const StateFile file = open_state_file(path, line_.settings, model_->loaded);
  CHIMERE_TRY(prefix_, load_conversation(file, *model_->loaded.model, conversation));
  keep();
  return {};
}

int64_t ChatSession::ready_tokens() const {
  return prefix_ ? static_cast<int64_t>(prefix_->tokens.size()) : 0;
}

std::string ChatSession::last_statistics() const {
  return last_ ? statistics(*last_, last_seed_) : "";
}

int64_t ChatSession::count_tokens(std::string_view text) const {
  return static_cast<int64_t>(model_->loaded.tokenizer->encode(text, false).size());
}

}  // namespace chimere::app
