#include "serving/endpoints/generation_endpoint.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "protocol/llama_cpp_writer.h"
#include "serving/output_constraint.h"
#include "text/tokenizer.h"

namespace chimere::serving {
namespace {

std::string lossy(const std::string& bytes) {
  text::StreamDecoder decoder;
  std::string out = decoder.push(bytes);
  return out + decoder.finish();
}

}  // namespace

void GenerationEndpoint::add_routes(Router& router) {
  router.add({"/v1/chat/completions", "POST", "inference",
              [this](const CallPtr& call) { chat_completion(call); }, ModelKind::kText});
  router.add({"/v1/completions", "POST", "inference",
              [this](const CallPtr& call) { completion(call); }, ModelKind::kText});
  router.add({"/completion", "POST", "inference",
              [this](const CallPtr& call) { llama_completion(call); }, ModelKind::kText});
}

GeneratingEndpoint::MakeWriter GenerationEndpoint::writer(const Call& call,
                                                          const protocol::GenerationFields& fields,
                                                          bool chat) const {
  const ServedModel& model = model_of(call);
  protocol::ResponseHead head{make_id(chat ? "chatcmpl-" : "cmpl-"),
                              unix_seconds(),
                              reply_name(model, fields),
                              model.fingerprint,
                              {}};
  return [head = std::move(head), chat,
          usage = fields.include_usage](const std::vector<protocol::Warning>& warnings) mutable {
    head.warnings = warnings;
    return protocol::openai_writer(head, chat, usage);
  };
}

void GenerationEndpoint::chat_completion(const CallPtr& call) {
  protocol::ChatRequest request;
  if (auto error = protocol::parse_chat(call->request.body, model_of(*call).defaults,
                                        context().limits, request)) {
    return respond(call, *error);
  }
  const MakeWriter make_writer = writer(*call, request, true);
  if (!request.conversation.id.empty()) return detach(call, std::move(request), make_writer);
  chat(call, std::move(request), make_writer);
}

void GenerationEndpoint::detach(const CallPtr& call, protocol::ChatRequest request,
                                const MakeWriter& make_writer) {
  if (context().detached == nullptr) {
    return respond(call, protocol::bad_field("This server keeps no conversations; leave out "
                                             "'conversation', or give it a state folder.",
                                             "conversation", "unsupported_value"));
  }
  if (call->stream->abandoned()) {  // before it began: that was how its client ended it
    return respond(call, protocol::ApiError{protocol::ErrorCode("cancelled", 499),
                                            "The request was cancelled."});
  }
  std::shared_ptr<DetachedAnswer> answer;
  const auto error = context().detached->begin(
      {call->owner(), request.conversation.id, request.conversation.message},
      reply_name(model_of(*call), request), call->stream, answer);
  if (error) return respond(call, *error);
  call->stream = answer->stream();
  chat(call, std::move(request),
       [answer, make_writer](const std::vector<protocol::Warning>& warnings) {
         answer->write_with(make_writer(warnings));
         return answer;
       });
}

void GenerationEndpoint::completion(const CallPtr& call) {
  protocol::CompletionRequest request;
  auto error = protocol::parse_completion(call->request.body, model_of(*call).defaults,
                                          context().limits, request);
  if (!error) error = check_model(*call, request.model);
  if (error) return respond(call, *error);
  const MakeWriter make_writer = writer(*call, request, false);
  complete(call, std::move(request), make_writer);
}

void GenerationEndpoint::llama_completion(const CallPtr& call) {
  const ServedModel& model = model_of(*call);
  protocol::CompletionRequest request;
  auto error = protocol::parse_llama_completion(call->request.body, model.defaults,
                                                context().limits, request);
  if (!error) error = check_model(*call, request.model);
  if (error) return respond(call, *error);
  const std::string name = reply_name(model, request);
  complete(call, std::move(request), [name](const std::vector<protocol::Warning>& /*warnings*/) {
    return protocol::llama_cpp_writer(make_id("cmpl-"), name);
  });
}

void GenerationEndpoint::complete(const CallPtr& call, protocol::CompletionRequest request,
                                  const MakeWriter& make_writer) {
  const bool compiles = request.format.kind != protocol::OutputFormat::Kind::kText;
  const auto wanted = std::make_shared<protocol::CompletionRequest>(std::move(request));
  run(call, compiles,
      [this, call, wanted, make_writer] { continue_prompts(call, *wanted, make_writer); });
}

void GenerationEndpoint::continue_prompts(const CallPtr& call, protocol::CompletionRequest& request,
                                          const MakeWriter& make_writer) {
  const ServedModel& model = model_of(*call);
  std::optional<protocol::ApiError> error;
  GenerationSpec spec;
  std::vector<protocol::Warning> warnings;
  for (protocol::Prompt& prompt : request.prompts) {
    const auto* text = std::get_if<std::string>(&prompt);
    const text::Tokenizer& tokenizer = model.tokenizer;
    std::vector<int32_t> tokens = text != nullptr ? tokenizer.encode_with_bos(*text, true)
                                                  : std::get<std::vector<int32_t>>(prompt);
    std::string echo;
    if (request.echo) echo = text != nullptr ? *text : lossy(tokenizer.decode(tokens, true));
    error = add_choices(request, *call, "prompt", std::move(tokens),
                        text::ReasoningSplitter::Start::kContent, echo, spec, warnings);
    if (error) return respond(call, *error);
  }
  const bool nothing = !request.max_tokens.first.empty() && request.max_tokens.second == 0;
  for (GenerationSpec::Choice& choice : spec.choices) {
    choice.request.prompt_logprobs = request.echo && (request.logprobs >= 0 || nothing);
  }
  error = constrain(*call, format_constraint(request.format), request.format.field, spec);
  if (error) return respond(call, *error);
  generate(call, request, std::move(spec), std::move(warnings), make_writer);
}

}  // namespace chimere::serving
