// Client requests as typed values. Every field of a body is read, documented as without effect, or
// named among those that were ignored.
#ifndef CHIMERE_PROTOCOL_REQUESTS_H_
#define CHIMERE_PROTOCOL_REQUESTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/settings.h"
#include "protocol/api_error.h"
#include "protocol/warning.h"
#include "text/conversation.h"

namespace chimere::protocol {

struct RequestLimits {
  int64_t choices = 16;       ///< n times the number of prompts
  int64_t stops = 16;         ///< stop strings
  int64_t stop_bytes = 1024;  ///< per stop string
  int64_t logit_biases = 1024;
  int64_t messages = 10'000;
  int64_t tools = 1024;
  int64_t tool_calls = 1024;  ///< per message
  int64_t top_logprobs = 20;
  int64_t embeddings = 2048;  ///< texts per request
  int64_t output_choices = 10'000;
  int64_t collections = 16;    ///< of documents per request
  int64_t engrams = 8;         ///< engram tables per request
  int64_t engram_texts = 256;  ///< texts per write

  /// Fields that an API does not have are the error `unknown_parameter`; else they are ignored, but
  /// for those of this server's own API.
  bool strict_fields = false;
  RequestNotes* notes = nullptr;  ///< of the parser: where to note what it ignored or changed
};

/// What the output must be; that of a chat without its reasoning.
struct OutputFormat {
  enum class Kind { kText, kJsonObject, kJsonSchema, kRegex, kGrammar, kChoice };
  Kind kind = Kind::kText;
  std::string text;                  ///< the schema (JSON), regular expression or grammar (GBNF)
  std::vector<std::string> choices;  ///< of kChoice
  std::string name;                  ///< of the schema; may be empty
  std::string description;           ///< of the schema; may be empty
  bool strict = false;
  std::string field;  ///< the field that says it
};

/// An adapter of the model and its scale.
struct LoraChoice {
  std::string name = {};  ///< or, if empty, `id`
  int64_t id = -1;        ///< its place in /lora-adapters
  double scale = 1;
};

/// The fields that chat and completion requests share.
struct GenerationFields {
  std::string model;  ///< empty: not given
  /// The server's defaults with the request's sampling, seed and max_tokens.
  Settings settings;
  std::vector<std::pair<int32_t, float>> logit_bias;
  std::vector<std::string> stop;
  /// The adapters that the generation uses; absent: those that the model's name or the server says.
  std::optional<std::vector<LoraChoice>> lora = std::nullopt;
  std::vector<std::string> engram;  ///< names of the owner's engram tables to mix into sampling
  /// The field that limits the tokens of the generation, and its value; empty name: no limit was
  /// given.
  std::pair<std::string, int64_t> max_tokens;
  OutputFormat format;
  int64_t n = 1;
  int64_t logprobs = -1;  ///< -1: none, 0: the chosen token's, N: also the N most likely
  bool stream = false;
  bool include_usage = false;  ///< of a stream: a last chunk with the usage
  int64_t min_tokens = 0;      ///< tokens before which the model cannot end the generation
  bool use_cache = true;       ///< of prefixes
  std::string cache_key;       ///< scope in the prefix cache within that of the API key; or empty
  RequestNotes notes = {};     ///< what the response has to warn of
  /// Names of the settings that the request itself sets.
  std::vector<std::string_view> given = {};
};

using text::ChatMessage;
using text::Tool;
using text::ToolCall;

struct ToolChoice {
  enum class Kind { kAuto, kNone, kRequired, kNamed };
  Kind kind = Kind::kAuto;
  std::string name;  ///< of the tool, if the kind is kNamed
};

/// What a chat asks of the orchestrator.
struct OrchestrationFields {
  std::string mode;                      ///< "auto", "fast", "quality", "ultra"; empty: not given
  std::vector<std::string> collections;  ///< to retrieve passages from
  bool only_passages = false;            ///< answer from passages, or "I do not know"
};

/// A message of the history that the server writes while it is generated, and both empty: none.
struct ConversationFields {
  std::string id;
  std::string message;  ///< its id
};

struct ChatRequest : GenerationFields {
  std::vector<ChatMessage> messages;  ///< at least one
  std::string template_kwargs;        ///< a JSON object, or empty
  std::vector<Tool> tools;
  ToolChoice tool_choice;
  bool parallel_tool_calls = true;
  OrchestrationFields orchestration = {};
  ConversationFields conversation = {};
};

/// Anthropic's Messages.
struct MessagesRequest : ChatRequest {
  bool show_thinking = true;  ///< the response has the reasoning
  bool marks_cache = false;   ///< it has a `cache_control`
};

/// OpenAI's Responses. `messages`: those of the input, without the instructions.
struct ResponsesRequest : ChatRequest {
  std::string instructions;  ///< may be empty
  std::string previous;      ///< id of the response that this one continues; may be empty
  bool store = true;
  bool carry_reasoning = false;  ///< items of reasoning have it as `encrypted_content`, too
  std::string input;             ///< the input as JSON text
  std::string echo;              ///< JSON object: what the response repeats of the request
};

/// Ollama's /api/chat and /api/generate. No messages, and no raw prompt: the model is to be loaded.
struct OllamaRequest : ChatRequest {
  std::string prompt;  ///< of /api/generate
  std::string system;  ///< of /api/generate; part of the messages, too
  bool raw = false;    ///< continue the prompt without the template
  /// Seconds that the model stays loaded after its last use; negative: until memory is needed.
  std::optional<int64_t> keep_alive = std::nullopt;
};

struct ShowRequest {
  std::string model;
};

/// Ollama's /api/pull.
struct PullRequest {
  std::string model;
  bool stream = true;
};

/// Ollama's /api/delete.
struct DeleteRequest {
  std::string model;
};

/// Ollama's /api/copy.
struct CopyRequest {
  std::string source;
  std::string destination;
};

using Prompt = std::variant<std::string, std::vector<int32_t>>;

struct CompletionRequest : GenerationFields {
  std::vector<Prompt> prompts;  ///< at least one
  bool echo = false;
};

/// llama.cpp's /infill.
struct InfillRequest : GenerationFields {
  std::string prefix;
  std::string suffix;
  std::string prompt;                                      ///< behind the prefix; may be empty
  std::vector<std::pair<std::string, std::string>> extra;  ///< names and texts of other files
};

struct TokenizeRequest {
  std::string model;
  std::optional<std::string> content;
  std::vector<ChatMessage> messages;  ///< used if `content` is absent
  std::string template_kwargs;
  bool add_special = false;   ///< BOS before the content if the model uses one
  bool parse_special = true;  ///< names of control tokens in the content become those tokens
  bool with_pieces = false;
};

struct EmbeddingsRequest {
  std::string model;
  std::vector<Prompt> inputs;  ///< at least one
  bool base64 = false;         ///< vectors as base64 of their little-endian f32 bytes
  bool floats = true;          ///< vectors as numbers; of Cohere's requests, which may want both
  int64_t dimensions = 0;      ///< truncate to this many; 0: all
  /// Of Ollama's requests: as in OllamaRequest.
  std::optional<int64_t> keep_alive = std::nullopt;
  RequestNotes notes = {};  ///< what the response has to warn of
};

struct DetokenizeRequest {
  std::string model;
  std::vector<int32_t> tokens;
};

/// Texts to add to an engram table.
struct EngramRequest {
  struct Text {
    std::string text;
    double score = 0;  ///< quality score given by the client, 0 to 1
  };
  std::string model;
  std::vector<Text> texts;  ///< at least one
  std::string source;       ///< label of their origin; may be empty
};

/// A text to look up in an engram table.
struct EngramLookupRequest {
  std::string model;
  std::string text;
  int64_t least = 2;  ///< of search: tokens of a context
  int64_t most = 10;  ///< of predict: tokens in the response
};

/// `defaults`: the values of absent fields. Errors: 400, naming the field.
std::optional<ApiError> parse_chat(std::string_view body, const Settings& defaults,
                                   const RequestLimits& limits, ChatRequest& out);
/// `counting`: for count_tokens, which needs no limit of the generation.
std::optional<ApiError> parse_messages(std::string_view body, const Settings& defaults,
                                       const RequestLimits& limits, bool counting,
                                       MessagesRequest& out);
std::optional<ApiError> parse_responses(std::string_view body, const Settings& defaults,
                                        const RequestLimits& limits, ResponsesRequest& out);
std::optional<ApiError> parse_ollama(std::string_view body, const Settings& defaults,
                                     const RequestLimits& limits, bool chat, OllamaRequest& out);
/// `one`: of /api/embeddings.
std::optional<ApiError> parse_ollama_embed(std::string_view body, const RequestLimits& limits,
                                           bool one, EmbeddingsRequest& out);
/// Cohere's /v2/embed.
std::optional<ApiError> parse_cohere_embed(std::string_view body, const RequestLimits& limits,
                                           EmbeddingsRequest& out);
std::optional<ApiError> parse_ollama_show(std::string_view body, const RequestLimits& limits,
                                          ShowRequest& out);
std::optional<ApiError> parse_ollama_pull(std::string_view body, const RequestLimits& limits,
                                          PullRequest& out);
std::optional<ApiError> parse_ollama_delete(std::string_view body, const RequestLimits& limits,
                                            DeleteRequest& out);
std::optional<ApiError> parse_ollama_copy(std::string_view body, const RequestLimits& limits,
                                          CopyRequest& out);
std::optional<ApiError> parse_infill(std::string_view body, const Settings& defaults,
                                     const RequestLimits& limits, InfillRequest& out);
std::optional<ApiError> parse_completion(std::string_view body, const Settings& defaults,
                                         const RequestLimits& limits, CompletionRequest& out);
/// llama.cpp's /completion.
std::optional<ApiError> parse_llama_completion(std::string_view body, const Settings& defaults,
                                               const RequestLimits& limits, CompletionRequest& out);
std::optional<ApiError> parse_tokenize(std::string_view body, const RequestLimits& limits,
                                       TokenizeRequest& out);
std::optional<ApiError> parse_engram(std::string_view body, const RequestLimits& limits,
                                     EngramRequest& out);
std::optional<ApiError> parse_engram_lookup(std::string_view body, const RequestLimits& limits,
                                            EngramLookupRequest& out);
std::optional<ApiError> parse_embeddings(std::string_view body, const RequestLimits& limits,
                                         EmbeddingsRequest& out);
/// llama.cpp's POST /lora-adapters: a list like the field `lora`.
std::optional<ApiError> parse_lora_scales(std::string_view body, std::vector<LoraChoice>& out);
std::optional<ApiError> parse_detokenize(std::string_view body, DetokenizeRequest& out);

/// Reads the body's "model" and nothing behind it; empty if there is none or it is no string, which
/// the functions above refuse. Errors: `invalid_json` before it.
std::optional<ApiError> read_model_name(std::string_view body, std::string& out);
/// The name of a model as clients of Ollama write it, without the host of the hub ("hf.co/") and
/// without ":latest".
std::string ollama_model_name(std::string name);

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_REQUESTS_H_
