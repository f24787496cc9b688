#include "serving/api.h"

#include <string_view>
#include <utility>

#include "serving/endpoints/embeddings_endpoint.h"
#include "serving/endpoints/engram_endpoint.h"
#include "serving/endpoints/generation_endpoint.h"
#include "serving/endpoints/status_endpoint.h"
#include "serving/endpoints/token_endpoint.h"

namespace chimere::serving {
namespace {

using protocol::ApiError;

/// The key in "Authorization: Bearer KEY", or in the x-api-key header.
std::string_view presented(const HttpHead& head) {
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view header = head.header("authorization");
  if (header.starts_with(kBearer)) return header.substr(kBearer.size());
  return head.header("x-api-key");
}

}  // namespace

Api::Api(const ApiOptions& options, const ServedModel& model, KeyRing* keys)
    : access_(options.access),
      limits_(options.limits),
      keys_(keys),
      responder_({options.access, options.log_prompts, options.log}, metrics_, usage_),
      workers_(2, 1024) {
  const EndpointContext context = {model, limits_, responder_, metrics_, workers_, draining_};
  endpoints_.push_back(std::make_unique<StatusEndpoint>(context, options.version, connections_));
  endpoints_.push_back(std::make_unique<GenerationEndpoint>(context));
  endpoints_.push_back(std::make_unique<EmbeddingsEndpoint>(context));
  endpoints_.push_back(std::make_unique<TokenEndpoint>(context));
  endpoints_.push_back(std::make_unique<EngramEndpoint>(context));
  for (const auto& endpoint : endpoints_) endpoint->add_routes(router_);
}

void Api::stop() {
  workers_.stop();
  for (const auto& endpoint : endpoints_) endpoint->stop();
}

std::shared_ptr<const ApiKey> Api::presented_key(const HttpHead& head) const {
  return keys_ == nullptr ? nullptr : keys_->find(presented(head));
}

std::optional<ApiError> Api::check(const HttpHead& head, const Route* route) const {
  if (auto error = check_access(access_, head)) return error;
  if (head.method == "OPTIONS") return std::nullopt;  // CORS preflight: has no key
  if (route == nullptr) {
    return ApiError{"not_found",
                    "There is nothing at this path; docs/serving.md lists the routes."};
  }
  if (head.method != route->method && !(head.method == "HEAD" && route->method == "GET")) {
    return ApiError{"method_not_allowed", "This path accepts " + route->method + "."};
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
  const Route* route = router_.find(head.path);
  const std::optional<ApiError> error = check(head, route);
  if (!error) return std::nullopt;
  Headers headers;
  if (error->status() == 405) headers.emplace_back("Allow", route->method);
  return responder_.refuse(head, route == nullptr ? "other" : route->path, *error,
                           std::move(headers));
}

void Api::handle(HttpRequest request, std::shared_ptr<ResponseStream> stream) {
  const auto call = std::make_shared<Call>();
  call->request = std::move(request);
  call->stream = std::move(stream);
  const HttpHead& head = call->request.head;
  if (head.method == "OPTIONS") {
    call->route = "OPTIONS";
    return responder_.respond(call, HttpResponse{204, "", "text/plain", {}});
  }
  const Route* route = router_.find(head.path);
  call->route = route->path;
  call->key = presented_key(head);
  if (route->method == "GET") return route->handle(call);
  if (draining_) {
    return responder_.respond(call, ApiError{"stopping", "This server is stopping.", "", 5});
  }
  if (auto error = usage_.begin(call->key.get())) return responder_.respond(call, *error);
  call->counted = true;
  if (!workers_.push([route, call] { route->handle(call); })) {
    responder_.respond(call, ApiError{"overloaded", "This server is overloaded.", "", 1});
  }
}

}  // namespace chimere::serving
