#include "serving/endpoints/ollama_endpoint.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "serving/output_constraint.h"

namespace chimere::serving {

using protocol::ApiError;

namespace {

/// Downloads and copies that run at the same time, and that wait.
constexpr int kChanges = 2;
constexpr size_t kWaitingChanges = 16;

ApiError from_files(const Error& error) {
  switch (error.code) {
    case Error::Code::kNotFound:
      return {"model_not_found", error.message, "model"};
    case Error::Code::kCancelled:
      return {"cancelled", error.message};
    default:
      return protocol::from_engine(error);
  }
}

ApiError not_in_folder(const std::string& name) {
  return {"model_not_found", "The model '" + name.substr(0, 200) + "' is not in the model folder.",
          "model"};
}

}  // namespace

OllamaEndpoint::OllamaEndpoint(const EndpointContext& context, std::string version,
                               ModelFiles* files)
    : GeneratingEndpoint(context),
      version_(std::move(version)),
      files_(files),
      changes_(kChanges, kWaitingChanges) {}

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
  // They cost disk and network, which belong to those who run the server.
  router.add({"/api/pull", "POST", "admin", [this](const CallPtr& call) { pull(call); },
              ModelKind::kNone, kForm});
  router.add({"/api/delete", "DELETE", "admin", [this](const CallPtr& call) { remove(call); },
              ModelKind::kNone, kForm});
  router.add({"/api/copy", "POST", "admin", [this](const CallPtr& call) { copy(call); },
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
  auto model = find_any(request.model);
  if (!model) return respond(call, registry().missing(request.model, ModelKind::kText));
  respond(call, HttpResponse{200, protocol::ollama_show(describe(*model))});
}

std::optional<ModelStatus> OllamaEndpoint::find_any(const std::string& name) const {
  for (const ModelKind kind : {ModelKind::kText, ModelKind::kEmbedding, ModelKind::kReranking}) {
    if (auto model = registry().find(name, kind)) return model;
  }
  return std::nullopt;
}

std::optional<ModelDescription> OllamaEndpoint::find_own(const std::string& name) const {
  auto model = find_any(name);
  if (!model || model->about.has_adapter(name)) return std::nullopt;
  return std::move(model->about);
}

std::optional<ApiError> OllamaEndpoint::wait_for_model(const std::string& name,
                                                       bool present) const {
  constexpr auto kPeriod = std::chrono::milliseconds(50);
  constexpr int kPeriods = 200;
  const auto is_there = [&] {
    const auto model = find_any(name);
    return model && (present || model->about.id == name);
  };
  for (int i = 0; i < kPeriods; ++i) {
    if (is_there() == present) return std::nullopt;
    if (context().draining) return ApiError{"stopping", "This server is stopping.", "", 5};
    std::this_thread::sleep_for(kPeriod);
  }
  const std::string done = present ? "is in the folder, but cannot be served"
                                   : "is deleted, but the server has not read the folder again";
  return ApiError{"model_unavailable",
                  "The model '" + name + "' " + done + "; the server's log has the reason.",
                  "model"};
}

void OllamaEndpoint::change(const CallPtr& call, std::function<void()> work) {
  if (files_ == nullptr) {
    return respond(call,
                   ApiError{"unsupported_value",
                            "This server does not serve the models of the model folder; start "
                            "it with --models-memory, or with \"folder\": true in the "
                            "models file.",
                            "model"});
  }
  if (changes_.push(std::move(work))) return;
  respond(call, ApiError{"overloaded", "Too many changes of models wait.", "", 5});
}

void OllamaEndpoint::pull(const CallPtr& call) {
  protocol::PullRequest request;
  if (auto error = protocol::parse_ollama_pull(call->request.body, context().limits, request)) {
    return respond(call, *error);
  }
  if (find_any(request.model)) {
    const char* const type = request.stream ? "application/x-ndjson" : "application/json";
    return respond(call, HttpResponse{200, protocol::ollama_status("success") + "\n", type, {}});
  }
  change(call, [this, call, request] { download(call, request); });
}

void OllamaEndpoint::download(const CallPtr& call, const protocol::PullRequest& request) {
  ResponseStream& stream = *call->stream;
  if (request.stream) {
    stream.start_events(context().responder.extra_headers(*call), "application/x-ndjson");
    stream.event(protocol::ollama_status("pulling manifest") + "\n");
  }
  int64_t shown = -1;
  const Result<std::string> id = files_->pull(request.model, [&](int64_t bytes, int64_t total) {
    // A line for each percent.
    const int64_t percent = total > 0 ? bytes * 100 / total : 0;
    if (request.stream && percent != shown) {
      shown = percent;
      stream.event(protocol::ollama_pulling(request.model, bytes, total) + "\n");
    }
    return !stream.stopped() && !context().draining;
  });
  const std::optional<ApiError> error =
      id.ok() ? wait_for_model(*id, true) : from_files(id.error());
  if (!request.stream) {
    if (error) return respond(call, *error);
    return respond(call, HttpResponse{200, protocol::ollama_status("success")});
  }
  GenerationReport report;
  report.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - call->began).count();
  if (!error) {
    stream.event(protocol::ollama_status("success") + "\n");
  } else {
    report.status = error->status();
    report.outcome = error->code.name();
    stream.event(protocol::error_body(*error, protocol::ApiForm::kOllama) + "\n");
  }
  context().responder.finish(call, report);
  stream.end_events();
}

void OllamaEndpoint::remove(const CallPtr& call) {
  protocol::DeleteRequest request;
  if (auto error = protocol::parse_ollama_delete(call->request.body, context().limits, request)) {
    return respond(call, *error);
  }
  change(call, [this, call, name = request.model] {
    const auto model = find_own(name);
    if (!model) return respond(call, not_in_folder(name));
    if (model->configured) {
      return respond(call, ApiError{"model_in_use",
                                    "The flags or the models file of this server name the model '" +
                                        model->id + "'; start it without the model to delete it.",
                                    "model"});
    }
    const Status done = files_->remove(model->id);
    if (!done.ok()) return respond(call, from_files(done.error()));
    if (auto error = wait_for_model(model->id, false)) return respond(call, *error);
    respond(call, HttpResponse{200, ""});
  });
}

void OllamaEndpoint::copy(const CallPtr& call) {
  protocol::CopyRequest request;
  if (auto error = protocol::parse_ollama_copy(call->request.body, context().limits, request)) {
    return respond(call, *error);
  }
  change(call, [this, call, request] {
    const std::string& to = request.destination;
    if (find_any(to)) {
      return respond(call,
                     protocol::bad_field("There is a model '" + to + "' already; delete it first.",
                                         "destination"));
    }
    const auto model = find_own(request.source);
    if (!model || !model->in_folder) return respond(call, not_in_folder(request.source));
    const Status done = files_->copy(model->id, to);
    if (!done.ok()) return respond(call, from_files(done.error()));
    if (auto error = wait_for_model(to, true)) return respond(call, *error);
    respond(call, HttpResponse{200, ""});
  });
}

}  // namespace chimere::serving
