// What the server needs of the model that it serves.
#ifndef CHIMERE_SERVING_SERVED_MODEL_H_
#define CHIMERE_SERVING_SERVED_MODEL_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/settings.h"
#include "engine/embedder.h"
#include "engine/request.h"
#include "engine/service.h"
#include "protocol/reasoning_splitter.h"
#include "protocol/requests.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace chimere::serving {

/// What became of the texts of a protocol::EngramRequest.
struct EngramReport {
  int64_t written = 0;
  std::vector<std::string> refused;  ///< a sentence for each of the others
  int64_t ngrams = 0;                ///< in the memory now
};

/// The model behind /v1/embeddings.
struct ServedEmbedder {
  std::string id;  ///< what clients call it
  engine::Embedder& embedder;
};

struct ServedModel {
  std::string id = {};           ///< what clients call it
  int64_t created = 0;           ///< seconds since 1970
  int64_t trained_context = 0;   ///< tokens that the model was trained for
  std::string fingerprint = {};  ///< build, model and numerics
  const text::Tokenizer& tokenizer;
  engine::EngineService& service;
  std::optional<ServedEmbedder> embedder = std::nullopt;
  std::optional<text::ChatTemplate> chat_template = std::nullopt;
  std::string template_source = {};
  Settings defaults = {};  ///< of sampling, for what requests leave out
  /// Sampling and max_tokens as settings say, with `owner` as its owner, and his memories of these
  /// names as its prior. Any thread. Errors: kInvalidArgument, kNotFound (a memory), kUnsupported.
  std::function<Result<engine::Request>(const Settings&, const std::string& owner,
                                        std::span<const std::string> engram)>
      make_request = {};
  /// Adds texts to the owner's memory of this name. Any thread. Errors: kInvalidArgument (the
  /// name), kOutOfMemory (it is full), kIo; empty: this server keeps none.
  std::function<Result<EngramReport>(const std::string& owner, const std::string& table,
                                     const protocol::EngramRequest&)>
      remember = {};
};

struct ChatPrompt {
  std::vector<int32_t> tokens;
  protocol::ReasoningSplitter::Start start = protocol::ReasoningSplitter::Start::kContent;
};

/// Messages through the template. `reasoning` as --reasoning has it: whether the model thinks is
/// the template's `enable_thinking`, unless `template_kwargs` say it. Errors: kUnsupported (the
/// model has none), those of the template.
Result<ChatPrompt> chat_prompt(const ServedModel& model,
                               const std::vector<protocol::ChatMessage>& messages,
                               const std::string& reasoning, const std::string& template_kwargs);

/// What the next turn of a conversation begins with: `messages`, this answer of the assistant as
/// the template writes it in a conversation that continues, and the beginning of the user's next
/// message. One list of tokens for clients that return an answer without its reasoning, and, where
/// the template then writes something else, a second one for those that return it. Empty where the
/// template refuses such a conversation. Other arguments as chat_prompt() has them.
std::vector<std::vector<int32_t>> next_turn_prefixes(
    const ServedModel& model, const std::vector<protocol::ChatMessage>& messages,
    const std::string& content, const std::string& answer_reasoning, const std::string& reasoning,
    const std::string& template_kwargs);

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_SERVED_MODEL_H_
