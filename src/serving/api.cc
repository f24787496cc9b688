#include "serving/api.h"

#include <string_view>
#include <thread>
#include <utility>

#include "serving/endpoints/admin_endpoint.h"
#include "serving/endpoints/anthropic_endpoint.h"
#include "serving/endpoints/collections_endpoint.h"
#include "serving/endpoints/embeddings_endpoint.h"
#include "serving/endpoints/engram_endpoint.h"
#include "serving/endpoints/generation_endpoint.h"
#include "serving/endpoints/history_endpoint.h"
#include "serving/endpoints/llama_cpp_endpoint.h"
#include "serving/endpoints/ollama_endpoint.h"
#include "serving/endpoints/rerank_endpoint.h"
#include "serving/endpoints/responses_endpoint.h"
#include "serving/endpoints/status_endpoint.h"
#include "serving/endpoints/studio_endpoint.h"
#include "serving/endpoints/token_endpoint.h"

namespace chimere::serving {
namespace {

using protocol::ApiError;

/// Orchestrated chats that run at the same time, each on a thread that mostly waits for the engine,
/// and that wait.
constexpr int kOrchestrations = 32;
constexpr size_t kWaitingOrchestrations = 256;

const ApiError kOverloaded = {"overloaded", "This server is overloaded.", "", 1};

/// The key in "Authorization: Bearer KEY", or in the x-api-key header.
std::string_view presented(const HttpHead& head) {
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view header = head.header("authorization");
  if (header.starts_with(kBearer)) return header.substr(kBearer.size());
  return head.header("x-api-key");
}

}  // namespace

Api::Api(const ApiOptions& options, ModelRegistry& models, KeyRing* keys)
    : access_(options.access),
      limits_(options.limits),
      volatile_rules_(options.volatile_rules),
      models_(models),
      keys_(keys),
      responder_({options.access, options.log_prompts, options.log}, metrics_, usage_),
      workers_(2, 1024),
      compilers_(2, 1024, 1),
      orchestrator_(options.orchestrator) {
  if (orchestrator_ != nullptr) {
    orchestrations_ = std::make_unique<WorkQueue>(kOrchestrations, kWaitingOrchestrations);
  }
  if (options.history != nullptr) detached_ = std::make_unique<DetachedAnswers>(*options.history);
  const EndpointContext context = {
      models,    limits_,        volatile_rules_, responder_,    metrics_,
      usage_,    workers_,       compilers_,      orchestrator_, orchestrations_.get(),
      draining_, detached_.get()};
  endpoints_.push_back(std::make_unique<StatusEndpoint>(context, options.version, connections_));
  endpoints_.push_back(std::make_unique<AdminEndpoint>(context, active_, keys, usage_));
  endpoints_.push_back(std::make_unique<GenerationEndpoint>(context));
  endpoints_.push_back(std::make_unique<AnthropicEndpoint>(context));
  endpoints_.push_back(std::make_unique<ResponsesEndpoint>(context, options.response_store_bytes));
  endpoints_.push_back(std::make_unique<OllamaEndpoint>(context, options.version, options.files));
  endpoints_.push_back(std::make_unique<LlamaCppEndpoint>(context, options.version));
  endpoints_.push_back(std::make_unique<EmbeddingsEndpoint>(context));
  endpoints_.push_back(std::make_unique<RerankEndpoint>(context));
  endpoints_.push_back(std::make_unique<TokenEndpoint>(context));
  endpoints_.push_back(std::make_unique<EngramEndpoint>(context));
  endpoints_.push_back(std::make_unique<StudioEndpoint>(context));
  if (options.history != nullptr) {
    endpoints_.push_back(std::make_unique<HistoryEndpoint>(context, *options.history));
  }
  if (options.collections != nullptr) {
    endpoints_.push_back(std::make_unique<CollectionsEndpoint>(context, *options.collections));
  }
  for (const auto& endpoint : endpoints_) endpoint->add_routes(router_);
}

void Api::stop() {
  if (detached_) detached_->cancel_all();
  if (orchestrations_) orchestrations_->stop();
  workers_.stop();
  compilers_.stop();
  for (const auto& endpoint : endpoints_) endpoint->stop();
  if (detached_) detached_->stop();
}

std::shared_ptr<const ApiKey> Api::presented_key(const HttpHead& head) const {
  return keys_ == nullptr ? nullptr : keys_->find(presented(head));
}

std::optional<ApiError> Api::check(const HttpHead& head, const std::string& path,
                                   const Route* route) const {
  if (auto error = check_access(access_, head)) return error;
  if (head.method == "OPTIONS") return std::nullopt;  // CORS preflight: has no key
  if (route == nullptr) {
    return ApiError{"not_found",
                    "There is nothing at this path; docs/serving.md lists the routes."};
  }
  if (head.method != route->method && !(head.method == "HEAD" && route->method == "GET")) {
    return ApiError{"method_not_allowed", "This path accepts " + router_.methods(path) + "."};
  }
  if (keys_ == nullptr || route->scope.empty()) return std::nullopt;
  const auto key = presented_key(head);
  if (presented(head).empty()) {
    return ApiError{"missing_api_key",
                    "This request has no API key; send one as 'Authorization: Bearer KEY'."};
  }
  if (!key) {
    return ApiError{"invalid_api_key", "This server does not know the API key that was sent."};
  }
  if (key->has_scope(route->scope)) return std::nullopt;
  return ApiError{"insufficient_scope", "This key does not have the scope '" + route->scope + "'."};
}

std::optional<HttpResponse> Api::refuse(const HttpHead& head) {
  const std::string path = router_.canonical(head.path);
  const Route* route = router_.find(path, head.method);
  const std::optional<ApiError> error = check(head, path, route);
  if (!error) return std::nullopt;
  return reject(head, *error);
}

HttpResponse Api::reject(const HttpHead& head, const ApiError& error) {
  const std::string path = router_.canonical(head.path);
  const Route* route = router_.find(path, head.method);
  Headers headers;
  if (error.status() == 405) headers.emplace_back("Allow", router_.methods(path));
  const bool anthropic = !head.header("anthropic-version").empty();
  const protocol::ApiForm form = route != nullptr                 ? route->form
                                 : anthropic                      ? protocol::ApiForm::kAnthropic
                                 : head.path.starts_with("/api/") ? protocol::ApiForm::kOllama
                                                                  : protocol::ApiForm::kOpenAi;
  return responder_.refuse(head, route == nullptr ? "other" : route->path, form, error,
                           std::move(headers));
}

void Api::handle(HttpRequest request, std::shared_ptr<ResponseStream> stream) {
  const auto call = std::make_shared<Call>();
  call->request = std::move(request);
  call->stream = std::move(stream);
  const HttpHead& head = call->request.head;
  call->request_id = request_id_of(head);
  call->traceparent = traceparent_of(head);
  call->tracestate = tracestate_of(head);
  if (head.method == "OPTIONS") {
    call->route = "OPTIONS";
    return responder_.respond(call, HttpResponse{204, "", "text/plain", {}});
  }
  call->request.head.path = router_.canonical(head.path);
  const Route* route = router_.find(head.path, head.method);
  call->route = route->path;
  call->form = route->form;
  call->key = presented_key(head);
  const bool with_model = route->model != ModelKind::kNone;
  if (route->method == "GET" && !with_model) return route->handle(call);
  if (draining_) {
    return responder_.respond(call, ApiError{"stopping", "This server is stopping.", "", 5});
  }
  if (route->limited) {
    if (auto error = usage_.begin(call->key.get())) return responder_.respond(call, *error);
    call->counted = true;
    active_.add(call);
  }
  if (!workers_.push([this, route, call] { handle_with_model(*route, call); })) {
    responder_.respond(call, kOverloaded);
  }
}

void Api::handle_with_model(const Route& route, const CallPtr& call) {
  if (route.model == ModelKind::kNone) return route.handle(call);
  // A request without a body names its model in the query.
  const std::string in_query = call->request.head.query_value("model").value_or("");
  std::string name = in_query;
  const bool orchestrated = orchestrator_ != nullptr && route.model == ModelKind::kText;
  if (route.method == "POST" && (orchestrated || models_.has_choice(route.model))) {
    if (auto error = protocol::read_model_name(call->request.body, name)) {
      return responder_.respond(call, *error);
    }
    if (route.form == protocol::ApiForm::kOllama) {
      name = protocol::ollama_model_name(std::move(name));
    }
  }
  if (orchestrated) {
    if (auto model = orchestrator_->model_of(name)) {
      call->orchestrator = std::exchange(name, *std::move(model));
    } else if (!models_.has_choice(route.model)) {
      name = in_query;  // there is one model; the endpoint checks the name in the body
    }
  }
  const auto worker = std::this_thread::get_id();
  models_.use(name, route.model, call->stream,
              [this, &route, call, worker](ModelLease lease, std::optional<ApiError> error) {
                if (error) return responder_.respond(call, *error);
                call->model = std::move(lease.text);
                call->embedder = std::move(lease.embedder);
                if (std::this_thread::get_id() == worker) return route.handle(call);
                if (!workers_.push([&route, call] { route.handle(call); })) {
                  responder_.respond(call, kOverloaded);
                }
              });
}

}  // namespace chimere::serving
