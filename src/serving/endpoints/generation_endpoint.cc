#include "serving/endpoints/generation_endpoint.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "protocol/responses.h"
#include "serving/output_constraint.h"
#include "text/tokenizer.h"

namespace chimere::serving {
namespace {

using protocol::ApiError;

/// Seed increment between the choices of a prompt, so that their random numbers differ.
constexpr uint64_t kSeedStep = 0x9e3779b97f4a7c15ULL;

ApiError too_long(int64_t tokens, int64_t context, const char* param) {
  return {"context_length_exceeded",
          "This model's maximum context length is " + std::to_string(context) +
              " tokens, and the prompt has " + std::to_string(tokens) +
              "; shorten it so that at least one token is left for the generation.",
          param};
}

/// A warning if the requested token limit exceeds what the prompt leaves of the context.
std::optional<protocol::Warning> clamped(const std::pair<std::string, int64_t>& asked,
                                         int64_t prompt, int64_t context) {
  if (asked.first.empty() || asked.second <= context - prompt) return std::nullopt;
  return protocol::Warning{asked.first, "'" + asked.first + "' is " + std::to_string(asked.second) +
                                            ", but a prompt of " + std::to_string(prompt) +
                                            " tokens leaves " + std::to_string(context - prompt) +
                                            " of the context's " + std::to_string(context) +
                                            "; the generation ends there at the latest."};
}

/// The control tokens among the markers of calls, sorted.
std::vector<int32_t> control_tokens(const text::Tokenizer& tokenizer,
                                    const text::ToolFormat& format) {
  std::vector<int32_t> out;
  for (const std::string& marker : format.markers()) {
    const int32_t token = tokenizer.find(marker);
    if (token >= 0 && tokenizer.is_control(token)) out.push_back(token);
  }
  std::ranges::sort(out);
  return out;
}

std::string lossy(const std::string& bytes) {
  text::StreamDecoder decoder;
  std::string out = decoder.push(bytes);
  return out + decoder.finish();
}

}  // namespace

void GenerationEndpoint::add_routes(Router& router) {
  router.add(
      {"/v1/chat/completions", "POST", "inference", [this](const CallPtr& call) { chat(call); }});
  router.add(
      {"/v1/completions", "POST", "inference", [this](const CallPtr& call) { completion(call); }});
}

std::optional<ApiError> GenerationEndpoint::add_choices(
    const protocol::GenerationFields& fields, const Call& call, std::vector<int32_t> tokens,
    protocol::ReasoningSplitter::Start start, const std::string& echo, GenerationSpec& spec) const {
  const int64_t context = model().service.context();
  const char* param = spec.chat ? "messages" : "prompt";
  const auto size = static_cast<int64_t>(tokens.size());
  if (size >= context) return too_long(size, context, param);
  if (tokens.empty()) return protocol::bad_field("The prompt has no tokens.", param);
  for (const int32_t token : tokens) {
    if (token >= model().tokenizer.n_tokens()) {
      return protocol::bad_field("The prompt contains token " + std::to_string(token) +
                                     ", but this model has only " +
                                     std::to_string(model().tokenizer.n_tokens()) + " tokens.",
                                 param);
    }
  }
  if (auto warning = clamped(fields.max_tokens, size, context); warning && spec.warnings.empty()) {
    spec.warnings.push_back(*std::move(warning));
  }
  auto made = model().make_request(fields.settings, call.owner(), fields.engram);
  if (!made.ok()) return protocol::from_engram(made.error());
  engine::Request& request = *made;
  request.stop = fields.stop;
  request.sampling.logprobs = static_cast<int32_t>(fields.logprobs);
  for (const auto& [id, bias] : fields.logit_bias) {
    if (id >= model().tokenizer.n_tokens()) {
      return protocol::bad_field(
          "'logit_bias' contains token " + std::to_string(id) + ", which this model does not have.",
          "logit_bias");
    }
    request.sampling.logit_bias.push_back({id, bias});
  }
  request.prompt = std::move(tokens);
  for (int64_t i = 0; i < fields.n; ++i) {
    if (i > 0 && request.sampling.auxiliary != nullptr) {
      // An auxiliary model object follows the text of a single choice.
      auto again = model().make_request(fields.settings, call.owner(), fields.engram);
      if (!again.ok()) return protocol::from_engram(again.error());
      request.sampling.auxiliary = std::move(again->sampling.auxiliary);
    }
    spec.choices.push_back({request, start, echo, i == 0});
    request.sampling.seed += kSeedStep;
  }
  return std::nullopt;
}

void GenerationEndpoint::generate(const CallPtr& call, const protocol::GenerationFields& fields,
                                  GenerationSpec spec) {
  spec.stream = fields.stream;
  spec.include_usage = fields.include_usage;
  spec.headers = context().responder.extra_headers(call->request.head);
  for (const protocol::Warning& w : spec.warnings) {
    spec.headers.emplace_back("X-Chimere-Warning", w.message);
  }
  std::make_shared<GenerationJob>(
      model(), call->stream, std::move(spec),
      [this, call](const GenerationReport& report) { context().responder.finish(call, report); })
      ->start();
}

/// Makes the calls in the generations visible.
void GenerationEndpoint::add_tools(const std::vector<protocol::Tool>& tools,
                                   GenerationSpec& spec) const {
  const text::ToolFormat& format = model().prompt_template->tool_format();
  // In gpt-oss's format all of a generation stands in channels.
  if (tools.empty() && format.style != text::ToolFormat::Style::kHarmony) return;
  spec.tools.emplace();
  spec.tools->format = format;
  for (const protocol::Tool& tool : tools) {
    spec.tools->definitions.push_back({tool.name, tool.description, tool.parameters});
  }
  const std::vector<int32_t> visible = control_tokens(model().tokenizer, format);
  for (GenerationSpec::Choice& choice : spec.choices) choice.request.visible_tokens = visible;
}

/// Restricts the generations. `param`: the field that asks for it.
std::optional<ApiError> GenerationEndpoint::constrain(
    const Result<std::optional<constraints::ConstraintSpec>>& wanted, const std::string& param,
    GenerationSpec& spec) const {
  const auto failed = [&](const Error& error) {
    const bool unsupported = error.code == Error::Code::kUnsupported;
    return unsupported ? ApiError{"unsupported_value", error.message, param}
                       : ApiError{"invalid_value", error.message, param};
  };
  if (!wanted.ok()) return failed(wanted.error());
  if (!*wanted) return std::nullopt;
  if (!model().compile_constraint) {
    return ApiError{"unsupported_value", "This server restricts no output.", param};
  }
  const auto compiled = model().compile_constraint(**wanted);
  if (!compiled.ok()) return failed(compiled.error());
  for (GenerationSpec::Choice& choice : spec.choices) choice.request.constraint = *compiled;
  return std::nullopt;
}

/// Schedules warm-ups of the prompt prefixes that the next turn can start with. Runs on a worker
/// thread, because rendering takes time.
void GenerationEndpoint::warmup_next_turn(NextTurn& turn, const std::string& owner,
                                          const protocol::Choice& answer) {
  model().service.warmup(owner, answer.tool_calls.empty()
                                    ? turn.prefixes(answer.content, answer.reasoning)
                                    : turn.prefixes_after_calls(answer));
}

void GenerationEndpoint::chat(const CallPtr& call) {
  protocol::ChatRequest request;
  auto error =
      protocol::parse_chat(call->request.body, model().defaults, context().limits, request);
  if (!error) error = check_model(request.model);
  if (error) return respond(call, *error);
  ChatInput input{.messages = std::move(request.messages),
                  .tools = request.tools,
                  .reasoning = request.settings.get(settings::kReasoning),
                  .template_kwargs = request.template_kwargs};
  // A model that must not call tools does not see them.
  if (request.tool_choice.kind == protocol::ToolChoice::Kind::kNone) input.tools.clear();
  auto prompt = chat_prompt(model(), input);
  if (!prompt.ok()) {
    return respond(call, ApiError{"template_error", prompt.error().message, "messages"});
  }
  GenerationSpec spec;
  error = add_choices(request, *call, std::move(prompt->tokens), prompt->start, "", spec);
  if (error) return respond(call, *error);
  add_tools(input.tools, spec);
  error = constrain(output_constraint(model(), request, prompt->start),
                    request.tools.empty() ? request.format.field : "tools", spec);
  if (error) return respond(call, *error);
  if (model().service.has_prefix_cache()) {
    for (GenerationSpec::Choice& choice : spec.choices) choice.request.warmup = false;
    const auto turn = std::make_shared<NextTurn>(model(), std::move(input));
    spec.on_choice = [this, turn, owner = call->owner()](const protocol::Choice& answer) {
      (void)context().workers.push(
          [this, turn, owner, answer = std::make_shared<protocol::Choice>(answer)] {
            warmup_next_turn(*turn, owner, *answer);
          });
    };
  }
  generate(call, request, std::move(spec));
}

void GenerationEndpoint::completion(const CallPtr& call) {
  protocol::CompletionRequest request;
  auto error =
      protocol::parse_completion(call->request.body, model().defaults, context().limits, request);
  if (!error) error = check_model(request.model);
  if (error) return respond(call, *error);
  GenerationSpec spec;
  spec.chat = false;
  for (protocol::Prompt& prompt : request.prompts) {
    const auto* text = std::get_if<std::string>(&prompt);
    const text::Tokenizer& tokenizer = model().tokenizer;
    std::vector<int32_t> tokens = text != nullptr ? tokenizer.encode_with_bos(*text, true)
                                                  : std::get<std::vector<int32_t>>(prompt);
    std::string echo;
    if (request.echo) echo = text != nullptr ? *text : lossy(tokenizer.decode(tokens, true));
    error = add_choices(request, *call, std::move(tokens),
                        protocol::ReasoningSplitter::Start::kContent, echo, spec);
    if (error) return respond(call, *error);
  }
  error = constrain(format_constraint(request.format), request.format.field, spec);
  if (error) return respond(call, *error);
  generate(call, request, std::move(spec));
}

}  // namespace chimere::serving
