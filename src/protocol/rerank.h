// Requests and responses of /v1/rerank (the shape of Jina), /v2/rerank (Cohere) and /v1/score
// (vLLM).
#ifndef CHIMERE_PROTOCOL_RERANK_H_
#define CHIMERE_PROTOCOL_RERANK_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/api_error.h"
#include "protocol/requests.h"

namespace chimere::protocol {

/// A query and documents.
struct RerankRequest {
  std::string model;
  std::string query;
  std::vector<std::string> documents;  ///< at least one
  int64_t top = 0;                     ///< how many of the best are returned; 0: all
  bool return_documents = true;
  int64_t document_tokens = 0;  ///< documents are cut to so many tokens; 0: to what fits
  RequestNotes notes = {};      ///< what the response has to warn of
};
/// The same with Cohere's fields.
struct CohereRerankRequest : RerankRequest {};

/// Pairs: the text of each, or one text for all, and the other text of each.
struct ScoreRequest {
  std::string model;
  std::vector<std::string> first;   ///< one, or as many as `second`
  std::vector<std::string> second;  ///< at least one
  RequestNotes notes = {};          ///< what the response has to warn of
};

/// Errors: 400, naming the field.
std::optional<ApiError> parse_rerank(std::string_view body, const RequestLimits& limits,
                                     RerankRequest& out);
std::optional<ApiError> parse_cohere_rerank(std::string_view body, const RequestLimits& limits,
                                            CohereRerankRequest& out);
std::optional<ApiError> parse_score(std::string_view body, const RequestLimits& limits,
                                    ScoreRequest& out);

struct RankedDocument {
  size_t index = 0;  ///< in the request
  double relevance = 0;
  const std::string* text = nullptr;  ///< nullptr: not returned
};

/// The best documents first.
std::string rerank_response(std::string_view model, std::span<const RankedDocument> ranked,
                            int64_t tokens);
std::string cohere_rerank_response(std::string_view id, std::span<const RankedDocument> ranked);
std::string score_response(std::string_view id, std::string_view model, int64_t created,
                           std::span<const double> scores, int64_t tokens);

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_RERANK_H_
