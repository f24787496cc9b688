// Studio's files, and the table of sampling options that its forms are made from.
#ifndef CHIMERE_SERVING_ENDPOINTS_STUDIO_ENDPOINT_H_
#define CHIMERE_SERVING_ENDPOINTS_STUDIO_ENDPOINT_H_

#include <string_view>

#include "serving/endpoints/endpoint.h"

namespace chimere::serving {

class StudioEndpoint final : public Endpoint {
 public:
  using Endpoint::Endpoint;
  void add_routes(Router& router) override;

 private:
  void file(const CallPtr& call, std::string_view name) const;
  void options(const CallPtr& call) const;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_ENDPOINTS_STUDIO_ENDPOINT_H_
