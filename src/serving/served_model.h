// The model that the server serves, and the rendering of its chat prompts.
#ifndef CHIMERE_SERVING_SERVED_MODEL_H_
#define CHIMERE_SERVING_SERVED_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/settings.h"
#include "constraints/constraint.h"
#include "engine/embedder.h"
#include "engine/request.h"
#include "engine/service.h"
#include "protocol/reasoning_splitter.h"
#include "protocol/requests.h"
#include "text/chat_template.h"
#include "text/prompt_template.h"
#include "text/tokenizer.h"

namespace chimere::serving {

/// The result of a protocol::EngramRequest.
struct EngramReport {
  int64_t written = 0;
  std::vector<std::string> refused;  ///< one sentence per refused text
  int64_t ngrams = 0;                ///< in the table now
};

/// The model behind /v1/embeddings.
struct ServedEmbedder {
  std::string id;  ///< model name in the API
  engine::Embedder& embedder;
};

struct ServedModel {
  std::string id = {};           ///< model name in the API
  int64_t created = 0;           ///< seconds since 1970
  int64_t trained_context = 0;   ///< training context length in tokens
  std::string fingerprint = {};  ///< of build, model and numerics
  const text::Tokenizer& tokenizer;
  engine::EngineService& service;
  std::optional<ServedEmbedder> embedder = std::nullopt;
  Result<text::PromptTemplate> prompt_template = unsupported("The model has no chat template.");
  Settings defaults = {};  ///< values of sampling fields that requests omit
  /// Builds an engine request for `owner` with the sampling and max_tokens of the settings and the
  /// owner's engram tables of these names. Any thread. Errors: kInvalidArgument, kNotFound (an
  /// unknown table), kUnsupported.
  std::function<Result<engine::Request>(const Settings&, const std::string& owner,
                                        std::span<const std::string> engram)>
      make_request = {};
  /// Compiles what a request asks of its output. Any thread. Errors: those of
  /// constraints::Constraint::compile(). Empty: the server restricts no output.
  std::function<Result<std::shared_ptr<constraints::Constraint>>(
      const constraints::ConstraintSpec&)>
      compile_constraint = {};
  /// Adds texts to the owner's engram table of this name. Any thread. Errors: kInvalidArgument (the
  /// name), kOutOfMemory (the table is full), kIo. Empty: the server has no engram tables.
  std::function<Result<EngramReport>(const std::string& owner, const std::string& table,
                                     const protocol::EngramRequest&)>
      remember = {};
};

/// What a prompt is rendered from.
struct ChatInput {
  std::vector<protocol::ChatMessage> messages;
  std::vector<protocol::Tool> tools = {};
  std::string reasoning = "auto";    ///< a value of --reasoning
  std::string template_kwargs = {};  ///< a JSON object, or empty
};

struct ChatPrompt {
  std::vector<int32_t> tokens;
  protocol::ReasoningSplitter::Start start = protocol::ReasoningSplitter::Start::kContent;
};

/// Renders messages and tools with the chat template. Errors: that of ServedModel::prompt_template,
/// those of text::PromptTemplate::render().
Result<text::RenderedChat> render_chat(const ServedModel& model, const ChatInput& input);
/// The same as the tokens of a prompt.
Result<ChatPrompt> chat_prompt(const ServedModel& model, const ChatInput& input);

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_SERVED_MODEL_H_
