#include "serving/api.h"

#include <algorithm>
#include <array>
#include <utility>

#include "protocol/responses.h"
#include "serving/log_line.h"
#include "serving/page.h"

namespace chimere::serving {
namespace {

using protocol::ApiError;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

/// The key in "Authorization: Bearer KEY", or in the x-api-key header.
std::string_view presented(const HttpHead& head) {
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view header = head.header("authorization");
  if (header.starts_with(kBearer)) return header.substr(kBearer.size());
  return head.header("x-api-key");
}

}  // namespace

struct Api::Route {
  std::string_view path;
  std::string_view method;
  std::string_view scope;  ///< empty: no key required
  void (Api::*run)(const CallPtr&);
};

const Api::Route* Api::find_route(std::string_view path) {
  static constexpr std::array<Route, 16> kRoutes = {{
      {"/", "GET", "", &Api::page},
      {"/chat.js", "GET", "", &Api::page},
      {"/chat.css", "GET", "", &Api::page},
      {"/favicon.ico", "GET", "", &Api::page},
      {"/health", "GET", "", &Api::health},
      {"/ready", "GET", "", &Api::ready},
      {"/metrics", "GET", "metrics", &Api::metrics},
      {"/v1/status", "GET", "metrics", &Api::status},
      {"/v1/models", "GET", "inference", &Api::models},
      {kModels, "GET", "inference", &Api::models},
      {"/v1/chat/completions", "POST", "inference", &Api::chat},
      {"/v1/completions", "POST", "inference", &Api::completion},
      {"/v1/embeddings", "POST", "inference", &Api::embeddings},
      {"/tokenize", "POST", "inference", &Api::tokenize},
      {"/detokenize", "POST", "inference", &Api::detokenize},
      {kEngram, "POST", "engram", &Api::remember},
  }};
  for (const std::string_view named : {kModels, kEngram}) {
    if (path.starts_with(named)) path = named;
  }
  const auto* it = std::ranges::find(kRoutes, path, &Route::path);
  return it == kRoutes.end() ? nullptr : it;
}

Api::Api(ApiOptions options, const ServedModel& model, KeyRing* keys)
    : options_(std::move(options)),
      model_(model),
      keys_(keys),
      workers_(2, 1024),
      embedding_worker_(1, 256) {}

Headers Api::extra_headers(const HttpHead& head) { return cors_headers(options_.access, head); }

std::shared_ptr<const ApiKey> Api::presented_key(const HttpHead& head) const {
  return keys_ == nullptr ? nullptr : keys_->find(presented(head));
}

std::optional<HttpResponse> Api::refuse(const HttpHead& head) {
  const Route* route = find_route(head.path);
  std::optional<ApiError> error = check_access(options_.access, head);
  if (!error && head.method == "OPTIONS") return std::nullopt;  // CORS preflight: has no key
  if (!error && route == nullptr) {
    error = ApiError{"not_found", "There is nothing at this path; docs/api.md lists the routes."};
  }
  if (!error && head.method != route->method &&
      !(head.method == "HEAD" && route->method == "GET")) {
    error = ApiError{"method_not_allowed", "This path accepts " + std::string(route->method) + "."};
  }
  if (!error && keys_ != nullptr && !route->scope.empty()) {
    const auto key = presented_key(head);
    if (presented(head).empty()) {
      error = ApiError{"missing_api_key",
                       "This request has no API key; send one as 'Authorization: Bearer KEY'."};
    } else if (!key) {
      error = ApiError{"invalid_api_key",
                       "The API key of this request is not one of this server's; `chimere keys "
                       "list` shows them."};
    } else if (!key->has_scope(route->scope)) {
      error = ApiError{"insufficient_scope",
                       "This key does not have the scope '" + std::string(route->scope) + "'."};
    }
  }
  if (!error) return std::nullopt;
  metrics_.count_request(route == nullptr ? "other" : std::string(route->path), error->status());
  options_.log(LogLine("refused")
                   .add("status", error->status())
                   .add("method", head.method)
                   .add("path", head.path.substr(0, 200))
                   .add("code", error->code.name())
                   .text());
  Headers headers;
  if (error->status() == 405) headers.emplace_back("Allow", route->method);
  return error_response(*error, std::move(headers));
}

std::optional<ApiError> Api::begin_use(const ApiKey* key) {
  if (draining_) return ApiError{"stopping", "This server is stopping.", "", 5};
  if (key == nullptr) return std::nullopt;
  const std::lock_guard lock(use_mutex_);
  KeyUse& use = use_[key->name];
  if (Clock::now() - use.minute_began > std::chrono::minutes(1)) {
    use.minute_began = Clock::now();
    use.this_minute = 0;
  }
  if (key->parallel > 0 && use.active >= key->parallel) {
    return ApiError{"too_many_parallel_requests",
                    "This key is limited to " + std::to_string(key->parallel) +
                        " concurrent requests; wait for one to finish.",
                    "", 1};
  }
  if (key->per_minute > 0 && use.this_minute >= key->per_minute) {
    const int wait = 60 - static_cast<int>(seconds_since(use.minute_began));
    return ApiError{
        "rate_limit_exceeded",
        "This key is limited to " + std::to_string(key->per_minute) + " requests per minute.", "",
        std::max(1, wait)};
  }
  ++use.active;
  ++use.this_minute;
  return std::nullopt;
}

void Api::end_use(const ApiKey* key) {
  if (key == nullptr) return;
  const std::lock_guard lock(use_mutex_);
  --use_[key->name].active;
}

void Api::handle(HttpRequest request, std::shared_ptr<ResponseStream> stream) {
  const auto call = std::make_shared<Call>();
  call->request = std::move(request);
  call->stream = std::move(stream);
  const HttpHead& head = call->request.head;
  if (head.method == "OPTIONS") {
    call->route = "OPTIONS";
    return respond(call, HttpResponse{204, "", "text/plain", {}});
  }
  const Route* route = find_route(head.path);
  call->route = route->path;
  call->key = presented_key(head);
  if (route->method == "GET") return (this->*route->run)(call);
  if (auto error = begin_use(call->key.get())) return respond(call, *error);
  call->counted = true;
  const bool accepted = workers_.push([this, call, run = route->run] { (this->*run)(call); });
  if (!accepted) respond(call, ApiError{"overloaded", "This server is overloaded.", "", 1});
}

void Api::respond(const CallPtr& call, HttpResponse response, const std::string& error_code) {
  for (auto& header : extra_headers(call->request.head)) {
    response.headers.push_back(std::move(header));
  }
  GenerationReport report;
  report.status = response.status;
  report.outcome = error_code;
  report.seconds = seconds_since(call->began);
  finish(call, report);
  call->stream->respond(std::move(response));
}

void Api::respond(const CallPtr& call, const ApiError& error) {
  respond(call, error_response(error, {}), std::string(error.code.name()));
}

void Api::finish(const CallPtr& call, const GenerationReport& report) {
  const HttpHead& head = call->request.head;
  if (call->counted) end_use(call->key.get());
  metrics_.count_request(call->route, report.status);
  metrics_.count_response(report);
  LogLine line("request");
  line.add("status", report.status).add("method", head.method).add("path", call->route);
  line.add("peer", call->request.peer);
  if (call->key) line.add("key", call->key->name);
  if (report.status >= 400 && !report.outcome.empty()) line.add("code", report.outcome);
  if (!report.id.empty()) {
    line.add("id", report.id).add("outcome", report.outcome);
    line.add("prompt_tokens", report.usage.prompt_tokens);
    line.add("cached_tokens", report.usage.cached_tokens);
    line.add("completion_tokens", report.usage.completion_tokens);
    line.add_seconds("first_token_ms", report.first_token_seconds);
  }
  line.add_seconds("ms", report.seconds);
  if (options_.log_prompts && head.method == "POST") line.add("body", call->request.body);
  options_.log(line.text());
}

void Api::page(const CallPtr& call) {
  const PageFile& file = page_file(call->request.head.path);
  HttpResponse response{200, std::string(file.content), std::string(file.type), {}};
  response.headers = {
      {"Cache-Control", "no-cache"},
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
       "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}};
  respond(call, std::move(response));
}

void Api::health(const CallPtr& call) { respond(call, HttpResponse{200, R"({"status":"ok"})"}); }

void Api::ready(const CallPtr& call) {
  if (draining_) {
    return respond(call, ApiError{"stopping", "This server is stopping.", "", 5});
  }
  respond(call, HttpResponse{200, R"({"status":"ready"})"});
}

void Api::metrics(const CallPtr& call) {
  respond(call, HttpResponse{200, metrics_.text(model_.service.stats(), connections_()),
                             "text/plain; version=0.0.4; charset=utf-8"});
}

void Api::status(const CallPtr& call) {
  const engine::ServiceStats stats = model_.service.stats();
  protocol::ServerStatus s;
  s.version = options_.version;
  s.model = model_.id;
  s.ready = !draining_;
  s.uptime_seconds = seconds_since(started_);
  s.connections = connections_();
  s.running = stats.engine.running;
  s.waiting = stats.engine.waiting;
  s.steps = stats.engine.steps;
  s.prompt_tokens = stats.engine.prompt_tokens;
  s.generated_tokens = stats.engine.generated_tokens;
  s.evictions = stats.engine.evictions;
  s.kv_bytes = stats.kv_bytes;
  s.kv_limit = stats.kv_limit;
  s.recurrent_bytes = stats.slot_bytes;
  s.recurrent_limit = stats.slot_limit;
  respond(call, HttpResponse{200, protocol::status_response(s)});
}

void Api::models(const CallPtr& call) {
  const engine::StateLimits limits = model_.service.state_limits();
  std::vector<protocol::ModelEntry> entries = {{model_.id, model_.created, model_.service.context(),
                                                model_.trained_context, limits.bytes,
                                                limits.tokens}};
  if (model_.embedder) {
    entries.push_back(
        {model_.embedder->id, model_.created, model_.embedder->embedder.context(), 0, 0, 0});
  }
  const std::string name =
      call->request.head.path.substr(std::min(kModels.size(), call->request.head.path.size()));
  if (name.empty()) return respond(call, HttpResponse{200, protocol::model_list(entries)});
  const auto found = std::ranges::find(entries, name, &protocol::ModelEntry::id);
  if (found == entries.end()) return respond(call, *unknown_model(name));
  respond(call, HttpResponse{200, protocol::model_response(*found)});
}

/// Checks the model name of a request that generates text.
std::optional<ApiError> Api::check_model(const std::string& name) const {
  if (name.empty() || name == model_.id) return std::nullopt;
  if (model_.embedder && name == model_.embedder->id) {
    return ApiError{"model_does_not_write",
                    "The model '" + name + "' computes embeddings and generates no text; use '" +
                        model_.id + "'.",
                    "model"};
  }
  return unknown_model(name);
}

std::optional<ApiError> Api::unknown_model(const std::string& name) const {
  const std::string embedder = model_.embedder ? "' and '" + model_.embedder->id : "";
  return ApiError{"model_not_found",
                  "This server has no model '" + name.substr(0, 200) + "'; it has '" + model_.id +
                      embedder + "'.",
                  "model"};
}

}  // namespace chimere::serving
