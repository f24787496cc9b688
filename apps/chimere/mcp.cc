// chimere mcp: tools for another program, over standard input and output or over HTTP.
#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "collection_service.h"
#include "command.h"
#include "json.h"
#include "orchestrator/mcp/mcp_server.h"
#include "serving/access.h"
#include "serving/generation_job.h"
#include "serving/http_server.h"
#include "serving/work_queue.h"

namespace chimere::app {
namespace {

struct McpFlags {
  std::vector<std::string> collections;
  int64_t port = -1;
};

/// The transport "streamable HTTP" without sessions: each message is a POST of its own.
class McpHttp final : public serving::HttpHandler {
 public:
  McpHttp(orchestrator::McpServer& server, serving::AccessRules access)
      : server_(server), access_(std::move(access)), threads_(4, 256) {}

  std::optional<serving::HttpResponse> refuse(const serving::HttpHead& head) override {
    if (const auto error = serving::check_access(access_, head)) {
      return serving::error_response(*error, {}, protocol::ApiForm::kOpenAi);
    }
    if (head.path != "/mcp") {
      return serving::error_response({"not_found", "The server's path is /mcp."}, {},
                                     protocol::ApiForm::kOpenAi);
    }
    if (head.method != "POST") {  // a GET would open a stream of the server's own messages
      return serving::error_response({"method_not_allowed", "This path accepts POST."},
                                     {{"Allow", "POST"}}, protocol::ApiForm::kOpenAi);
    }
    return std::nullopt;
  }

  serving::Headers extra_headers(const serving::HttpHead& head) override {
    return serving::cors_headers(access_, head);
  }

  void handle(serving::HttpRequest request,
              std::shared_ptr<serving::ResponseStream> stream) override {
    const auto shared = std::make_shared<serving::HttpRequest>(std::move(request));
    const bool taken = threads_.push([this, shared, stream] {
      const std::string version(shared->head.header("mcp-protocol-version"));
      if (!version.empty() && !orchestrator::McpServer::speaks(version)) {
        return stream->respond(serving::error_response(
            {"invalid_value", "This server does not speak MCP '" + version.substr(0, 40) + "'."},
            {}, protocol::ApiForm::kOpenAi));
      }
      auto response = server_.handle(shared->body);
      if (!response) return stream->respond({202, "", "text/plain"});
      stream->respond({200, *std::move(response)});
    });
    if (!taken) {
      stream->respond(serving::error_response({"overloaded", "Too many requests wait.", "", 1}, {},
                                              protocol::ApiForm::kOpenAi));
    }
  }

  void stop() { threads_.stop(); }

 private:
  orchestrator::McpServer& server_;
  const serving::AccessRules access_;
  serving::WorkQueue threads_;
};

Status serve_http(const CommandLine& line, orchestrator::McpServer& server, int64_t port) {
  serving::HttpOptions http;
  http.port = static_cast<uint16_t>(port);  // on loopback, because it has no API keys
  McpHttp handler(server, {.host = http.host});
  CHIMERE_TRY(const auto listener, serving::HttpServer::create(http, handler));
  const std::string url = fmt::format("http://{}:{}/mcp", http.host, listener->port());
  if (line.json) {
    print_json({{"url", url}});
    std::cout.flush();
  } else {
    std::cerr << url << '\n';
  }
  listener->run([&] { listener->stop(2); });
  handler.stop();
  return {};
}

Status mcp(const CommandLine& line, const McpFlags& flags) {
  CHIMERE_TRY(const auto service, CollectionService::create(line.settings));
  const auto passages = service->passages();
  orchestrator::ToolBox box;
  for (auto& tool : orchestrator::built_in_tools()) (void)box.add(std::move(tool));
  std::vector<std::string> names = {"calculate", "time"};
  if (!flags.collections.empty()) names.insert(names.end(), {"search", "read"});
  orchestrator::McpServer server(box, std::move(names), {"", flags.collections, passages.get()},
                                 CHIMERE_VERSION);
  if (flags.port >= 0) return serve_http(line, server, flags.port);
  std::string message;
  while (std::getline(std::cin, message)) {
    if (is_blank(message)) continue;
    if (const auto response = server.handle(message)) {
      std::cout << *response << '\n' << std::flush;
    }
  }
  return {};
}

}  // namespace

void declare_mcp(Command& app, CommandLine& line) {
  const auto flags = std::make_shared<McpFlags>();
  Command command =
      add_command(app, line, "mcp",
                  "Offers collections to other programs as tools (MCP, the Model Context Protocol)",
                  [&line, flags] { return mcp(line, *flags); });
  command
      .option("--collection", flags->collections,
              "A collection that `search` and `read` may use; may be repeated")
      .one_value()
      .repeatable();
  command
      .option("--port", flags->port,
              "Listen on 127.0.0.1 at this port, path /mcp, instead of using standard input and "
              "output; 0: any "
              "free port")
      .range(0, 65535);
  add_settings(command, line, {SettingGroup::kCollections});
}

}  // namespace chimere::app
