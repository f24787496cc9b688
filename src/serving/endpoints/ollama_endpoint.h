// Chats, generations and models in the form of Ollama's API.
#ifndef CHIMERE_SERVING_ENDPOINTS_OLLAMA_ENDPOINT_H_
#define CHIMERE_SERVING_ENDPOINTS_OLLAMA_ENDPOINT_H_

#include <string>

#include "protocol/ollama_writer.h"
#include "serving/endpoints/generating_endpoint.h"

namespace chimere::serving {

class OllamaEndpoint final : public GeneratingEndpoint {
 public:
  OllamaEndpoint(const EndpointContext& context, std::string version)
      : GeneratingEndpoint(context), version_(std::move(version)) {}
  void add_routes(Router& router) override;

 private:
  void talk(const CallPtr& call, bool as_chat);
  /// Continues the prompt without the template.
  void continue_raw(const CallPtr& call, const protocol::OllamaRequest& request,
                    const MakeWriter& make_writer);
  void list(const CallPtr& call, bool loaded);
  void show(const CallPtr& call);
  static protocol::OllamaModel describe(const ModelStatus& model);

  const std::string version_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_ENDPOINTS_OLLAMA_ENDPOINT_H_
