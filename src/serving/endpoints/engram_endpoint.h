// Writes to the clients' n-gram memories.
#ifndef CHIMERE_SERVING_ENDPOINTS_ENGRAM_ENDPOINT_H_
#define CHIMERE_SERVING_ENDPOINTS_ENGRAM_ENDPOINT_H_

#include "serving/endpoints/endpoint.h"

namespace chimere::serving {

class EngramEndpoint final : public Endpoint {
 public:
  using Endpoint::Endpoint;
  void add_routes(Router& router) override;

 private:
  void write(const CallPtr& call);
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_ENDPOINTS_ENGRAM_ENDPOINT_H_
