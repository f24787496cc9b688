#include "serving/endpoints/generating_endpoint.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "protocol/responses.h"
#include "serving/endpoints/local_model.h"
#include "serving/endpoints/orchestrated_chat.h"
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

}  // namespace

std::optional<std::string> cache_scope(const std::string& owner, const std::string& key) {
  if (key.empty()) return std::nullopt;
  // The name of an owner has no line break: scopes of different owners are different.
  return owner + "\n" + key;
}

std::optional<ApiError> GeneratingEndpoint::prepare(const Call& call,
                                                    protocol::ChatRequest& request,
                                                    Prepared& out) const {
  out.input = {.messages = std::move(request.messages),
               .tools = request.tools,
               .reasoning = request.settings.get(settings::kReasoning),
               .template_kwargs = request.template_kwargs};
  // A model that must not call tools does not see them.
  if (request.tool_choice.kind == protocol::ToolChoice::Kind::kNone) out.input.tools.clear();
  if (take_continued(model_of(call), out.input)) {
    (void)request.settings.set(settings::kReasoning, "none", "reasoning");
  }
  protocol::VolatileLines lines(context().volatile_rules, out.input.messages);
  out.volatile_lines = lines.rules();
  ChatInput shown = out.input;
  lines.append_moved(shown.messages);
  auto prompt = chat_prompt(model_of(call), shown);
  if (!prompt.ok()) return ApiError{"template_error", prompt.error().message, "messages"};
  out.prompt = *std::move(prompt);
  return std::nullopt;
}

std::optional<ApiError> GeneratingEndpoint::add_choices(
    const protocol::GenerationFields& fields, const Call& call, const char* param,
    std::vector<int32_t> tokens, text::ReasoningSplitter::Start start, const std::string& echo,
    GenerationSpec& spec, std::vector<protocol::Warning>& warnings) const {
  const ServedModel& model = model_of(call);
  const int64_t context = model.service.context();
  const auto size = static_cast<int64_t>(tokens.size());
  if (size >= context) return too_long(size, context, param);
  if (tokens.empty()) return protocol::bad_field("The prompt has no tokens.", param);
  for (const int32_t token : tokens) {
    if (token >= model.tokenizer.n_tokens()) {
      return protocol::bad_field("The prompt contains token " + std::to_string(token) +
                                     ", but this model has only " +
                                     std::to_string(model.tokenizer.n_tokens()) + " tokens.",
                                 param);
    }
  }
  if (auto warning = clamped(fields.max_tokens, size, context); warning && warnings.empty()) {
    warnings.push_back(*std::move(warning));
  }
  auto made = model.make_request(fields.settings, call.owner(), fields.engram);
  if (!made.ok()) return protocol::from_engram(made.error());
  engine::Request& request = *made;
  request.stop = fields.stop;
  request.reasoning = start;
  request.min_tokens = static_cast<int32_t>(fields.min_tokens);
  if (auto error = choose_adapters(model, fields, request.adapters)) return error;
  request.use_cache = fields.use_cache;
  request.shared_cache = cache_scope(call.owner(), fields.cache_key);
  request.sampling.logprobs = static_cast<int32_t>(fields.logprobs);
  for (const auto& [id, bias] : fields.logit_bias) {
    if (id >= model.tokenizer.n_tokens()) {
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
      auto again = model.make_request(fields.settings, call.owner(), fields.engram);
      if (!again.ok()) return protocol::from_engram(again.error());
      request.sampling.auxiliary = std::move(again->sampling.auxiliary);
    }
    spec.choices.push_back({request, start, echo, i == 0});
    request.sampling.seed += kSeedStep;
  }
  return std::nullopt;
}

void GeneratingEndpoint::warn(Call& call, const protocol::GenerationFields& fields) const {
  note(call, fields.notes);
  if (!call.orchestrator.empty() || fields.model.empty()) return;
  const std::string& id = model_of(call).id;
  if (fields.model == id || registry().find(fields.model, ModelKind::kText)) return;
  call.warnings.push_back({"model", "This server has no model '" + fields.model.substr(0, 200) +
                                        "'; '" + id + "' answers."});
}

void GeneratingEndpoint::generate(const CallPtr& call, const protocol::GenerationFields& fields,
                                  GenerationSpec spec, std::vector<protocol::Warning> warnings,
                                  const MakeWriter& make_writer) {
  call->warnings = std::move(warnings);
  warn(*call, fields);
  spec.stream = fields.stream;
  spec.form = call->form;
  for (auto& header : context().responder.extra_headers(*call)) {
    spec.headers.push_back(std::move(header));
  }
  spec.writer = make_writer(call->warnings);
  spec.on_error = call->on_error;
  std::make_shared<GenerationJob>(
      model_of(*call), call->stream, std::move(spec),
      [this, call](const GenerationReport& report) { context().responder.finish(call, report); })
      ->start();
}

void GeneratingEndpoint::add_tools(const Call& call, const std::vector<text::Tool>& tools,
                                   GenerationSpec& spec) const {
  const ServedModel& model = model_of(call);
  const text::ToolFormat& format = model.prompt_template->tool_format();
  // In gpt-oss's format all of a generation stands in channels.
  const bool harmony = format.style == text::ToolFormat::Style::kHarmony;
  if (tools.empty() && !harmony) return;
  spec.tools.emplace();
  spec.tools->format = format;
  spec.tools->definitions = tools;
  const std::vector<int32_t> visible = control_tokens(model.tokenizer, format);
  for (GenerationSpec::Choice& choice : spec.choices) {
    choice.request.visible_tokens = visible;
    if (!harmony) continue;
    // All but the last channel is reasoning or calls.
    choice.request.reasoning = text::ReasoningSplitter::Start::kThinking;
    choice.request.reasoning_tags = {.close = {.text = std::string(text::kHarmonyAnswer)}};
  }
}

std::optional<ApiError> GeneratingEndpoint::constrain(
    const Call& call, const Result<std::optional<constraints::ConstraintSpec>>& wanted,
    const std::string& param, GenerationSpec& spec) const {
  const auto failed = [&](const Error& error) {
    const bool unsupported = error.code == Error::Code::kUnsupported;
    return unsupported ? ApiError{"unsupported_value", error.message, param}
                       : ApiError{"invalid_value", error.message, param};
  };
  if (!wanted.ok()) return failed(wanted.error());
  if (!*wanted) return std::nullopt;
  const ServedModel& model = model_of(call);
  if (!model.compile_constraint) {
    return ApiError{"unsupported_value", "This server restricts no output.", param};
  }
  const auto compiled = model.compile_constraint(**wanted, [this] { context().compilers.yield(); });
  if (!compiled.ok()) return failed(compiled.error());
  for (GenerationSpec::Choice& choice : spec.choices) choice.request.constraint = *compiled;
  return std::nullopt;
}

std::string GeneratingEndpoint::named_adapter(const ServedModel& model, std::string name) {
  constexpr std::string_view kLatest = ":latest";
  if (name.ends_with(kLatest)) name.resize(name.size() - kLatest.size());
  if (name.starts_with(model.id + ":")) name.erase(0, model.id.size() + 1);
  return name != model.id && model.adapters->has(name) ? name : "";
}

std::string GeneratingEndpoint::reply_name(const ServedModel& model,
                                           const protocol::GenerationFields& fields) {
  return named_adapter(model, fields.model).empty() ? model.id : fields.model;
}

std::optional<ApiError> GeneratingEndpoint::choose_adapters(
    const ServedModel& model, const protocol::GenerationFields& fields,
    engine::RequestAdapters& out) {
  const std::string name = named_adapter(model, fields.model);
  const bool named = !name.empty();
  if (!fields.lora && !named) {
    out = model.adapters->defaults();
    return std::nullopt;
  }
  if (fields.lora && named) {
    return protocol::bad_field(
        "The model's name says an adapter, and 'lora' says others; give one of them.", "lora",
        "conflicting_fields");
  }
  std::vector<engine::AdapterChoice> choices;
  if (fields.lora) {
    for (const protocol::LoraChoice& c : *fields.lora) {
      choices.push_back({c.name, c.id, static_cast<float>(c.scale)});
    }
  }
  auto chosen = named ? model.adapters->only(name) : model.adapters->choose(choices);
  if (!chosen.ok()) return protocol::bad_field(chosen.error().message, "lora");
  out = *std::move(chosen);
  return std::nullopt;
}

void GeneratingEndpoint::warmup_next_turn(const Call& call, NextTurn& turn,
                                          const std::optional<std::string>& scope,
                                          const engine::RequestAdapters& adapters,
                                          engine::Speculation speculation,
                                          const protocol::Choice& answer) const {
  model_of(call).service.warmup(call.owner(),
                                answer.tool_calls.empty()
                                    ? turn.prefixes(answer.content, answer.reasoning)
                                    : turn.prefixes_after_calls(answer),
                                scope, adapters, speculation);
}

void GeneratingEndpoint::chat(const CallPtr& call, protocol::ChatRequest request,
                              const MakeWriter& make_writer, OnEnd on_end) {
  if (!call->orchestrator.empty()) {
    return orchestrate(call, std::move(request), make_writer, std::move(on_end));
  }
  const bool compiles =
      !request.tools.empty() || request.format.kind != protocol::OutputFormat::Kind::kText;
  const auto wanted = std::make_shared<protocol::ChatRequest>(std::move(request));
  run(call, compiles, [this, call, wanted, make_writer, on_end = std::move(on_end)] {
    answer(call, std::move(*wanted), make_writer, on_end);
  });
}

void GeneratingEndpoint::run(const CallPtr& call, bool compiles, std::function<void()> work) const {
  if (!compiles) return work();
  if (context().compilers.push(std::move(work))) return;
  respond(call, ApiError{"overloaded", "Too many requests with constraints wait.", "", 1});
}

void GeneratingEndpoint::answer(const CallPtr& call, protocol::ChatRequest request,
                                const MakeWriter& make_writer, OnEnd on_end) {
  if (auto error = check_model(*call, request.model)) return respond(call, *error);
  const ServedModel& model = model_of(*call);
  Prepared prepared;
  if (auto error = prepare(*call, request, prepared)) return respond(call, *error);
  GenerationSpec spec;
  std::vector<protocol::Warning> warnings;
  const auto start = prepared.prompt.start;
  auto error = add_choices(request, *call, "messages", std::move(prepared.prompt.tokens), start, "",
                           spec, warnings);
  if (error) return respond(call, *error);
  add_tools(*call, prepared.input.tools, spec);
  if (spec.tools) spec.tools->opened = prepared.prompt.opened;
  if (!prepared.prompt.opened.empty()) {  // the prompt has the header of the last channel
    for (GenerationSpec::Choice& choice : spec.choices) {
      choice.request.reasoning = text::ReasoningSplitter::Start::kContent;
    }
  }
  error = constrain(*call, output_constraint(model, request, prepared.prompt),
                    request.tools.empty() ? request.format.field : "tools", spec);
  if (error) return respond(call, *error);
  if (request.use_cache && model.service.has_prefix_cache()) {
    for (GenerationSpec::Choice& choice : spec.choices) choice.request.warmup = false;
    const text::ChatMessage before = prepared.input.continued.value_or(text::ChatMessage{});
    prepared.input.continued.reset();
    const auto turn = std::make_shared<NextTurn>(model, std::move(prepared.input));
    spec.on_choice =
        [this, call, turn, before, adapters = spec.choices.front().request.adapters,
         speculation = spec.choices.front().request.speculation,
         scope = cache_scope(call->owner(), request.cache_key)](const protocol::Choice& answer) {
          const auto whole = std::make_shared<protocol::Choice>(answer);
          whole->content.insert(0, before.content);
          whole->reasoning.insert(0, before.reasoning_content);
          (void)context().workers.push([this, call, turn, scope, adapters, speculation, whole] {
            warmup_next_turn(*call, *turn, scope, adapters, speculation, *whole);
          });
        };
  }
  for (const std::string& rule : prepared.volatile_lines) {
    spec.headers.emplace_back("X-Chimere-Volatile-Lines", rule);
  }
  spec.on_end = std::move(on_end);
  generate(call, request, std::move(spec), std::move(warnings), make_writer);
}

void GeneratingEndpoint::orchestrate(const CallPtr& call, protocol::ChatRequest request,
                                     const MakeWriter& make_writer, OnEnd on_end) {
  if (request.n != 1) {
    return respond(call, protocol::bad_field("The model '" + call->orchestrator +
                                                 "' gives one answer; set 'n' to 1.",
                                             "n", "unsupported_value"));
  }
  warn(*call, request);
  const auto job = std::make_shared<OrchestratedChat>(OrchestratedChat::Parts{
      call->stream, std::move(request), call->owner(), make_writer(call->warnings), call->form,
      context().responder.extra_headers(*call), std::move(on_end)});
  const auto model = std::make_shared<LocalModel>(
      call,
      [this](const CallPtr& part, protocol::ChatRequest wanted, const MakeWriter& writer) {
        chat(part, std::move(wanted), writer);
      },
      [stream = call->stream] { return stream->stopped(); });
  protocol::ChatOrchestrator& orchestrator = *context().orchestrator;
  if (!context().orchestrations->push([this, call, job, model, &orchestrator] {
        job->run(orchestrator, *model,
                 [&](const GenerationReport& report) { context().responder.finish(call, report); });
      })) {
    respond(call, ApiError{"overloaded", "Too many orchestrated chats run and wait.", "", 1});
  }
}

}  // namespace chimere::serving
