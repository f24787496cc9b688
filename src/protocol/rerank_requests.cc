#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "protocol/json_text.h"
#include "protocol/request_types.h"
#include "protocol/rerank.h"

namespace chimere::protocol {
namespace {

using Rerank = FieldsOf<RerankRequest>;
using Cohere = FieldsOf<CohereRerankRequest>;
using Score = FieldsOf<ScoreRequest>;

/// A text, or an object with the field "text".
bool read_document(const Json& item, std::string& out) {
  const Json* text = &item;
  if (item.is_object() && item.size() == 1 && item.contains("text")) text = &item["text"];
  if (!text->is_string()) return false;
  out = text->get<std::string>();
  return true;
}

template <typename T>
void read_documents(Fields& fields, const FieldInfo& info, const RequestLimits& limits, T& out) {
  const Json* const list = fields.list(info.name, 1, info.most(limits));
  if (list == nullptr) return fields.missing(info.name);
  for (const Json& item : *list) {
    if (read_document(item, out.documents.emplace_back())) continue;
    return fields.fail("'" + std::string(info.name) +
                           "' must be a list of texts, or of objects with a text 'text' alone.",
                       info.name);
  }
}

/// A text or a list of them.
void read_texts(Fields& fields, const FieldInfo& info, int64_t most,
                std::vector<std::string>& out) {
  const Json* const value = fields.any(info.name);
  if (value == nullptr) return fields.missing(info.name);
  if (value->is_string()) return out.push_back(value->get<std::string>());
  const bool fits =
      value->is_array() && !value->empty() && static_cast<int64_t>(value->size()) <= most;
  for (size_t i = 0; fits && i < value->size(); ++i) {
    if (!(*value)[i].is_string()) break;
    out.push_back((*value)[i].get<std::string>());
  }
  if (fits && out.size() == value->size()) return;
  fields.fail("'" + std::string(info.name) + "' must be a text, or a list of 1 to " +
                  std::to_string(most) + " texts.",
              info.name);
}

void read_first(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                ScoreRequest& out) {
  read_texts(fields, info, info.most(limits), out.first);
}
void read_second(Fields& fields, const FieldInfo& info, const RequestLimits& limits,
                 ScoreRequest& out) {
  read_texts(fields, info, info.most(limits), out.second);
}

constexpr std::string_view kValidDocuments = R"([["x"], ["x", {"text": "y"}]])";
constexpr std::string_view kInvalidDocuments = R"([[], "x", [1], [{"title": "x"}]])";

template <typename T>
constexpr auto model_row() {
  return FieldsOf<T>::template text<&T::model>({.name = "model",
                                                .help = "The name of the reranker",
                                                .default_value = "the served reranker"});
}
template <typename T>
constexpr auto query_row() {
  return FieldsOf<T>::template text<&T::query>(
      {.name = "query", .help = "The query", .required = true});
}
template <typename T>
constexpr auto documents_row() {
  return FieldsOf<T>::other({.name = "documents",
                             .help = "At most 2,048 documents, each a text or `{\"text\": ...}`; "
                                     "one that is too long for the model loses its end",
                             .required = true,
                             .limit = &RequestLimits::embeddings,
                             .type_text = "list",
                             .valid = kValidDocuments,
                             .invalid = kInvalidDocuments},
                            &read_documents<T>);
}
template <typename T>
constexpr auto top_row() {
  return FieldsOf<T>::template integer<&T::top>({.name = "top_n",
                                                 .help = "How many of the best are returned",
                                                 .min = 1,
                                                 .max = 1 << 20,
                                                 .default_value = "all"});
}

constexpr auto kRerankRows = std::to_array<Rerank::Row>({
    model_row<RerankRequest>(),
    query_row<RerankRequest>(),
    documents_row<RerankRequest>(),
    top_row<RerankRequest>(),
    Rerank::boolean<&RerankRequest::return_documents>(
        {.name = "return_documents",
         .help = "Whether the documents' texts are returned",
         .default_value = "true"}),
    Rerank::no_effect("user"),
});

constexpr auto kCohereRows = std::to_array<Cohere::Row>({
    model_row<CohereRerankRequest>(),
    query_row<CohereRerankRequest>(),
    documents_row<CohereRerankRequest>(),
    top_row<CohereRerankRequest>(),
    Cohere::integer<&CohereRerankRequest::document_tokens>(
        {.name = "max_tokens_per_doc",
         .help = "Documents lose what exceeds so many tokens",
         .min = 1,
         .max = 1 << 20,
         .default_value = "what fits"}),
    Cohere::no_effect("priority"),
});

constexpr auto kScoreRows = std::to_array<Score::Row>({
    model_row<ScoreRequest>(),
    Score::other({.name = "text_1",
                  .help = "A text, or a list of as many as `text_2` has",
                  .required = true,
                  .limit = &RequestLimits::embeddings,
                  .type_text = "text or list of texts",
                  .valid = R"(["x", ["x", "y"]])",
                  .invalid = R"([[], 1, [1]])"},
                 &read_first),
    Score::other({.name = "text_2",
                  .help = "The other text of each pair, at most 2,048",
                  .required = true,
                  .limit = &RequestLimits::embeddings,
                  .type_text = "text or list of texts",
                  .valid = R"(["x", ["x", "y"]])",
                  .invalid = R"([[], 1, [1]])"},
                 &read_second),
    Score::no_effect("user"),
});

}  // namespace

constexpr ObjectType<RerankRequest> kRerankType{kRerankRows};
constexpr ObjectType<CohereRerankRequest> kCohereRerankType{kCohereRows};
constexpr ObjectType<ScoreRequest> kScoreType{kScoreRows};

std::optional<ApiError> parse_rerank(std::string_view body, const RequestLimits& limits,
                                     RerankRequest& out) {
  out = {};
  return parse_body(kRerankType, body, with_notes(limits, out), out);
}

std::optional<ApiError> parse_cohere_rerank(std::string_view body, const RequestLimits& limits,
                                            CohereRerankRequest& out) {
  out = {};
  return parse_body(kCohereRerankType, body, with_notes(limits, out), out);
}

std::optional<ApiError> parse_score(std::string_view body, const RequestLimits& limits,
                                    ScoreRequest& out) {
  out = {};
  if (auto error = parse_body(kScoreType, body, with_notes(limits, out), out)) return error;
  if (out.first.size() == 1 || out.first.size() == out.second.size()) return std::nullopt;
  return bad_field("'text_1' must be one text, or a list of as many as 'text_2' has.", "text_1");
}

std::string rerank_response(std::string_view model, std::span<const RankedDocument> ranked,
                            int64_t tokens) {
  Json results = Json::array();
  for (const RankedDocument& d : ranked) {
    Json result = {{"index", d.index}, {"relevance_score", d.relevance}};
    if (d.text != nullptr) result["document"] = {{"text", *d.text}};
    results.push_back(std::move(result));
  }
  return to_text({{"model", model},
                  {"object", "list"},
                  {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}},
                  {"results", std::move(results)}});
}

std::string cohere_rerank_response(std::string_view id, std::span<const RankedDocument> ranked) {
  Json results = Json::array();
  for (const RankedDocument& d : ranked) {
    results.push_back({{"index", d.index}, {"relevance_score", d.relevance}});
  }
  return to_text(
      {{"id", id},
       {"results", std::move(results)},
       {"meta", {{"api_version", {{"version", "2"}}}, {"billed_units", {{"search_units", 1}}}}}});
}

std::string score_response(std::string_view id, std::string_view model, int64_t created,
                           std::span<const double> scores, int64_t tokens) {
  Json data = Json::array();
  for (size_t i = 0; i < scores.size(); ++i) {
    data.push_back({{"index", i}, {"object", "score"}, {"score", scores[i]}});
  }
  return to_text({{"id", id},
                  {"object", "list"},
                  {"created", created},
                  {"model", model},
                  {"data", std::move(data)},
                  {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}});
}

}  // namespace chimere::protocol
