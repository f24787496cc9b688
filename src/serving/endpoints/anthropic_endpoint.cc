#include "serving/endpoints/anthropic_endpoint.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace chimere::serving {

void AnthropicEndpoint::add_routes(Router& router) {
  constexpr auto kForm = protocol::ApiForm::kAnthropic;
  router.add({"/v1/messages", "POST", "inference", [this](const CallPtr& call) { messages(call); },
              ModelKind::kText, kForm});
  router.add({"/v1/messages/count_tokens", "POST", "inference",
              [this](const CallPtr& call) { count_tokens(call); }, ModelKind::kText, kForm});
}

void AnthropicEndpoint::messages(const CallPtr& call) {
  const ServedModel& model = model_of(*call);
  protocol::MessagesRequest request;
  if (auto error = protocol::parse_messages(call->request.body, model.defaults, context().limits,
                                            false, request)) {
    return respond(call, *error);
  }
  const bool show_thinking = request.show_thinking;
  const bool writes = request.marks_cache && request.use_cache && model.service.has_prefix_cache();
  const std::string name = reply_name(model, request);
  chat(call, std::move(request), [=](const std::vector<protocol::Warning>& /*warnings*/) {
    return protocol::anthropic_writer(make_id("msg_"), name, show_thinking, writes);
  });
}

void AnthropicEndpoint::count_tokens(const CallPtr& call) {
  protocol::MessagesRequest request;
  auto error = protocol::parse_messages(call->request.body, model_of(*call).defaults,
                                        context().limits, true, request);
  if (!error) error = check_model(*call, request.model);
  Prepared prepared;
  if (!error) error = prepare(*call, request, prepared);
  if (error) return respond(call, *error);
  const auto tokens = static_cast<int64_t>(prepared.prompt.tokens.size());
  respond(call, HttpResponse{200, protocol::token_count_response(tokens)});
}

}  // namespace chimere::serving
