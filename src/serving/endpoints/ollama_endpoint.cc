#include "serving/endpoints/ollama_endpoint.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "serving/output_constraint.h"

namespace chimere::serving {

using protocol::ApiError;

void OllamaEndpoint::add_routes(Router& router) {
  constexpr auto kForm = protocol::ApiForm::kOllama;
  router.add({"/api/chat", "POST", "inference", [this](const CallPtr& call) { talk(call, true); },
              ModelKind::kText, kForm});
  router.add({"/api/generate", "POST", "inference",
              [this](const CallPtr& call) { talk(call, false); }, ModelKind::kText, kForm});
  router.add({"/api/tags", "GET", "inference", [this](const CallPtr& call) { list(call, false); },
              ModelKind::kNone, kForm});
  router.add({"/api/ps", "GET", "inference", [this](const CallPtr& call) { list(call, true); },
              ModelKind::kNone, kForm});
  router.add({"/api/show", "POST", "inference", [this](const CallPtr& call) { show(call); },
              ModelKind::kNone, kForm});
  router.add({"/api/version", "GET", "",
              [this](const CallPtr& call) {
                respond(call, HttpResponse{200, "{\"version\":\"" + version_ + "\"}"});
              },
              ModelKind::kNone, kForm});
}

void OllamaEndpoint::talk(const CallPtr& call, bool as_chat) {
  const ServedModel& model = model_of(*call);
  protocol::OllamaRequest request;
  if (auto error = protocol::parse_ollama(call->request.body, model.defaults, context().limits,
                                          as_chat, request)) {
    return respond(call, *error);
  }
  if (request.keep_alive) {
    registry().keep_alive(model.id, std::chrono::seconds(*request.keep_alive));
  }
  if (request.messages.empty() && request.prompt.empty()) {
    if (auto error = check_model(*call, request.model)) return respond(call, *error);
    const char* reason = request.keep_alive == 0 ? "unload" : "load";
    return respond(call, HttpResponse{200, protocol::ollama_loaded(model.id, as_chat, reason)});
  }
  const std::string name = reply_name(model, request);
  const MakeWriter make_writer = [=](const std::vector<protocol::Warning>& /*warnings*/) {
    return protocol::ollama_writer(make_id("ollama-"), name, as_chat);
  };
  if (request.raw) {
    const bool compiles = request.format.kind != protocol::OutputFormat::Kind::kText;
    return run(call, compiles,
               [this, call, request, make_writer] { continue_raw(call, request, make_writer); });
  }
  chat(call, std::move(request), make_writer);
}

void OllamaEndpoint::continue_raw(const CallPtr& call, const protocol::OllamaRequest& request,
                                  const MakeWriter& make_writer) {
  auto error = check_model(*call, request.model);
  GenerationSpec spec;
  std::vector<protocol::Warning> warnings;
  if (!error) {
    error = add_choices(request, *call, "prompt",
                        model_of(*call).tokenizer.encode_with_bos(request.prompt, true),
                        text::ReasoningSplitter::Start::kContent, "", spec, warnings);
  }
  if (!error) {
    error = constrain(*call, format_constraint(request.format), request.format.field, spec);
  }
  if (error) return respond(call, *error);
  generate(call, request, std::move(spec), std::move(warnings), make_writer);
}

protocol::OllamaModel OllamaEndpoint::describe(const ModelStatus& model) {
  const ModelDescription& about = model.about;
  protocol::OllamaModel out;
  out.id = about.id;
  out.created = about.created;
  // Clients only compare digests.
  Sha256 sha;
  sha.add(about.id + "\n" + std::to_string(about.file_bytes));
  out.digest = sha.finish();
  out.bytes = about.file_bytes;
  out.parameters = about.parameters;
  out.architecture = about.architecture;
  out.quantization = about.quantization;
  out.context = about.trained_context;
  out.memory = model.bytes;
  if (model.expires) out.expires = std::chrono::system_clock::to_time_t(*model.expires);
  if (about.kind != ModelKind::kText) {
    out.capabilities = {"embedding"};
    return out;
  }
  out.capabilities = {"completion"};
  const ServedModel* const text = model.loaded.text.get();
  if (text == nullptr) return out;
  out.context = text->service.context();
  if (text->prompt_template.ok()) {
    out.chat_template = text->prompt_template->source();
    out.capabilities.emplace_back("tools");
    if (text->prompt_template->format().reasons) out.capabilities.emplace_back("thinking");
  }
  return out;
}

void OllamaEndpoint::list(const CallPtr& call, bool loaded) {
  std::vector<protocol::OllamaModel> models;
  for (const ModelStatus& model : registry().list()) {
    if (!loaded || model.state == ModelStatus::State::kReady) models.push_back(describe(model));
  }
  respond(call,
          HttpResponse{200, loaded ? protocol::ollama_ps(models) : protocol::ollama_tags(models)});
}

void OllamaEndpoint::show(const CallPtr& call) {
  protocol::ShowRequest request;
  if (auto error = protocol::parse_ollama_show(call->request.body, context().limits, request)) {
    return respond(call, *error);
  }
  auto model = registry().find(request.model, ModelKind::kText);
  if (!model) model = registry().find(request.model, ModelKind::kEmbedding);
  if (!model) return respond(call, registry().missing(request.model, ModelKind::kText));
  respond(call, HttpResponse{200, protocol::ollama_show(describe(*model))});
}

}  // namespace chimere::serving
