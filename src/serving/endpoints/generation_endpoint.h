// Chat completions and text completions in the form of the OpenAI API.
#ifndef CHIMERE_SERVING_ENDPOINTS_GENERATION_ENDPOINT_H_
#define CHIMERE_SERVING_ENDPOINTS_GENERATION_ENDPOINT_H_

#include "serving/endpoints/generating_endpoint.h"

namespace chimere::serving {

class GenerationEndpoint final : public GeneratingEndpoint {
 public:
  using GeneratingEndpoint::GeneratingEndpoint;
  void add_routes(Router& router) override;

 private:
  void chat_completion(const CallPtr& call);
  /// A chat whose generation continues without its client.
  void detach(const CallPtr& call, protocol::ChatRequest request, const MakeWriter& make_writer);
  void completion(const CallPtr& call);
  /// llama.cpp's form of it.
  void llama_completion(const CallPtr& call);
  void complete(const CallPtr& call, protocol::CompletionRequest request,
                const MakeWriter& make_writer);
  void continue_prompts(const CallPtr& call, protocol::CompletionRequest& request,
                        const MakeWriter& make_writer);
  MakeWriter writer(const Call& call, const protocol::GenerationFields& fields, bool chat) const;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_ENDPOINTS_GENERATION_ENDPOINT_H_
