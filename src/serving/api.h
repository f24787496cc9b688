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
#include "protocol/requests.h"
#include "serving/access.h"
#include "serving/api_keys.h"
#include "serving/call.h"
#include "serving/endpoints/endpoint.h"
#include "serving/http_server.h"
#include "serving/key_usage.h"
#include "serving/metrics.h"
#include "serving/router.h"
#include "serving/served_model.h"
#include "serving/work_queue.h"

namespace chimere::serving {

struct ApiOptions {
  std::string version;
  AccessRules access;
  protocol::RequestLimits limits;
  bool log_prompts = false;
  /// Receives one log line per event. Any thread.
  std::function<void(const std::string&)> log;
};

class Api final : public HttpHandler {
 public:
  /// `keys`: nullptr if no API key is required. Model and keys must outlive the API.
  Api(const ApiOptions& options, const ServedModel& model, KeyRing* keys);

  std::optional<HttpResponse> refuse(const HttpHead& head) override;
  void handle(HttpRequest request, std::shared_ptr<ResponseStream> stream) override;
  Headers extra_headers(const HttpHead& head) override { return responder_.extra_headers(head); }

  /// Source of the number of connections, for /metrics and /v1/status.
  void count_connections_with(std::function<int64_t()> connections) {
    connections_ = std::move(connections);
  }
  /// From now on /ready returns 503 and new work is refused. Any thread.
  void drain() { draining_ = true; }
  /// Joins the threads that prepare requests.
  void stop();

 private:
  std::shared_ptr<const ApiKey> presented_key(const HttpHead& head) const;
  std::optional<protocol::ApiError> check(const HttpHead& head, const Route* route) const;

  const AccessRules access_;
  const protocol::RequestLimits limits_;
  KeyRing* const keys_;
  std::function<int64_t()> connections_ = [] { return 0; };
  std::atomic<bool> draining_ = false;
  Metrics metrics_;
  KeyUsage usage_;
  Responder responder_;
  WorkQueue workers_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  Router router_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_API_H_
