// Responses in the form of the OpenAI API.
#ifndef CHIMERE_SERVING_ENDPOINTS_RESPONSES_ENDPOINT_H_
#define CHIMERE_SERVING_ENDPOINTS_RESPONSES_ENDPOINT_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
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
  void cancel(const CallPtr& call);
  /// Puts instructions and the conversation that is continued in front of the input. `kept`: the
  /// conversation without instructions.
  std::optional<protocol::ApiError> complete(const Call& call, protocol::ResponsesRequest& request,
                                             std::vector<text::ChatMessage>& kept);

  /// A response that has begun.
  struct Running {
    std::string owner;
    protocol::ResponseHead head;
    std::weak_ptr<ResponseStream> stream;
  };
  void add_running(const Call& call, const protocol::ResponseHead& head);
  void remove_running(const std::string& id);

  ResponseStore store_;
  std::mutex mutex_;
  std::unordered_map<std::string, Running> running_;  ///< by id
  size_t sweep_at_ = 64;  ///< entries at which those that have ended are dropped
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_ENDPOINTS_RESPONSES_ENDPOINT_H_
