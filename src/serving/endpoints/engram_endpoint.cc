#include "serving/endpoints/engram_endpoint.h"

#include <cstdint>
#include <string_view>
#include <vector>

#include "protocol/responses.h"
#include "text/tokenizer.h"

namespace chimere::serving {

using protocol::ApiError;

void EngramEndpoint::add_routes(Router& router) {
  router.add({"/v1/engram", "GET", "engram", [this](const CallPtr& call) { list(call); },
              ModelKind::kText});
  router.add({"/v1/engram/", "GET", "engram", [this](const CallPtr& call) { info(call); },
              ModelKind::kText});
  router.add({"/v1/engram/", "POST", "engram", [this](const CallPtr& call) { post(call); },
              ModelKind::kText});
  router.add({"/v1/engram/", "DELETE", "engram", [this](const CallPtr& call) { erase(call); },
              ModelKind::kText});
}

bool EngramEndpoint::available(const CallPtr& call) const {
  if (model_of(*call).engram_tables) return true;
  respond(call, ApiError{"engram_unavailable",
                         "This server has no folder for engram tables; start it with "
                         "--state-folder."});
  return false;
}

void EngramEndpoint::list(const CallPtr& call) {
  if (!available(call)) return;
  const auto tables = model_of(*call).engram_tables->list(call->owner());
  if (!tables.ok()) return respond(call, protocol::from_engram(tables.error()));
  respond(call, HttpResponse{200, protocol::engram_list(*tables)});
}

void EngramEndpoint::respond_info(const CallPtr& call, const std::string& table) {
  const auto found = model_of(*call).engram_tables->info(call->owner(), table);
  if (!found.ok()) return respond(call, protocol::from_engram(found.error()));
  respond(call, HttpResponse{200, protocol::engram_info(*found)});
}

void EngramEndpoint::info(const CallPtr& call) {
  if (available(call)) respond_info(call, name_in_path(*call));
}

void EngramEndpoint::erase(const CallPtr& call) {
  if (!available(call)) return;
  const std::string table = name_in_path(*call);
  const Status done = model_of(*call).engram_tables->erase(call->owner(), table);
  if (!done.ok()) return respond(call, protocol::from_engram(done.error()));
  respond(call, HttpResponse{200, protocol::engram_deleted(table)});
}

void EngramEndpoint::post(const CallPtr& call) {
  const std::string path = name_in_path(*call);
  const auto table_of = [&](std::string_view action) {
    return path.substr(0, path.size() - action.size());
  };
  for (const std::string_view action : {"/search", "/predict"}) {
    if (path.ends_with(action)) return look_up(call, table_of(action), action == "/predict");
  }
  if (path.ends_with("/decay")) return decay(call, table_of("/decay"));
  write(call, path);
}

void EngramEndpoint::decay(const CallPtr& call, const std::string& table) {
  if (!available(call)) return;
  const Status done = model_of(*call).engram_tables->decay(call->owner(), table);
  if (!done.ok()) return respond(call, protocol::from_engram(done.error()));
  respond_info(call, table);
}

void EngramEndpoint::look_up(const CallPtr& call, const std::string& table, bool predict) {
  const ServedModel& model = model_of(*call);
  protocol::EngramLookupRequest request;
  auto error = protocol::parse_engram_lookup(call->request.body, context().limits, request);
  if (!error) error = check_model(*call, request.model);
  if (error) return respond(call, *error);
  if (!available(call)) return;
  const std::vector<int32_t> tokens = model.tokenizer.encode(request.text, false);
  if (predict) {
    const auto made = model.engram_tables->predict(call->owner(), table, tokens, request.most);
    if (!made.ok()) return respond(call, protocol::from_engram(made.error()));
    return respond(call, HttpResponse{200, protocol::engram_predictions(table, *made)});
  }
  const auto found = model.engram_tables->search(call->owner(), table, tokens, request.least);
  if (!found.ok()) return respond(call, protocol::from_engram(found.error()));
  respond(call, HttpResponse{200, protocol::engram_matches(
                                      table, static_cast<int64_t>(tokens.size()), *found)});
}

/// Adds texts with their quality scores to an engram table.
void EngramEndpoint::write(const CallPtr& call, const std::string& table) {
  protocol::EngramRequest request;
  auto error = protocol::parse_engram(call->request.body, context().limits, request);
  if (!error) error = check_model(*call, request.model);
  if (error) return respond(call, *error);
  if (!available(call)) return;
  const auto report = model_of(*call).remember(call->owner(), table, request);
  if (!report.ok()) return respond(call, protocol::from_engram(report.error()));
  respond(call, HttpResponse{200, protocol::engram_response(table, report->written, report->refused,
                                                            report->ngrams)});
}

}  // namespace chimere::serving
