// The history of conversations that Studio and other clients keep on the server.
#ifndef CHIMERE_SERVING_ENDPOINTS_HISTORY_ENDPOINT_H_
#define CHIMERE_SERVING_ENDPOINTS_HISTORY_ENDPOINT_H_

#include <string>
#include <string_view>

#include "serving/endpoints/endpoint.h"
#include "serving/history/conversation_store.h"

namespace chimere::serving {

class HistoryEndpoint final : public Endpoint {
 public:
  HistoryEndpoint(const EndpointContext& context, ConversationStore& store)
      : Endpoint(context), store_(store) {}
  void add_routes(Router& router) override;

 private:
  void list(const CallPtr& call) const;
  void show(const CallPtr& call) const;
  /// POST /v1/conversations/ID, and with /messages and /append behind it.
  void post(const CallPtr& call) const;
  /// The events of the generation of a message.
  void attach(const CallPtr& call, const DetachedAnswer::Place& place) const;
  /// Ends it.
  void stop_generation(const CallPtr& call, const DetachedAnswer::Place& place) const;
  void erase(const CallPtr& call) const;

  ConversationStore& store_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_ENDPOINTS_HISTORY_ENDPOINT_H_
