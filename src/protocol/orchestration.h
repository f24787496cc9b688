// Chats that are more than one generation: the interfaces between what orchestrates them, the
// models that it talks to, and the server or program that the answer goes to.
#ifndef CHIMERE_PROTOCOL_ORCHESTRATION_H_
#define CHIMERE_PROTOCOL_ORCHESTRATION_H_

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/api_error.h"
#include "protocol/generation_writer.h"
#include "protocol/requests.h"
#include "protocol/responses.h"

namespace chimere::protocol {

/// Adds a part of a choice to the choice so far.
void append_piece(const Choice& part, Choice& whole);

/// One finished generation.
struct ChatReply {
  Choice choice;  ///< whole, with its finish reason
  Usage usage;
  Timings timings;
};

/// A model that answers chats, in this process or behind an API. Thread-safe.
class ModelClient {
 public:
  /// Receives the parts of a generation in order; returns false to end it.
  using OnPiece = std::function<bool(const Choice&)>;

  virtual ~ModelClient() = default;
  /// The model's name.
  virtual std::string id() const = 0;
  /// Whether a last message of the assistant is continued.
  virtual bool continues() const { return true; }
  /// Generates the next message; one choice, whatever `n` says. Blocks until it has ended. If
  /// `on_piece` ended it, that is no error: `out` has what there was, without a finish reason.
  virtual std::optional<ApiError> chat(const ChatRequest& request, const OnPiece& on_piece,
                                       ChatReply& out) = 0;

  /// Runs chats at the same time, so that the engine computes them in one batch. `out`: one for
  /// each request. Returns the first error; the other chats have ended then, too.
  std::optional<ApiError> chat_all(std::span<const ChatRequest> requests, std::span<ChatReply> out);
};

/// Where an orchestrated answer goes. Used by one thread at a time.
class AnswerSink {
 public:
  virtual ~AnswerSink() = default;
  /// What the orchestrator does, as a JSON object.
  virtual void step(std::string_view json) = 0;
  /// A part of the answer; the last part has a finish reason.
  virtual void piece(const Choice& part) = 0;
  /// The client is gone: stop.
  virtual bool abandoned() const = 0;
};

/// What is known when an orchestrated answer has ended.
struct OrchestratedAnswer {
  Usage usage;           ///< of all generations together
  std::string metadata;  ///< a JSON object
};

/// Answers chats whose model name is its own. Thread-safe.
class ChatOrchestrator {
 public:
  virtual ~ChatOrchestrator() = default;
  /// The model names that it answers.
  virtual std::vector<std::string> names() const = 0;
  /// The model that a chat with this model name talks to, empty for the default one; absent: the
  /// name is that of a plain model.
  virtual std::optional<std::string> model_of(std::string_view name) const = 0;
  /// Blocks until the answer has ended. `owner`: the name of the API key, or empty. `out` is filled
  /// in after an error, too.
  virtual std::optional<ApiError> answer(const ChatRequest& request, const std::string& owner,
                                         ModelClient& model, AnswerSink& sink,
                                         OrchestratedAnswer& out) = 0;
};

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_ORCHESTRATION_H_
