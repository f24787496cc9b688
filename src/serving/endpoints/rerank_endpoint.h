// Documents by their relevance to a query: the APIs of Jina, Cohere and vLLM.
#ifndef CHIMERE_SERVING_ENDPOINTS_RERANK_ENDPOINT_H_
#define CHIMERE_SERVING_ENDPOINTS_RERANK_ENDPOINT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/rerank.h"
#include "serving/endpoints/endpoint.h"

namespace chimere::serving {

class RerankEndpoint final : public Endpoint {
 public:
  using Endpoint::Endpoint;
  void add_routes(Router& router) override;

 private:
  /// Called with the relevance of each pair and the number of tokens.
  using Answer = std::function<HttpResponse(const std::vector<double>&, int64_t)>;
  struct Pair {
    const std::string& first;
    const std::string& second;
  };

  void rerank(const CallPtr& call);
  void cohere_rerank(const CallPtr& call);
  void score(const CallPtr& call);
  void rank(const CallPtr& call, const protocol::RerankRequest& request, bool cohere);
  /// Scores the pairs and responds; `field` is named by errors.
  void score_pairs(const CallPtr& call, const std::string& name, const std::vector<Pair>& pairs,
                   int64_t document_tokens, const std::string& field, Answer answer);
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_ENDPOINTS_RERANK_ENDPOINT_H_
