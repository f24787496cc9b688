#include "serving/endpoints/status_endpoint.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "protocol/generation_writer.h"
#include "protocol/responses.h"

namespace chimere::serving {
namespace {

const char* kind_name(ModelKind kind) {
  switch (kind) {
    case ModelKind::kText:
      return "text";
    case ModelKind::kEmbedding:
      return "embedding";
    case ModelKind::kReranking:
      return "reranking";
    case ModelKind::kNone:
      break;
  }
  return "";
}

}  // namespace

using protocol::ApiError;

StatusEndpoint::StatusEndpoint(const EndpointContext& context, std::string version,
                               const std::function<int64_t()>& connections)
    : Endpoint(context), version_(std::move(version)), connections_(connections) {}

void StatusEndpoint::add_routes(Router& router) {
  router.add({"/health", "GET", "", [this](const CallPtr& call) { health(call); }});
  for (const char* path : {"/ready", "/ready/"}) {
    router.add({path, "GET", "", [this](const CallPtr& call) { ready(call); }});
  }
  router.add({"/metrics", "GET", "metrics", [this](const CallPtr& call) { metrics(call); }});
  router.add({"/v1/status", "GET", "metrics", [this](const CallPtr& call) { status(call); }});
  for (const char* path : {"/v1/models", "/v1/models/"}) {
    router.add({path, "GET", "inference", [this](const CallPtr& call) { models(call); }});
  }
}

void StatusEndpoint::health(const CallPtr& call) {
  respond(call, HttpResponse{200, R"({"status":"ok"})"});
}

void StatusEndpoint::ready(const CallPtr& call) {
  if (context().draining) {
    return respond(call, ApiError{"stopping", "This server is stopping.", "", 5});
  }
  auto name = call->request.head.query_value("model");
  const std::string in_path = percent_decoded(name_in_path(*call), false);
  if (!in_path.empty()) name = in_path;
  if (!name) return respond(call, HttpResponse{200, R"({"status":"ready"})"});
  const auto model = registry().find(*name, ModelKind::kText);
  if (!model) return respond(call, registry().missing(*name, ModelKind::kText));
  // 503 for load balancers: a request would wait until the model is loaded.
  const bool ready = model->state == ModelStatus::State::kReady;
  respond(call, HttpResponse{ready ? 200 : 503,
                             std::string(R"({"status":")") + state_name(model->state) + R"("})"});
}

void StatusEndpoint::metrics(const CallPtr& call) {
  std::vector<ModelMetrics> models;
  for (ModelStatus& model : registry().list()) models.emplace_back(std::move(model));
  const auto keys = context().usage.budgets();
  respond(call, HttpResponse{200, context().metrics.text(models, connections_(), keys),
                             "text/plain; version=0.0.4; charset=utf-8"});
}

void StatusEndpoint::status(const CallPtr& call) {
  protocol::ServerStatus s;
  s.version = version_;
  s.ready = !context().draining;
  s.uptime_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  s.connections = connections_();
  s.models_limit = registry().memory_limit();
  for (const ModelStatus& model : registry().list()) {
    const bool text = model.about.kind == ModelKind::kText;
    if (s.model.empty() && text) s.model = model.about.id;
    s.models.push_back({model.about.id, kind_name(model.about.kind), state_name(model.state),
                        model.progress, model.bytes, model.requests, model.waiting, model.loads,
                        model.evictions, model.failures});
    if (model.loaded.text == nullptr) continue;
    const engine::ServiceStats stats = model.loaded.text->service.stats();
    s.running += stats.engine.running;
    s.waiting += stats.engine.waiting;
    s.steps += stats.engine.steps;
    s.prompt_tokens += stats.engine.prompt_tokens;
    s.generated_tokens += stats.engine.generated_tokens;
    s.evictions += stats.engine.evictions;
    s.kv_bytes += stats.kv_bytes;
    s.kv_limit += stats.kv_limit;
    s.recurrent_bytes += stats.slot_bytes;
    s.recurrent_limit += stats.slot_limit;
  }
  respond(call, HttpResponse{200, protocol::status_response(s)});
}

void StatusEndpoint::models(const CallPtr& call) {
  std::vector<protocol::ModelEntry> entries;
  for (const ModelStatus& model : registry().list()) {
    protocol::ModelEntry& entry = entries.emplace_back(model.about.id, model.about.created);
    entry.kind = kind_name(model.about.kind);
    entry.aliases = model.about.aliases;
    entry.state = state_name(model.state);
    if (model.about.kind == ModelKind::kText) entry.trained_context = model.about.trained_context;
    if (const ServedModel* text = model.loaded.text.get()) {
      const engine::StateLimits limits = text->service.state_limits();
      entry.context = text->service.context();
      entry.max_state_bytes = limits.bytes;
      entry.max_kv_tokens = limits.tokens;
    } else if (const ServedEmbedder* embedder = model.loaded.embedder.get()) {
      entry.context = embedder->embedder().context();
    } else {
      entry.context = model.about.trained_context;
    }
    const protocol::ModelEntry base = entry;
    for (const std::string& adapter : model.about.adapters) {
      protocol::ModelEntry& adapted = entries.emplace_back(base);
      adapted.id = base.id + ":" + adapter;
      adapted.aliases = {adapter};
      adapted.parent = base.id;
    }
  }
  if (protocol::ChatOrchestrator* const orchestrator = context().orchestrator) {
    // With the context of the model that they talk to.
    const auto base = registry().find("", ModelKind::kText);
    for (std::string& id : orchestrator->names()) {
      protocol::ModelEntry entry;
      entry.id = std::move(id);
      entry.kind = kind_name(ModelKind::kText);
      if (base && !entries.empty()) {
        const auto found = std::ranges::find(entries, base->about.id, &protocol::ModelEntry::id);
        if (found != entries.end()) {
          entry.created = found->created;
          entry.context = found->context;
          entry.state = found->state;
        }
      }
      entries.push_back(std::move(entry));
    }
  }
  const std::string name = percent_decoded(name_in_path(*call), false);
  const bool anthropic = !call->request.head.header("anthropic-version").empty();
  if (name.empty()) {
    return respond(call, HttpResponse{200, anthropic ? protocol::anthropic_model_list(entries)
                                                     : protocol::model_list(entries)});
  }
  const auto model = registry().find(name, ModelKind::kText);
  const auto named = [&](const protocol::ModelEntry& entry) {
    return entry.id == name || (!entry.parent.empty() && entry.aliases[0] == name);
  };
  auto found = std::ranges::find_if(entries, named);
  if (model && found == entries.end()) {
    found = std::ranges::find(entries, model->about.id, &protocol::ModelEntry::id);
  }
  if (found == entries.end()) return respond(call, registry().missing(name, ModelKind::kText));
  respond(call, HttpResponse{200, anthropic ? protocol::anthropic_model(*found)
                                            : protocol::model_response(*found)});
}

}  // namespace chimere::serving
