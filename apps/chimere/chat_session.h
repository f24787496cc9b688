// A conversation with a model: its turns, and what its commands change.
#ifndef CHIMERE_APPS_CHIMERE_CHAT_SESSION_H_
#define CHIMERE_APPS_CHIMERE_CHAT_SESSION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "command.h"
#include "constraints/constraint.h"
#include "conversation.h"
#include "engine/engine.h"
#include "generate.h"
#include "json.h"
#include "runtime/loaded_model.h"
#include "runtime/model_facts.h"
#include "saved_conversation.h"

namespace chimere::app {

/// Prints answers as GenerationStream does, and notes about them on standard error.
class ChatSession {
 public:
  /// Loads the model that the settings name. `state`: the file that keeps the conversation, which
  /// continues if the file exists; empty: none. `notice`: say which model runs if none was named.
  /// Errors: those of loading and of load_conversation().
  static Result<std::unique_ptr<ChatSession>> open(const CommandLine& line,
                                                   const std::string& state, bool notice);

  /// Asks and prints the answer. Errors: those of the template, the engine and the constraint; the
  /// question is not part of the conversation then.
  Status ask(const std::string& text);
  /// Answers the last question again. Errors: kInvalidArgument if there is none, those of ask().
  Status retry();
  /// Removes the last question and its answer. Errors: kInvalidArgument if there is none.
  Status undo();
  /// Starts over; the system message remains.
  void clear();
  void set_system(std::string text);
  /// Errors: kInvalidArgument (not a sampling option, an invalid value).
  Status set_option(const std::string& name, const std::string& value);
  /// What answers must match; absent: anything. Errors: those of Constraint::compile().
  Status set_constraint(std::optional<constraints::ConstraintSpec> constraint);
  /// Continues the conversation with another model; false: with the old one, after `refused` was
  /// told why. Two models may not fit into memory together, so that one that was found but cannot
  /// be loaded costs loading the old one again. Errors: those of that; has_model() is false then.
  Result<bool> switch_model(const std::string& name,
                            const std::function<void(const Error&)>& refused);
  /// Without one nothing else may be called but turns(), line() and settings().
  bool has_model() const { return model_ != nullptr; }
  /// Saves the conversation, by the file's name as JSON, Markdown or with the model's state.
  /// Errors: kIo, kOutOfSpace.
  Status save(const std::string& path);
  /// Replaces the conversation by a saved one (JSON or with state). Errors: kNotFound,
  /// kInvalidData, kInvalidArgument.
  Status load(const std::string& path);

  const Conversation& conversation() const { return model_->conversation; }
  const Settings& settings() const { return line_.settings; }
  const CommandLine& line() const { return line_; }
  const std::string& model_name() const { return model_->name; }
  const std::string& model_path() const { return model_->path; }
  const runtime::ModelFacts& facts() const { return model_->facts; }
  int64_t context() const { return model_->loaded.context; }
  const std::string& state_path() const { return state_; }
  /// Tokens whose state need not be computed again; 0: none.
  int64_t ready_tokens() const;
  /// Statistics of the last answer; empty: there is none.
  std::string last_statistics() const;
  /// Of the last answer; empty: it had none.
  const std::string& last_reasoning() const { return last_reasoning_; }
  /// Tokens of prompt and answer of the last turn.
  int64_t last_tokens() const { return last_tokens_; }
  /// Number of tokens of a text.
  int64_t count_tokens(std::string_view text) const;
  bool has_constraint() const { return constraint_.has_value(); }
  /// Statistics after each answer, and the whole reasoning before it.
  void set_verbose(bool verbose);
  /// The turns so far, for --json.
  const Json& turns() const { return turns_; }

 private:
  struct Model {
    std::string name;
    std::string path;
    runtime::ModelFacts facts;
    runtime::LoadedModel loaded;
    std::unique_ptr<engine::Engine> engine;
    Conversation conversation;
    bool language_told = false;  ///< that it does not know the language of a question
  };

  explicit ChatSession(CommandLine line) : line_(std::move(line)) {}
  static Result<std::unique_ptr<Model>> load_model(const Settings& settings, bool notice);
  Status use(std::unique_ptr<Model> model);
  /// Whether the model can take over. Errors: those of find_model_or_suggest() and
  /// gguf::Reader::open(); kInvalidArgument, kUnsupported (no model that answers).
  static Status check_model(const Settings& settings);
  Status answer(Conversation::Prompt prompt);
  /// Says, once for a model, that it does not know the question's language.
  void tell_of_language(std::string_view question);
  void keep() const;
  const text::ChatFormat& format() const { return model_->conversation.format(); }

  CommandLine line_;
  std::string state_;
  std::unique_ptr<Model> model_;
  StateFile file_;
  engine::Request request_;  ///< settings of every turn
  std::optional<engine::Prefix> prefix_;
  std::optional<constraints::ConstraintSpec> constraint_;
  std::optional<Generation> last_;
  std::string last_reasoning_;
  uint64_t last_seed_ = 0;
  int64_t last_tokens_ = 0;
  Json turns_ = Json::array();
};

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_CHAT_SESSION_H_
