#include "serving/endpoints/rerank_endpoint.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>

#include "engine/reranker.h"
#include "serving/generation_job.h"

namespace chimere::serving {

using protocol::ApiError;

namespace {

/// The documents' places, the most relevant first.
std::vector<size_t> by_relevance(const std::vector<double>& scores, int64_t top) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  if (top > 0) order.resize(std::min(order.size(), static_cast<size_t>(top)));
  return order;
}

int64_t seconds_since_1970() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

void RerankEndpoint::add_routes(Router& router) {
  router.add({"/v1/rerank", "POST", "inference", [this](const CallPtr& call) { rerank(call); },
              ModelKind::kReranking});
  router.add({"/v2/rerank", "POST", "inference",
              [this](const CallPtr& call) { cohere_rerank(call); }, ModelKind::kReranking});
  router.add({"/v1/score", "POST", "inference", [this](const CallPtr& call) { score(call); },
              ModelKind::kReranking});
}

void RerankEndpoint::rerank(const CallPtr& call) {
  protocol::RerankRequest request;
  if (auto error = protocol::parse_rerank(call->request.body, context().limits, request)) {
    return respond(call, *error);
  }
  rank(call, request, /*cohere=*/false);
}

void RerankEndpoint::cohere_rerank(const CallPtr& call) {
  protocol::CohereRerankRequest request;
  if (auto error = protocol::parse_cohere_rerank(call->request.body, context().limits, request)) {
    return respond(call, *error);
  }
  rank(call, request, /*cohere=*/true);
}

void RerankEndpoint::rank(const CallPtr& call, const protocol::RerankRequest& request,
                          bool cohere) {
  note(*call, request.notes);
  const auto kept = std::make_shared<const protocol::RerankRequest>(request);
  std::vector<Pair> pairs;
  for (const std::string& document : kept->documents) pairs.push_back({kept->query, document});
  score_pairs(
      call, kept->model, pairs, kept->document_tokens, "query",
      [call, kept, cohere](const std::vector<double>& scores, int64_t tokens) {
        std::vector<protocol::RankedDocument> ranked;
        for (const size_t i : by_relevance(scores, kept->top)) {
          ranked.push_back({i, scores[i], kept->return_documents ? &kept->documents[i] : nullptr});
        }
        return HttpResponse{200,
                            cohere ? protocol::cohere_rerank_response(make_id("rerank-"), ranked)
                                   : protocol::rerank_response(call->embedder->id, ranked, tokens)};
      });
}

void RerankEndpoint::score(const CallPtr& call) {
  protocol::ScoreRequest request;
  if (auto error = protocol::parse_score(call->request.body, context().limits, request)) {
    return respond(call, *error);
  }
  note(*call, request.notes);
  std::vector<Pair> pairs;
  for (size_t i = 0; i < request.second.size(); ++i) {
    pairs.push_back({request.first[request.first.size() == 1 ? 0 : i], request.second[i]});
  }
  score_pairs(call, request.model, pairs, 0, "text_1",
              [call](const std::vector<double>& scores, int64_t tokens) {
                return HttpResponse{200,
                                    protocol::score_response(make_id("score-"), call->embedder->id,
                                                             seconds_since_1970(), scores, tokens)};
              });
}

void RerankEndpoint::score_pairs(const CallPtr& call, const std::string& name,
                                 const std::vector<Pair>& pairs, int64_t document_tokens,
                                 const std::string& field, Answer answer) {
  if (auto error = check_model(*call, name)) return respond(call, *error);
  engine::EmbeddingService& service = call->embedder->service;
  std::vector<engine::EmbeddingInput> texts;
  int64_t tokens = 0;
  for (const Pair& pair : pairs) {
    auto joined =
        call->embedder->pairs.join(service.embedder(), pair.first, pair.second, document_tokens);
    if (!joined.ok()) {
      return respond(call,
                     ApiError{"context_length_exceeded", std::move(joined).error().message, field});
    }
    tokens += static_cast<int64_t>(joined->tokens.size());
    texts.push_back(*std::move(joined));
  }
  const bool accepted = service.submit(
      {std::move(texts),
       [this, call, tokens,
        answer = std::move(answer)](Result<std::vector<std::vector<float>>> made) {
         if (!made.ok()) {
           const bool stopping = made.error().code == Error::Code::kCancelled;
           return respond(call, stopping ? ApiError{"stopping", "This server is stopping.", "", 5}
                                         : protocol::from_engine(made.error()));
         }
         std::vector<double> scores;
         for (const std::vector<float>& logits : *made) {
           scores.push_back(engine::relevance(logits));
         }
         context().metrics.count_embeddings(tokens);
         respond(call, answer(scores, tokens));
       },
       [this, call] { return context().draining || call->stream->abandoned(); }});
  if (!accepted) {
    respond(call, ApiError{protocol::ErrorCode("overloaded", 429),
                           "Too many rerank requests are waiting. Try again in a moment.", "", 1});
  }
}

}  // namespace chimere::serving
