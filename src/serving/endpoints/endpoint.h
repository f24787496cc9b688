// What the endpoints of the API share.
#ifndef CHIMERE_SERVING_ENDPOINTS_ENDPOINT_H_
#define CHIMERE_SERVING_ENDPOINTS_ENDPOINT_H_

#include <atomic>
#include <optional>
#include <string>

#include "protocol/api_error.h"
#include "protocol/requests.h"
#include "serving/call.h"
#include "serving/metrics.h"
#include "serving/router.h"
#include "serving/served_model.h"
#include "serving/work_queue.h"

namespace chimere::serving {

/// All outlive the endpoints.
struct EndpointContext {
  const ServedModel& model;
  const protocol::RequestLimits& limits;
  Responder& responder;
  Metrics& metrics;
  WorkQueue& workers;  ///< for work that takes longer than a connection should wait
  const std::atomic<bool>& draining;
};

/// A group of routes: a new API is a class of its own, and a line in the constructor of Api.
class Endpoint {
 public:
  explicit Endpoint(const EndpointContext& context) : context_(context) {}
  virtual ~Endpoint() = default;
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  virtual void add_routes(Router& router) = 0;
  /// Joins the threads of its own.
  virtual void stop() {}

 protected:
  const ServedModel& model() const { return context_.model; }
  const EndpointContext& context() const { return context_; }
  template <typename Answer>
  void respond(const CallPtr& call, Answer answer) const {
    context_.responder.respond(call, std::move(answer));
  }
  /// Checks the model name of a request that generates text.
  std::optional<protocol::ApiError> check_model(const std::string& name) const;
  /// The 404 for a model that this server does not have.
  protocol::ApiError unknown_model(const std::string& name) const;

 private:
  const EndpointContext context_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_ENDPOINTS_ENDPOINT_H_
