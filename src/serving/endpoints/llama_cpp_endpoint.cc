#include "serving/endpoints/llama_cpp_endpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/llama_cpp_writer.h"
#include "text/tokenizer.h"

namespace chimere::serving {
namespace {

using protocol::ApiError;

/// The tokens between which a model fills in.
struct InfillTokens {
  int32_t prefix = -1;
  int32_t suffix = -1;
  int32_t middle = -1;
  int32_t file = -1;  ///< before another file; -1: the vocabulary has none
};

int32_t first_of(const text::Tokenizer& tokenizer, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    const int32_t token = tokenizer.find(name);
    if (token >= 0) return token;
  }
  return -1;
}

/// By the names that models give them: Qwen and StarCoder, CodeLlama, DeepSeek, Granite, Codestral.
std::optional<InfillTokens> infill_tokens(const text::Tokenizer& tokenizer) {
  InfillTokens out;
  out.prefix = first_of(tokenizer, {"<|fim_prefix|>", "<fim_prefix>", "<fim-prefix>", "▁<PRE>",
                                    "<PRE>", "<｜fim▁begin｜>", "[PREFIX]"});
  out.suffix = first_of(tokenizer, {"<|fim_suffix|>", "<fim_suffix>", "<fim-suffix>", "▁<SUF>",
                                    "<SUF>", "<｜fim▁hole｜>", "[SUFFIX]"});
  out.middle = first_of(tokenizer, {"<|fim_middle|>", "<fim_middle>", "<fim-middle>", "▁<MID>",
                                    "<MID>", "<｜fim▁end｜>", "[MIDDLE]"});
  out.file = first_of(tokenizer, {"<|file_sep|>", "<file_sep>"});
  if (out.prefix < 0 || out.suffix < 0 || out.middle < 0) return std::nullopt;
  return out;
}

}  // namespace

void LlamaCppEndpoint::add_routes(Router& router) {
  router.add({"/props", "GET", "inference", [this](const CallPtr& call) { props(call); },
              ModelKind::kText});
  router.add(
      {"/slots", "GET", "metrics", [this](const CallPtr& call) { slots(call); }, ModelKind::kText});
  router.add({"/apply-template", "POST", "inference",
              [this](const CallPtr& call) { apply_template(call); }, ModelKind::kText});
  router.add({"/lora-adapters", "GET", "inference",
              [this](const CallPtr& call) { lora_adapters(call); }, ModelKind::kText});
  router.add({"/lora-adapters", "POST", "adapters",
              [this](const CallPtr& call) { set_lora_adapters(call); }, ModelKind::kText});
  router.add({"/infill", "POST", "inference", [this](const CallPtr& call) { infill(call); },
              ModelKind::kText});
}

void LlamaCppEndpoint::props(const CallPtr& call) {
  const ServedModel& model = model_of(*call);
  protocol::ServerProps out;
  out.model = model.id;
  out.version = version_;
  out.context = model.service.context();
  out.slots = model.slots;
  out.speculate = model.defaults.get(settings::kSpeculate);
  out.draft_model = model.draft_model;
  if (model.prompt_template.ok()) out.chat_template = model.prompt_template->source();
  const text::Tokenizer& tokenizer = model.tokenizer;
  if (tokenizer.bos() >= 0) out.bos = tokenizer.token_bytes(tokenizer.bos(), true);
  if (tokenizer.eos() >= 0) out.eos = tokenizer.token_bytes(tokenizer.eos(), true);
  respond(call, HttpResponse{200, protocol::props_response(out, model.defaults)});
}

void LlamaCppEndpoint::slots(const CallPtr& call) {
  const ServedModel& model = model_of(*call);
  const int64_t running = model.service.stats().engine.running;
  respond(call, HttpResponse{
                    200, protocol::slots_response(model.slots, running, model.service.context())});
}

void LlamaCppEndpoint::lora_adapters(const CallPtr& call) {
  std::vector<protocol::LoraEntry> entries;
  for (const engine::LoadedAdapter& a : model_of(*call).adapters->list()) {
    entries.push_back({a.name, a.path, static_cast<double>(a.scale)});
  }
  respond(call, HttpResponse{200, protocol::lora_response(entries)});
}

void LlamaCppEndpoint::set_lora_adapters(const CallPtr& call) {
  std::vector<protocol::LoraChoice> scales;
  if (auto error = protocol::parse_lora_scales(call->request.body, scales)) {
    return respond(call, *error);
  }
  std::vector<engine::AdapterChoice> choices;
  for (const protocol::LoraChoice& c : scales) {
    choices.push_back({c.name, c.id, static_cast<float>(c.scale)});
  }
  const Status set = model_of(*call).adapters->set_defaults(choices);
  if (!set.ok()) return respond(call, protocol::bad_field(set.error().message, "lora"));
  respond(call, HttpResponse{200, R"({"success":true})"});
}

void LlamaCppEndpoint::apply_template(const CallPtr& call) {
  protocol::ChatRequest request;
  auto error =
      protocol::parse_chat(call->request.body, model_of(*call).defaults, context().limits, request);
  if (!error) error = check_model(*call, request.model);
  Prepared prepared;
  if (!error) error = prepare(*call, request, prepared);
  if (error) return respond(call, *error);
  respond(call, HttpResponse{200, protocol::template_response(prepared.prompt.text)});
}

void LlamaCppEndpoint::infill(const CallPtr& call) {
  const ServedModel& model = model_of(*call);
  protocol::InfillRequest request;
  auto error =
      protocol::parse_infill(call->request.body, model.defaults, context().limits, request);
  if (!error) error = check_model(*call, request.model);
  if (error) return respond(call, *error);
  const text::Tokenizer& tokenizer = model.tokenizer;
  const auto special = infill_tokens(tokenizer);
  if (!special) {
    return respond(call, ApiError{"unsupported_value",
                                  "The vocabulary of '" + model.id +
                                      "' has no tokens for filling in; use a model that has them, "
                                      "or /v1/completions.",
                                  "input_prefix"});
  }
  std::vector<int32_t> prompt;
  const auto add = [&](const std::string& text) {
    const std::vector<int32_t> tokens = tokenizer.encode(text, false);
    prompt.insert(prompt.end(), tokens.begin(), tokens.end());
  };
  for (const auto& [filename, text] : request.extra) {
    if (special->file >= 0) {
      prompt.push_back(special->file);
      add(fmt::format("{}\n{}", filename, text));
    } else {
      add(text + "\n");
    }
  }
  prompt.push_back(special->prefix);
  add(request.prefix + request.prompt);
  prompt.push_back(special->suffix);
  add(request.suffix);
  prompt.push_back(special->middle);
  GenerationSpec spec;
  std::vector<protocol::Warning> warnings;
  error = add_choices(request, *call, "input_prefix", std::move(prompt),
                      text::ReasoningSplitter::Start::kContent, "", spec, warnings);
  if (error) return respond(call, *error);
  generate(call, request, std::move(spec), std::move(warnings),
           [&](const std::vector<protocol::Warning>& /*warnings*/) {
             return protocol::llama_cpp_writer(make_id("infill-"), reply_name(model, request));
           });
}

}  // namespace chimere::serving
