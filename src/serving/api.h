// The server's API: admission of requests, and the endpoints that answer them.
#ifndef CHIMERE_SERVING_API_H_
#define CHIMERE_SERVING_API_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocol/api_error.h"
#include "protocol/collections.h"
#include "protocol/orchestration.h"
#include "protocol/requests.h"
#include "protocol/volatile_lines.h"
#include "serving/access.h"
#include "serving/active_calls.h"
#include "serving/api_keys.h"
#include "serving/call.h"
#include "serving/endpoints/endpoint.h"
#include "serving/history/conversation_store.h"
#include "serving/http_server.h"
#include "serving/key_usage.h"
#include "serving/metrics.h"
#include "serving/model_files.h"
#include "serving/model_registry.h"
#include "serving/router.h"
#include "serving/work_queue.h"

namespace chimere::serving {

struct ApiOptions {
  std::string version;
  AccessRules access;
  protocol::RequestLimits limits;
  bool log_prompts = false;
  /// Receives one log line per event. Any thread.
  std::function<void(const LogLine&)> log;
  int64_t response_store_bytes = 0;  ///< of stored responses; 0: none is stored
  /// Lines of system messages that are taken out of prompts' heads.
  std::vector<const protocol::VolatileRule*> volatile_rules;
  /// Conversations of the clients; nullptr: the server keeps none. Must outlive the API.
  ConversationStore* history = nullptr;
  /// Collections of documents; must outlive the API. nullptr: there are none.
  protocol::CollectionHolder* collections = nullptr;
  /// Downloads, deletes and copies models; must outlive the API. nullptr: the API does not.
  ModelFiles* files = nullptr;
  /// Answers the chats with its model names; must outlive the API. nullptr: there are none.
  protocol::ChatOrchestrator* orchestrator = nullptr;
};

class Api final : public HttpHandler {
 public:
  /// `keys`: nullptr if no API key is required. Models and keys must outlive the API.
  Api(const ApiOptions& options, ModelRegistry& models, KeyRing* keys);

  std::optional<HttpResponse> refuse(const HttpHead& head) override;
  HttpResponse reject(const HttpHead& head, const protocol::ApiError& error) override;
  void handle(HttpRequest request, std::shared_ptr<ResponseStream> stream) override;
  Headers extra_headers(const HttpHead& head) override { return responder_.extra_headers(head); }

  /// Source of the number of connections, for /metrics and /v1/status.
  void count_connections_with(std::function<int64_t()> connections) {
    connections_ = std::move(connections);
  }
  /// What each key has used.
  KeyUsage& usage() { return usage_; }
  /// From now on /ready returns 503 and new work is refused. Any thread.
  void drain() { draining_ = true; }
  /// Joins the threads that prepare requests.
  void stop();

 private:
  std::shared_ptr<const ApiKey> presented_key(const HttpHead& head) const;
  std::optional<protocol::ApiError> check(const HttpHead& head, const std::string& path,
                                          const Route* route) const;
  /// Gets the call's model and handles the call. Runs on a worker thread.
  void handle_with_model(const Route& route, const CallPtr& call);

  const AccessRules access_;
  const protocol::RequestLimits limits_;
  const std::vector<const protocol::VolatileRule*> volatile_rules_;
  ModelRegistry& models_;
  KeyRing* const keys_;
  std::function<int64_t()> connections_ = [] { return 0; };
  std::atomic<bool> draining_ = false;
  Metrics metrics_;
  KeyUsage usage_;
  ActiveCalls active_;
  Responder responder_;
  WorkQueue workers_;
  WorkQueue compilers_;
  protocol::ChatOrchestrator* const orchestrator_;
  std::unique_ptr<WorkQueue> orchestrations_;
  std::unique_ptr<DetachedAnswers> detached_;  ///< nullptr without history
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  Router router_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_API_H_
