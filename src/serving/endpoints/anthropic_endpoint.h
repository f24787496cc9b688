// Messages in the form of the Anthropic API.
#ifndef CHIMERE_SERVING_ENDPOINTS_ANTHROPIC_ENDPOINT_H_
#define CHIMERE_SERVING_ENDPOINTS_ANTHROPIC_ENDPOINT_H_

#include "serving/endpoints/generating_endpoint.h"

namespace chimere::serving {

class AnthropicEndpoint final : public GeneratingEndpoint {
 public:
  using GeneratingEndpoint::GeneratingEndpoint;
  void add_routes(Router& router) override;

 private:
  void messages(const CallPtr& call);
  void count_tokens(const CallPtr& call);
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_ENDPOINTS_ANTHROPIC_ENDPOINT_H_
