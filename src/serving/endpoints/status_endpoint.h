// Health, metrics, status and the list of models.
#ifndef CHIMERE_SERVING_ENDPOINTS_STATUS_ENDPOINT_H_
#define CHIMERE_SERVING_ENDPOINTS_STATUS_ENDPOINT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "serving/endpoints/endpoint.h"

namespace chimere::serving {

class StatusEndpoint final : public Endpoint {
 public:
  /// `connections`: the number of open connections; may be replaced later, must outlive this.
  StatusEndpoint(const EndpointContext& context, std::string version,
                 const std::function<int64_t()>& connections);
  void add_routes(Router& router) override;

 private:
  void health(const CallPtr& call);
  void ready(const CallPtr& call);
  void metrics(const CallPtr& call);
  void status(const CallPtr& call);
  void models(const CallPtr& call);

  const std::string version_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  const std::function<int64_t()>& connections_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_ENDPOINTS_STATUS_ENDPOINT_H_
