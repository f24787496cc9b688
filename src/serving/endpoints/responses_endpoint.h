// Responses in the form of the OpenAI API.
#ifndef CHIMERE_SERVING_ENDPOINTS_RESPONSES_ENDPOINT_H_
#define CHIMERE_SERVING_ENDPOINTS_RESPONSES_ENDPOINT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "serving/endpoints/generating_endpoint.h"
#include "serving/response_store.h"

namespace chimere::serving {

class ResponsesEndpoint final : public GeneratingEndpoint {
 public:
  /// `store_bytes`: of the store of responses; 0: there is none.
  ResponsesEndpoint(const EndpointContext& context, int64_t store_bytes)
      : GeneratingEndpoint(context), store_(store_bytes) {}
  void add_routes(Router& router) override;

 private:
  void create(const CallPtr& call);
  void count(const CallPtr& call);
  void stored(const CallPtr& call);
  /// Puts instructions and the conversation that is continued in front of the input. `kept`: the
  /// conversation without instructions.
  std::optional<protocol::ApiError> complete(const Call& call, protocol::ResponsesRequest& request,
                                             std::vector<text::ChatMessage>& kept);

  ResponseStore store_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_ENDPOINTS_RESPONSES_ENDPOINT_H_
