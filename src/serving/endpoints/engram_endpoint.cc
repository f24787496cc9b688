#include "serving/endpoints/engram_endpoint.h"

#include <string>

#include "protocol/responses.h"

namespace chimere::serving {

using protocol::ApiError;

void EngramEndpoint::add_routes(Router& router) {
  router.add({"/v1/engram/", "POST", "engram", [this](const CallPtr& call) { write(call); }});
}

/// POST /v1/engram/NAME: adds texts with their quality scores to an engram table.
void EngramEndpoint::write(const CallPtr& call) {
  protocol::EngramRequest request;
  auto error = protocol::parse_engram(call->request.body, context().limits, request);
  if (!error) error = check_model(request.model);
  if (!error && !model().remember) {
    error = ApiError{"engram_unavailable",
                     "This server has no folder for engram tables; start it with --state-folder."};
  }
  if (error) return respond(call, *error);
  const std::string table = name_in_path(*call);
  const auto report = model().remember(call->owner(), table, request);
  if (!report.ok()) return respond(call, protocol::from_engram(report.error()));
  respond(call, HttpResponse{200, protocol::engram_response(table, report->written, report->refused,
                                                            report->ngrams)});
}

}  // namespace chimere::serving
