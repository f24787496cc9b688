// Responses as JSON text, and the events of streams.
#ifndef CHIMERE_PROTOCOL_RESPONSES_H_
#define CHIMERE_PROTOCOL_RESPONSES_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/token_logprobs.h"
#include "protocol/warning.h"

namespace chimere::protocol {

struct EmbeddingsRequest;

/// The fields that all parts of a response repeat.
struct ResponseHead {
  std::string id;
  int64_t created = 0;  ///< seconds since 1970
  std::string model;
  std::string fingerprint;
  std::vector<Warning> warnings = {};  ///< in responses in one piece
  std::string orchestration = {};      ///< JSON object: the field `odo`; or empty
};

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;     ///< prompt tokens taken from the prefix cache
  int64_t reasoning_tokens = 0;  ///< completion tokens spent on reasoning
  int64_t accepted_drafts = 0;   ///< completion tokens that were accepted drafts
  int64_t rejected_drafts = 0;   ///< drafts that were rejected
};

/// A whole call of a tool, or a piece of one in a stream: first one with id and name, then ones
/// with more of the arguments alone.
struct ToolCallPiece {
  int64_t index = 0;  ///< of the call in its choice
  std::string id;
  std::string name;
  std::string arguments;
};

/// A whole choice, or a piece of one in a stream.
struct Choice {
  int64_t index = 0;
  std::string content;
  std::string reasoning;                       ///< chat only
  std::vector<ToolCallPiece> tool_calls = {};  ///< chat only
  /// "stop", "length", "tool_calls"; empty: not finished.
  std::string finish_reason;
  bool has_logprobs = false;
  std::vector<TokenLogprobs> logprobs;
  /// Completions: offset of its first token in the text, in characters. Below 0: some of the text
  /// of the first tokens, such as that of one that begins every prompt, is not part of it.
  int64_t text_offset = 0;
  std::string stop_text = {};  ///< the stop string that ended it; empty: none did
  bool context_full = false;   ///< of a finish for "length": it was the context's
};

std::string chat_response(const ResponseHead& head, std::span<const Choice> choices,
                          const Usage& usage);
std::string completion_response(const ResponseHead& head, std::span<const Choice> choices,
                                const Usage& usage);

/// Serialises the chunks of one choice that contain only text, as most do. Equal to chat_chunk() or
/// completion_chunk() without building the document for each token.
class TextChunks {
 public:
  TextChunks(const ResponseHead& head, bool chat, int64_t index, bool null_usage);
  std::string chunk(const std::string& content) const;

 private:
  std::string before_;
  std::string after_;
};

/// Chunks of a stream. `null_usage`: the last chunk will carry the usage; all others contain
/// "usage": null.
std::string chat_role_chunk(const ResponseHead& head, int64_t index, bool null_usage);
std::string chat_chunk(const ResponseHead& head, const Choice& piece, bool null_usage);
std::string completion_chunk(const ResponseHead& head, const Choice& piece, bool null_usage);
/// A chunk without text that has `json`, an object, in the field `odo`; or in its member `member`.
std::string chat_step_chunk(const ResponseHead& head, std::string_view member,
                            std::string_view json, bool null_usage);
std::string chat_usage_chunk(const ResponseHead& head, const Usage& usage);
std::string completion_usage_chunk(const ResponseHead& head, const Usage& usage);

/// One server-sent event.
std::string sse_event(std::string_view json);
inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";
inline constexpr std::string_view kSseKeepAlive = ": keep-alive\n\n";

struct ModelEntry {
  std::string id;
  int64_t created = 0;
  int64_t context = 0;  ///< tokens
  /// Of a model that writes; 0: not said.
  int64_t trained_context = 0;
  int64_t max_state_bytes = 0;  ///< of all requests' keys, values and recurrent states
  int64_t max_kv_tokens = 0;    ///< of all requests together
  std::string state = {};       ///< "ready", "absent", ...; empty: not said
  std::vector<std::string> aliases = {};
  std::string parent = {};  ///< of an adapter: its model; else empty
  std::string kind = {};    ///< "text", "embedding", "reranking"; empty: not said
};
std::string model_list(std::span<const ModelEntry> models);
std::string model_response(const ModelEntry& model);

/// `vectors`: one per input, in order. `base64`: as base64 of their little-endian f32 bytes.
std::string embeddings_response(std::string_view model, std::span<const std::vector<float>> vectors,
                                bool base64, int64_t tokens);

/// The same in the shape of Cohere's /v2/embed, with the request's texts.
std::string cohere_embed_response(std::string_view id, const EmbeddingsRequest& request,
                                  std::span<const std::vector<float>> vectors, int64_t tokens);

/// The result of writing to an engram table. `refused`: one sentence per refused text.
std::string engram_response(std::string_view table, int64_t written,
                            std::span<const std::string> refused, int64_t ngrams);

/// A model that drafts for another one.
struct DraftModelInfo {
  std::string name;
  int64_t bytes = 0;       ///< of its file
  int64_t block_size = 0;  ///< tokens of a block, the newest of the generation included
  std::string backend;     ///< "cpu" or "cuda"
};

/// An engram table of a client.
struct EngramInfo {
  std::string name;
  int64_t ngrams = 0;
  int64_t contexts = 0;
  int64_t bytes = 0;
  std::vector<std::string> sources;
};
std::string engram_list(std::span<const EngramInfo> tables);
std::string engram_info(const EngramInfo& table);
std::string engram_deleted(std::string_view name);

/// A part of a text that a table knows.
struct EngramMatch {
  std::string text;
  int64_t begin = 0;  ///< tokens of the text
  int64_t end = 0;
  int64_t context = 0;
  double count = 0;
};
std::string engram_matches(std::string_view table, int64_t tokens,
                           std::span<const EngramMatch> matches);
/// A token that a table predicts.
struct EngramPrediction {
  int32_t token = 0;
  std::string text;
  double probability = 0;
  double count = 0;
  int64_t context = 0;
};
std::string engram_predictions(std::string_view table, std::span<const EngramPrediction> tokens);

/// `pieces`: the texts of the tokens; empty if not requested.
std::string tokenize_response(std::span<const int32_t> tokens, std::span<const std::string> pieces,
                              int64_t context);
std::string detokenize_response(std::string_view content);

/// The body of /v1/status.
struct ServerStatus {
  /// A model, loaded or not.
  struct Model {
    std::string id;
    std::string kind;  ///< "text" or "embedding"
    std::string state;
    double progress = 0;   ///< of state "loading", 0 to 1
    int64_t bytes = 0;     ///< of memory
    int64_t requests = 0;  ///< that use it
    int64_t waiting = 0;   ///< requests that wait until it is loaded
    uint64_t loads = 0;
    uint64_t evictions = 0;
    uint64_t failures = 0;
  };
  std::string version;
  std::string model;  ///< the default one
  std::vector<Model> models;
  int64_t models_limit = 0;  ///< bytes of all loaded models together; 0: no limit
  bool ready = false;
  double uptime_seconds = 0;
  int64_t connections = 0;
  int64_t running = 0;  ///< requests with a state
  int64_t waiting = 0;
  int64_t steps = 0;
  int64_t prompt_tokens = 0;
  int64_t generated_tokens = 0;
  int64_t evictions = 0;
  int64_t kv_bytes = 0;
  int64_t kv_limit = 0;
  int64_t recurrent_bytes = 0;
  int64_t recurrent_limit = 0;
};
std::string status_response(const ServerStatus& status);

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_RESPONSES_H_
