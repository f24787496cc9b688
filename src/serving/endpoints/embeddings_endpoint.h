// Embeddings in the form of the OpenAI API.
#ifndef CHIMERE_SERVING_ENDPOINTS_EMBEDDINGS_ENDPOINT_H_
#define CHIMERE_SERVING_ENDPOINTS_EMBEDDINGS_ENDPOINT_H_

#include <cstdint>
#include <vector>

#include "serving/endpoints/endpoint.h"
#include "serving/work_queue.h"

namespace chimere::serving {

class EmbeddingsEndpoint final : public Endpoint {
 public:
  explicit EmbeddingsEndpoint(const EndpointContext& context);
  void add_routes(Router& router) override;
  void stop() override { worker_.stop(); }

 private:
  void embeddings(const CallPtr& call);
  void embed(const CallPtr& call, const std::vector<std::vector<int32_t>>& texts,
             const protocol::EmbeddingsRequest& request);

  WorkQueue worker_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_ENDPOINTS_EMBEDDINGS_ENDPOINT_H_
