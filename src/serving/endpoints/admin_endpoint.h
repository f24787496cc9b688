// For those who run the server: requests under way, and API keys. docs/serving.md.
#ifndef CHIMERE_SERVING_ENDPOINTS_ADMIN_ENDPOINT_H_
#define CHIMERE_SERVING_ENDPOINTS_ADMIN_ENDPOINT_H_

#include "serving/active_calls.h"
#include "serving/endpoints/endpoint.h"

namespace chimere::serving {

class AdminEndpoint final : public Endpoint {
 public:
  /// `keys`: nullptr if no API key is required; there are no routes for keys then. All outlive it.
  AdminEndpoint(const EndpointContext& context, ActiveCalls& calls, KeyRing* keys,
                const KeyUsage& usage)
      : Endpoint(context), calls_(calls), keys_(keys), usage_(usage) {}
  void add_routes(Router& router) override;

 private:
  void requests(const CallPtr& call) const;
  void list(const CallPtr& call) const;
  void create(const CallPtr& call) const;
  void erase(const CallPtr& call) const;

  ActiveCalls& calls_;
  KeyRing* const keys_;
  const KeyUsage& usage_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_ENDPOINTS_ADMIN_ENDPOINT_H_
