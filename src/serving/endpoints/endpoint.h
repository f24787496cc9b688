// What the endpoints of the API share.
#ifndef CHIMERE_SERVING_ENDPOINTS_ENDPOINT_H_
#define CHIMERE_SERVING_ENDPOINTS_ENDPOINT_H_

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "protocol/api_error.h"
#include "protocol/orchestration.h"
#include "protocol/requests.h"
#include "protocol/volatile_lines.h"
#include "serving/call.h"
#include "serving/history/detached_answers.h"
#include "serving/metrics.h"
#include "serving/model_registry.h"
#include "serving/router.h"
#include "serving/work_queue.h"

namespace chimere::serving {

/// All outlive the endpoints.
struct EndpointContext {
  ModelRegistry& models;
  const protocol::RequestLimits& limits;
  const std::vector<const protocol::VolatileRule*>& volatile_rules;
  Responder& responder;
  Metrics& metrics;
  const KeyUsage& usage;
  WorkQueue& workers;    ///< for work that takes longer than a connection should wait
  WorkQueue& compilers;  ///< for requests with a constraint, which may take seconds to compile
  protocol::ChatOrchestrator* orchestrator;  ///< nullptr: all chats are plain
  WorkQueue* orchestrations;                 ///< runs orchestrated chats, which wait for models
  const std::atomic<bool>& draining;
  DetachedAnswers* detached;  ///< nullptr: the server keeps no conversations
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
  ModelRegistry& registry() const { return context_.models; }
  const EndpointContext& context() const { return context_; }
  template <typename Answer>
  void respond(const CallPtr& call, Answer answer) const {
    context_.responder.respond(call, std::move(answer));
  }
  /// The model that answers a call of a route with ModelKind::kText.
  static const ServedModel& model_of(const Call& call) { return *call.model; }
  /// Names what a parser ignored or changed in the headers of the response, and in the log.
  static void note(Call& call, const protocol::RequestNotes& notes);
  /// The error if `name`, the model of the parsed request, is not the model of the call.
  std::optional<protocol::ApiError> check_model(const Call& call, const std::string& name) const;

 private:
  const EndpointContext context_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_ENDPOINTS_ENDPOINT_H_
