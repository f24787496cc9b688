// What clients of llama.cpp's server use beside the OpenAI API.
#ifndef CHIMERE_SERVING_ENDPOINTS_LLAMA_CPP_ENDPOINT_H_
#define CHIMERE_SERVING_ENDPOINTS_LLAMA_CPP_ENDPOINT_H_

#include <string>

#include "serving/endpoints/generating_endpoint.h"

namespace chimere::serving {

class LlamaCppEndpoint final : public GeneratingEndpoint {
 public:
  LlamaCppEndpoint(const EndpointContext& context, std::string version)
      : GeneratingEndpoint(context), version_(std::move(version)) {}
  void add_routes(Router& router) override;

 private:
  void props(const CallPtr& call);
  void slots(const CallPtr& call);
  void lora_adapters(const CallPtr& call);
  void set_lora_adapters(const CallPtr& call);
  void apply_template(const CallPtr& call);
  void infill(const CallPtr& call);

  const std::string version_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_ENDPOINTS_LLAMA_CPP_ENDPOINT_H_
