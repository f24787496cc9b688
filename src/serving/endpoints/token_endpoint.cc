#include "serving/endpoints/token_endpoint.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "protocol/responses.h"
#include "text/tokenizer.h"

namespace chimere::serving {

using protocol::ApiError;

void TokenEndpoint::add_routes(Router& router) {
  router.add({"/tokenize", "POST", "inference", [this](const CallPtr& call) { tokenize(call); },
              ModelKind::kText});
  router.add({"/detokenize", "POST", "inference", [this](const CallPtr& call) { detokenize(call); },
              ModelKind::kText});
}

void TokenEndpoint::tokenize(const CallPtr& call) {
  const ServedModel& model = *call->model;
  protocol::TokenizeRequest request;
  auto error = protocol::parse_tokenize(call->request.body, context().limits, request);
  if (!error) error = check_model(*call, request.model);
  if (error) return respond(call, *error);
  std::vector<int32_t> tokens;
  if (request.content) {
    const text::Tokenizer& tokenizer = model.tokenizer;
    tokens = request.add_special
                 ? tokenizer.encode_with_bos(*request.content, request.parse_special)
                 : tokenizer.encode(*request.content, request.parse_special);
  } else {
    auto prompt = chat_prompt(model, {.messages = std::move(request.messages),
                                      .reasoning = model.defaults.get(settings::kReasoning),
                                      .template_kwargs = std::move(request.template_kwargs)});
    if (!prompt.ok()) {
      return respond(call, ApiError{"template_error", prompt.error().message, "messages"});
    }
    tokens = std::move(prompt->tokens);
  }
  std::vector<std::string> pieces;
  if (request.with_pieces) {
    for (const int32_t token : tokens) pieces.push_back(model.tokenizer.token_bytes(token, true));
  }
  respond(call,
          HttpResponse{200, protocol::tokenize_response(tokens, pieces, model.service.context())});
}

void TokenEndpoint::detokenize(const CallPtr& call) {
  const ServedModel& model = *call->model;
  protocol::DetokenizeRequest request;
  auto error = protocol::parse_detokenize(call->request.body, request);
  if (!error) error = check_model(*call, request.model);
  if (error) return respond(call, *error);
  for (const int32_t token : request.tokens) {
    if (token >= model.tokenizer.n_tokens()) {
      return respond(call, protocol::bad_field(
                               "Token " + std::to_string(token) + " does not exist.", "tokens"));
    }
  }
  respond(call, HttpResponse{200, protocol::detokenize_response(
                                      model.tokenizer.decode(request.tokens, true))});
}

}  // namespace chimere::serving
