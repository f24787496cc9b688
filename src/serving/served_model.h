// The models that the server serves, and the rendering of their chat prompts.
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
#include "engine/adapter_set.h"
#include "engine/embedding_service.h"
#include "engine/request.h"
#include "engine/reranker.h"
#include "engine/service.h"
#include "protocol/requests.h"
#include "protocol/responses.h"
#include "text/chat_template.h"
#include "text/prompt_template.h"
#include "text/reasoning_splitter.h"
#include "text/tokenizer.h"

namespace chimere::serving {

/// The result of a protocol::EngramRequest.
struct EngramReport {
  int64_t written = 0;
  std::vector<std::string> refused;  ///< one sentence per refused text
  int64_t ngrams = 0;                ///< in the table now
};

/// What a model computes, as its file says.
enum class ModelKind : uint8_t { kNone, kText, kEmbedding, kReranking };

/// A model that computes embeddings, or a reranker.
struct ServedEmbedder {
  std::string id;  ///< model name in the API
  engine::EmbeddingService& service;
  engine::PairFormat pairs = {};  ///< of a reranker

  const engine::Embedder& embedder() const { return service.embedder(); }
  ModelKind kind() const {
    return embedder().ranks() ? ModelKind::kReranking : ModelKind::kEmbedding;
  }
};

/// What clients do with their engram tables, beside writing. Any thread. Errors: kNotFound (no such
/// table), kInvalidArgument (the name), kIo.
struct EngramTables {
  std::function<Result<std::vector<protocol::EngramInfo>>(const std::string& owner)> list;
  std::function<Result<protocol::EngramInfo>(const std::string& owner, const std::string& name)>
      info;
  std::function<Status(const std::string& owner, const std::string& name)> decay;
  std::function<Status(const std::string& owner, const std::string& name)> erase;
  std::function<Result<std::vector<protocol::EngramMatch>>(
      const std::string& owner, const std::string& name, std::span<const int32_t> tokens,
      int64_t least)>
      search;
  std::function<Result<std::vector<protocol::EngramPrediction>>(
      const std::string& owner, const std::string& name, std::span<const int32_t> tokens,
      int64_t most)>
      predict;
};

/// A model that generates text.
struct ServedModel {
  std::string id = {};           ///< model name in the API
  int64_t created = 0;           ///< seconds since 1970
  int64_t trained_context = 0;   ///< training context length in tokens
  std::string fingerprint = {};  ///< of build, model and numerics
  int64_t slots = 1;             ///< requests that can run at the same time
  const text::Tokenizer& tokenizer;
  engine::EngineService& service;
  Result<text::PromptTemplate> prompt_template = unsupported("The model has no chat template.");
  /// The model's adapters; never nullptr.
  std::shared_ptr<engine::AdapterSet> adapters = std::make_shared<engine::AdapterSet>();
  Settings defaults = {};  ///< values of sampling fields that requests omit
  std::optional<protocol::DraftModelInfo> draft_model = std::nullopt;
  /// Builds an engine request for `owner` with the sampling and max_tokens of the settings and the
  /// owner's engram tables of these names. Any thread. Errors: kInvalidArgument, kNotFound (an
  /// unknown table), kUnsupported.
  std::function<Result<engine::Request>(const Settings&, const std::string& owner,
                                        std::span<const std::string> engram)>
      make_request = {};
  /// Compiles what a request asks of its output. Any thread. Errors: those of
  /// constraints::Constraint::compile(). Empty: the server restricts no output.
  std::function<Result<std::shared_ptr<constraints::Constraint>>(
      const constraints::ConstraintSpec&, const std::function<void()>& when_slow)>
      compile_constraint = {};
  /// Adds texts to the owner's engram table of this name. Any thread. Errors: kInvalidArgument (the
  /// name), kOutOfMemory (the table is full), kIo. Empty: the server has no engram tables.
  std::function<Result<EngramReport>(const std::string& owner, const std::string& table,
                                     const protocol::EngramRequest&)>
      remember = {};
  /// Absent with `remember`.
  std::optional<EngramTables> engram_tables = std::nullopt;
};

/// What a prompt is rendered from.
struct ChatInput {
  std::vector<text::ChatMessage> messages;
  std::vector<text::Tool> tools = {};
  std::string reasoning = "auto";    ///< a value of --reasoning
  std::string template_kwargs = {};  ///< a JSON object, or empty
  /// The beginning of the assistant's next message, which the generation continues.
  std::optional<text::ChatMessage> continued = std::nullopt;
  bool continues_reasoning = false;  ///< `continued` ends in its reasoning
};

/// Makes a last message of the assistant the one that is continued: its reasoning is divided from
/// its text, and the template is asked for none of its own. An empty one at the end is removed.
/// Returns whether there is one with its reasoning behind it.
bool take_continued(const ServedModel& model, ChatInput& input);

struct ChatPrompt {
  std::string text;
  std::vector<int32_t> tokens;
  text::ReasoningSplitter::Start start = text::ReasoningSplitter::Start::kContent;
  /// Of gpt-oss's format: the end of the prompt that begins a message, which its parser reads
  /// first.
  std::string opened;
};

/// Renders messages and tools with the chat template. Errors: that of ServedModel::prompt_template,
/// those of text::PromptTemplate::render().
Result<text::RenderedChat> render_chat(const ServedModel& model, const ChatInput& input);
/// The same as the tokens of a prompt, and what is continued. Errors: those of render_chat().
Result<ChatPrompt> chat_prompt(const ServedModel& model, const ChatInput& input);

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_SERVED_MODEL_H_
