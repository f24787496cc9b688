// chimere odo: the orchestrator in front of another server.
#include <fmt/format.h>

#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/system.h"
#include "command.h"
#include "json.h"
#include "odo_host.h"
#include "orchestrator/upstream_model.h"
#include "protocol/chat_stream.h"
#include "protocol/requests.h"
#include "serving/access.h"
#include "serving/endpoints/orchestrated_chat.h"
#include "serving/http_server.h"
#include "serving/work_queue.h"

namespace chimere::app {
namespace {

using protocol::ApiError;

struct OdoFlags {
  std::string upstream;
  std::string key;
  std::string model;
  bool continues = false;
  int64_t port = 8081;
};

/// Chats with the orchestrator's model names are orchestrated; all else is passed on.
class OdoProxy final : public serving::HttpHandler {
 public:
  OdoProxy(std::shared_ptr<orchestrator::Upstream> upstream,
           protocol::ChatOrchestrator& orchestrator, OdoFlags flags, serving::AccessRules access)
      : upstream_(std::move(upstream)),
        orchestrator_(orchestrator),
        flags_(std::move(flags)),
        access_(std::move(access)),
        threads_(32, 256) {}

  std::optional<serving::HttpResponse> refuse(const serving::HttpHead& head) override {
    if (const auto error = serving::check_access(access_, head)) {
      return serving::error_response(*error, {}, protocol::ApiForm::kOpenAi);
    }
    return std::nullopt;
  }

  serving::Headers extra_headers(const serving::HttpHead& head) override {
    return serving::cors_headers(access_, head);
  }

  void handle(serving::HttpRequest request,
              std::shared_ptr<serving::ResponseStream> stream) override {
    const auto shared = std::make_shared<serving::HttpRequest>(std::move(request));
    if (!threads_.push([this, shared, stream] { answer(*shared, stream); })) {
      fail(stream, {"overloaded", "Too many requests wait.", "", 1});
    }
  }

  void stop() { threads_.stop(); }

 private:
  static void fail(const std::shared_ptr<serving::ResponseStream>& stream, const ApiError& error) {
    stream->respond(serving::error_response(error, {}, protocol::ApiForm::kOpenAi));
  }

  void answer(const serving::HttpRequest& request,
              const std::shared_ptr<serving::ResponseStream>& stream) {
    const serving::HttpHead& head = request.head;
    if (head.path == "/health") return stream->respond({200, R"({"status":"ok"})"});
    if (!head.path.starts_with("/v1/")) {
      return fail(stream, {"not_found", "This server has the paths below /v1 of its upstream."});
    }
    const std::string path = head.path.substr(3);
    if (head.method == "GET") {
      return path == "/models" ? list(stream) : pass_on_get(path, stream);
    }
    if (head.method != "POST") {
      return fail(stream, {"method_not_allowed", "This path accepts GET and POST."});
    }
    std::string name;
    if (const auto error = protocol::read_model_name(request.body, name)) {
      return fail(stream, *error);
    }
    const auto base = orchestrator_.model_of(name);
    if (base && path == "/chat/completions") return orchestrate(request, *base, stream);
    pass_on(path, request.body, stream);
  }

  void list(const std::shared_ptr<serving::ResponseStream>& stream) {
    const auto body = upstream_->get("/models");
    Json document = body.ok() ? Json::parse(*body, nullptr, false) : Json();
    if (!document.is_object() || !document["data"].is_array()) {
      return fail(stream, {"model_unavailable", "The upstream server lists no models.", "", 5});
    }
    for (const std::string& name : orchestrator_.names()) {
      document["data"].push_back(
          {{"id", name}, {"object", "model"}, {"created", 0}, {"owned_by", "chimere"}});
    }
    stream->respond({200, document.dump()});
  }

  void pass_on_get(const std::string& path,
                   const std::shared_ptr<serving::ResponseStream>& stream) {
    auto body = upstream_->get(path);
    if (!body.ok()) return fail(stream, {"model_unavailable", body.error().message, "", 5});
    stream->respond({200, *std::move(body)});
  }

  /// As it is, both ways.
  void pass_on(const std::string& path, const std::string& body,
               const std::shared_ptr<serving::ResponseStream>& stream) {
    const Json parsed = Json::parse(body, nullptr, false);
    const bool streams = parsed.is_object() && parsed.value("stream", Json(false)) == Json(true);
    std::string whole;
    bool begun = false;
    const auto error = upstream_->post(path, body, [&](std::string_view bytes) {
      if (!streams) {
        whole += bytes;
      } else {
        if (!std::exchange(begun, true)) stream->start_events({});
        stream->event(bytes);
      }
      return !stream->abandoned();
    });
    if (begun) return stream->end_events();
    if (error) return fail(stream, *error);
    stream->respond({200, std::move(whole)});
  }

  void orchestrate(const serving::HttpRequest& request, const std::string& base,
                   const std::shared_ptr<serving::ResponseStream>& stream) {
    protocol::ChatRequest chat;
    if (const auto error = protocol::parse_chat(request.body, upstream_->defaults(), {}, chat)) {
      return fail(stream, *error);
    }
    if (chat.n != 1) {
      return fail(stream, {"unsupported_value", "An orchestrated model gives one answer.", "n"});
    }
    const std::string model = !base.empty() ? base : flags_.model;
    protocol::ResponseHead response;
    response.id = serving::make_id("chatcmpl-");
    response.created = serving::unix_seconds();
    response.model = model;
    serving::OrchestratedChat::Parts parts;
    parts.stream = stream;
    parts.headers = extra_headers(request.head);
    parts.writer = protocol::openai_writer(std::move(response), true, chat.include_usage);
    parts.request = std::move(chat);
    orchestrator::UpstreamModel client(upstream_, model, flags_.continues,
                                       [stream] { return stream->abandoned(); });
    serving::OrchestratedChat(std::move(parts))
        .run(orchestrator_, client, [](const serving::GenerationReport&) {});
  }

  const std::shared_ptr<orchestrator::Upstream> upstream_;
  protocol::ChatOrchestrator& orchestrator_;
  const OdoFlags flags_;
  const serving::AccessRules access_;
  serving::WorkQueue threads_;
};

Status odo(const CommandLine& line, OdoFlags flags) {
  const Settings& s = line.settings;
  if (flags.upstream.empty()) {
    return invalid_argument(
        "Name the other server with --upstream, such as http://127.0.0.1:8080/v1.");
  }
  orchestrator::UpstreamOptions upstream_options;
  upstream_options.url = flags.upstream;
  upstream_options.key = flags.key;
  CHIMERE_TRY(const auto upstream, orchestrator::Upstream::create(std::move(upstream_options)));
  if (flags.model.empty()) {
    CHIMERE_TRY(const std::vector<std::string> models, upstream->models());
    flags.model = models.front();
  }
  std::mutex mutex;
  const ServeLog log = [&mutex](const serving::LogLine& event) {
    const std::scoped_lock lock(mutex);
    std::cerr << event.text() << '\n';
  };
  CHIMERE_TRY(const OdoHost host, make_odo_host(s, log));
  serving::HttpOptions http;
  http.port = static_cast<uint16_t>(flags.port);  // on loopback, because it has no API keys
  OdoProxy proxy(upstream, *host.orchestrator, flags, {.host = http.host});
  raise_open_file_limit();
  CHIMERE_TRY(const auto server, serving::HttpServer::create(http, proxy));
  const std::string url = fmt::format("http://{}:{}", http.host, server->port());
  if (line.json) {
    print_json({{"url", url}, {"model", flags.model}});
    std::cout.flush();
  }
  log(serving::LogLine("listening").add("url", url).add("model", flags.model));
  server->run([&] { server->stop(2); });
  proxy.stop();
  return {};
}

}  // namespace

void declare_odo(Command& app, CommandLine& line) {
  const auto flags = std::make_shared<OdoFlags>();
  Command command = add_command(
      app, line, "odo",
      "Improves the answers of another server: searches documents, plans and checks them",
      [&line, flags] { return odo(line, *flags); });
  command.option("--upstream", flags->upstream, "Its API, such as http://127.0.0.1:8080/v1");
  command.option("--upstream-key", flags->key, "API key for it");
  command.option("--upstream-model", flags->model, "The model to use; default: the first it lists");
  command.flag("--continues", flags->continues,
               "It continues a last message of the assistant, as `chimere serve` does");
  command.option("--port", flags->port, "Port to listen on, on 127.0.0.1; 0: any free port")
      .range(0, 65535)
      .show_default();
  add_settings(command, line, {SettingGroup::kCollections, SettingGroup::kStateFolder});
  declare_odo_check(command, line);
  declare_odo_explain(command, line);
}

}  // namespace chimere::app
