#include "serving/endpoints/status_endpoint.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "protocol/responses.h"
#include "serving/page.h"

namespace chimere::serving {

using protocol::ApiError;

StatusEndpoint::StatusEndpoint(const EndpointContext& context, std::string version,
                               const std::function<int64_t()>& connections)
    : Endpoint(context), version_(std::move(version)), connections_(connections) {}

void StatusEndpoint::add_routes(Router& router) {
  for (const char* file : {"/", "/chat.js", "/chat.css", "/favicon.ico"}) {
    router.add({file, "GET", "", [this](const CallPtr& call) { page(call); }});
  }
  router.add({"/health", "GET", "", [this](const CallPtr& call) { health(call); }});
  router.add({"/ready", "GET", "", [this](const CallPtr& call) { ready(call); }});
  router.add({"/metrics", "GET", "metrics", [this](const CallPtr& call) { metrics(call); }});
  router.add({"/v1/status", "GET", "metrics", [this](const CallPtr& call) { status(call); }});
  for (const char* path : {"/v1/models", "/v1/models/"}) {
    router.add({path, "GET", "inference", [this](const CallPtr& call) { models(call); }});
  }
}

void StatusEndpoint::page(const CallPtr& call) {
  const PageFile& file = page_file(call->request.head.path);
  HttpResponse response{200, std::string(file.content), std::string(file.type), {}};
  response.headers = {
      {"Cache-Control", "no-cache"},
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
       "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}};
  respond(call, std::move(response));
}

void StatusEndpoint::health(const CallPtr& call) {
  respond(call, HttpResponse{200, R"({"status":"ok"})"});
}

void StatusEndpoint::ready(const CallPtr& call) {
  if (context().draining) {
    return respond(call, ApiError{"stopping", "This server is stopping.", "", 5});
  }
  respond(call, HttpResponse{200, R"({"status":"ready"})"});
}

void StatusEndpoint::metrics(const CallPtr& call) {
  respond(call, HttpResponse{200, context().metrics.text(model().service.stats(), connections_()),
                             "text/plain; version=0.0.4; charset=utf-8"});
}

void StatusEndpoint::status(const CallPtr& call) {
  const engine::ServiceStats stats = model().service.stats();
  protocol::ServerStatus s;
  s.version = version_;
  s.model = model().id;
  s.ready = !context().draining;
  s.uptime_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
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

void StatusEndpoint::models(const CallPtr& call) {
  const engine::StateLimits limits = model().service.state_limits();
  std::vector<protocol::ModelEntry> entries = {{model().id, model().created,
                                                model().service.context(), model().trained_context,
                                                limits.bytes, limits.tokens}};
  if (model().embedder) {
    entries.push_back(
        {model().embedder->id, model().created, model().embedder->embedder.context(), 0, 0, 0});
  }
  const std::string name = name_in_path(*call);
  if (name.empty()) return respond(call, HttpResponse{200, protocol::model_list(entries)});
  const auto found = std::ranges::find(entries, name, &protocol::ModelEntry::id);
  if (found == entries.end()) return respond(call, unknown_model(name));
  respond(call, HttpResponse{200, protocol::model_response(*found)});
}

}  // namespace chimere::serving
