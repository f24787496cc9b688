// Embeddings in the forms of the OpenAI API, of Ollama's and of Cohere's.
#ifndef CHIMERE_SERVING_ENDPOINTS_EMBEDDINGS_ENDPOINT_H_
#define CHIMERE_SERVING_ENDPOINTS_EMBEDDINGS_ENDPOINT_H_

#include <cstdint>
#include <vector>

#include "serving/endpoints/endpoint.h"

namespace chimere::serving {

class EmbeddingsEndpoint final : public Endpoint {
 public:
  using Endpoint::Endpoint;
  void add_routes(Router& router) override;

 private:
  /// Whose clients are answered; kOllamaOne: those of /api/embeddings.
  enum class Style { kOpenAi, kOllama, kOllamaOne, kCohere };
  void embeddings(const CallPtr& call, Style style);
  /// On the thread of the embedder's service.
  void send(const CallPtr& call, const protocol::EmbeddingsRequest& request, Style style,
            int64_t tokens, Result<std::vector<std::vector<float>>> made) const;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_ENDPOINTS_EMBEDDINGS_ENDPOINT_H_
