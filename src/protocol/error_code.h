// The table of error codes of the API. docs/api.md lists it.
#ifndef CHIMERE_PROTOCOL_ERROR_CODE_H_
#define CHIMERE_PROTOCOL_ERROR_CODE_H_

#include <algorithm>
#include <array>
#include <string_view>

namespace chimere::protocol {

struct ErrorCodeInfo {
  std::string_view name;
  std::array<int, 4> statuses;  ///< HTTP statuses it occurs with, the usual one first; 0: none
  std::string_view meaning;     ///< for the reference, without a full stop
};

inline constexpr auto kErrorCodes = std::to_array<ErrorCodeInfo>({
    {"invalid_json", {400}, "the body is no valid JSON object, or too large a one"},
    {"duplicate_field", {400}, "an object of the body has a name twice"},
    {"missing_field", {400}, "a field that the request needs is absent"},
    {"invalid_type", {400}, "the value of a field has the wrong type"},
    {"invalid_value", {400}, "the value of a field is out of its range"},
    {"unknown_parameter", {400}, "the API has no field of that name"},
    {"unsupported_parameter", {400}, "a field that this server does not support"},
    {"unsupported_value", {400}, "a value that this server does not support"},
    {"unsupported_content", {400}, "a part of a message that is no text"},
    {"empty_content", {400}, "a prompt or a message of the user is empty"},
    {"conflicting_fields",
     {400},
     "two fields contradict each other, or belong to different forms of the request"},
    {"template_error", {400}, "the chat template refuses the conversation"},
    {"context_length_exceeded", {400}, "the prompt does not fit; the message has both numbers"},
    {"model_does_not_write", {400}, "the model computes embeddings and generates no text"},
    {"model_does_not_embed", {400}, "the model generates text and computes no embeddings"},
    {"model_does_not_rank", {400}, "the model scores no pairs of texts; see --rerank-model"},
    {"engram_unavailable", {400}, "the server has no folder for engram tables"},
    {"bad_http_request", {400, 413, 431, 505}, "HTTP that this server does not accept"},
    {"missing_api_key", {401}, "the request has no API key"},
    {"invalid_api_key", {401}, "the server does not know the API key"},
    {"insufficient_scope", {403}, "the API key does not have the scope of the route"},
    {"host_not_allowed", {403}, "the `Host` header names a host that is not allowed"},
    {"origin_not_allowed", {403}, "pages of this `Origin` may not use the server"},
    {"not_found", {404}, "the server has no such path"},
    {"model_not_found", {404}, "the server has no model of that name"},
    {"engram_not_found", {404}, "the key has no engram table of that name"},
    {"collection_not_found", {404}, "the key has no collection of documents of that name"},
    {"collection_failed", {500}, "the collection cannot be read or written; the message says why"},
    {"conversation_not_found", {404}, "the key has no conversation, or it no message, of that id"},
    {"generation_not_found",
     {404},
     "no generation of this message runs, or has ended in the last minute"},
    {"generation_running", {409}, "the message is being generated; stop that generation first"},
    {"history_gap",
     {409},
     "the stored message is shorter than the part begins; send it as a whole"},
    {"history_failed", {500}, "the history cannot be read or written; the message has the reason"},
    {"response_not_found", {404}, "the server stores no response of that id"},
    {"previous_response_not_found",
     {400},
     "the response of `previous_response_id` is not stored (any more)"},
    {"model_in_use",
     {409},
     "a flag or the models file names the model, so that its files are not deleted"},
    {"method_not_allowed", {405}, "the path takes another method, which `Allow` names"},
    {"request_timeout", {408}, "the request did not arrive in time"},
    {"queue_full", {429}, "too many requests wait"},
    {"too_many_parallel_requests", {429}, "the key's limit of concurrent requests is reached"},
    {"rate_limit_exceeded", {429}, "the key's limit of requests per minute is reached"},
    {"token_budget_exceeded", {429}, "the key's limit of tokens per day is reached"},
    {"overloaded", {503, 429}, "the server's own work queue is full; 429 for embeddings"},
    {"engine_error", {500}, "the generation failed"},
    {"stopping", {503}, "the server is stopping"},
    {"cancelled", {503, 499}, "the request was cancelled; 499 only in the log: the client is gone"},
    {"model_unavailable", {503}, "the model cannot be loaded; the message has the reason"},
    {"out_of_memory", {503}, "the state of this request does not fit, even alone"},
    {"engram_full", {507}, "the engram table has no space left"},
});

/// A row of the table with one of its statuses. An undeclared code or status does not compile.
class ErrorCode {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a literal becomes a checked code.
  consteval ErrorCode(const char* name) : info_(find(name)), status_(info_->statuses.front()) {}
  consteval ErrorCode(const char* name, int status) : info_(find(name)), status_(status) {
    if (status == 0 || std::ranges::find(info_->statuses, status) == info_->statuses.end()) {
      throw "the table has no such status for this code";
    }
  }

  constexpr std::string_view name() const { return info_->name; }
  constexpr int status() const { return status_; }
  friend constexpr bool operator==(const ErrorCode& code, std::string_view name) {
    return code.name() == name;
  }

 private:
  static consteval const ErrorCodeInfo* find(std::string_view name) {
    for (const ErrorCodeInfo& info : kErrorCodes) {
      if (info.name == name) return &info;
    }
    throw "the table has no such code";
  }

  const ErrorCodeInfo* info_;
  int status_;
};

/// The `type` of an error object with this HTTP status.
std::string_view error_type(int status);
/// The same in Anthropic's API.
std::string_view anthropic_error_type(int status);

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_ERROR_CODE_H_
