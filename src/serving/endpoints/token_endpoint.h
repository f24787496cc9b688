// Texts to tokens and back, in the form of vLLM's API.
#ifndef CHIMERE_SERVING_ENDPOINTS_TOKEN_ENDPOINT_H_
#define CHIMERE_SERVING_ENDPOINTS_TOKEN_ENDPOINT_H_

#include "serving/endpoints/endpoint.h"

namespace chimere::serving {

class TokenEndpoint final : public Endpoint {
 public:
  using Endpoint::Endpoint;
  void add_routes(Router& router) override;

 private:
  void tokenize(const CallPtr& call);
  void detokenize(const CallPtr& call);
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_ENDPOINTS_TOKEN_ENDPOINT_H_
