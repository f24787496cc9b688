// The two transports of MCP: a program's standard input and output, and streamable HTTP.
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/child_process.h"
#include "net/http_client.h"
#include "orchestrator/mcp/mcp_client.h"

namespace chimere::orchestrator {
namespace {

using TransportJson = nlohmann::ordered_json;
using Deadline = std::chrono::steady_clock::time_point;

constexpr size_t kMostMessage = size_t{8} << 20;

/// Whether a message is the response with this id.
bool answers(const TransportJson& message, int64_t id) {
  return message.is_object() && message.contains("id") && message["id"].is_number_integer() &&
         message["id"] == id && (message.contains("result") || message.contains("error"));
}

class StdioTransport final : public McpTransport {
 public:
  explicit StdioTransport(ChildProcess child) : child_(std::move(child)) {}

  Result<std::string> request(int64_t id, const std::string& message, Deadline deadline) override {
    CHIMERE_CHECK_OK(child_.write(message + "\n", deadline));
    while (true) {
      CHIMERE_TRY(const auto line, child_.read_line(kMostMessage, deadline));
      if (!line) return io_error("The program has ended.");
      const TransportJson parsed = TransportJson::parse(*line, nullptr, false);
      if (answers(parsed, id)) return *line;
      CHIMERE_CHECK_OK(reply(parsed, deadline));
    }
  }

  Status notify(const std::string& message, Deadline deadline) override {
    return child_.write(message + "\n", deadline);
  }

 private:
  /// Answers a request of the server: there is nothing here for it but a ping.
  Status reply(const TransportJson& message, Deadline deadline) {
    if (!message.is_object() || !message.contains("id") || !message.contains("method")) return {};
    TransportJson out = {{"jsonrpc", "2.0"}, {"id", message["id"]}};
    if (message["method"] == "ping") {
      out["result"] = TransportJson::object();
    } else {
      constexpr int kMethodUnknown = -32601;
      out["error"] = {{"code", kMethodUnknown}, {"message", "This client offers nothing."}};
    }
    return child_.write(out.dump(-1, ' ', false, TransportJson::error_handler_t::replace) + "\n",
                        deadline);
  }

  ChildProcess child_;
};

/// The `data` of complete events in a stream of server-sent events; what is left stays in `text`.
std::vector<std::string> take_events(std::string& text) {
  std::vector<std::string> out;
  size_t end = 0;
  while (true) {
    const size_t lf = text.find("\n\n");
    const size_t crlf = text.find("\r\n\r\n");
    if (lf == std::string::npos && crlf == std::string::npos) return out;
    end = std::min(lf, crlf);
    std::string_view event(text.data(), end);
    std::string data;
    while (!event.empty()) {
      std::string_view line = event.substr(0, event.find('\n'));
      event.remove_prefix(std::min(event.size(), line.size() + 1));
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.starts_with("data:")) continue;
      line.remove_prefix(5);
      if (line.starts_with(' ')) line.remove_prefix(1);
      if (!data.empty()) data += '\n';
      data += line;
    }
    if (!data.empty()) out.push_back(std::move(data));
    text.erase(0, end + (crlf < lf ? 4 : 2));
  }
}

class HttpTransport final : public McpTransport {
 public:
  HttpTransport(std::unique_ptr<net::HttpClient> client, McpServerSpec spec)
      : client_(std::move(client)), spec_(std::move(spec)) {}

  Result<std::string> request(int64_t id, const std::string& message, Deadline deadline) override {
    std::optional<std::string> found;
    std::string unread;
    bool events = false;
    net::HttpPost post = message_of(message);
    post.on_start = [&](const net::HttpResponse& response) -> Status {
      events = response.header("content-type").starts_with("text/event-stream");
      if (const std::string session = response.header("mcp-session-id"); !session.empty()) {
        session_ = session;
      }
      return {};
    };
    post.on_data = [&](std::string_view bytes) -> Status {
      unread += bytes;
      if (unread.size() > kMostMessage) return invalid_data("The answer has more than 8 MiB.");
      if (std::chrono::steady_clock::now() > deadline) {
        return Error{Error::Code::kCancelled, "The server did not answer in time."};
      }
      if (!events) return {};
      for (std::string& event : take_events(unread)) {
        if (!answers(TransportJson::parse(event, nullptr, false), id)) continue;
        found = std::move(event);
        return Error{Error::Code::kCancelled, ""};  // what follows is of no interest
      }
      return {};
    };
    const net::HttpResult done = client_->post(post);
    if (found) return *found;
    if (!done.status.ok()) return done.status.error();
    if (!events && answers(TransportJson::parse(unread, nullptr, false), id)) return unread;
    return invalid_data("The answer is no response to the request.");
  }

  Status notify(const std::string& message, Deadline /*deadline*/) override {
    net::HttpPost post = message_of(message);
    post.on_start = [](const net::HttpResponse&) { return Status(); };
    post.on_data = [](std::string_view) { return Status(); };
    return client_->post(post).status;
  }

  void set_version(const std::string& version) override { version_ = version; }

 private:
  net::HttpPost message_of(const std::string& message) const {
    net::HttpPost post;
    post.url = spec_.url;
    post.headers = spec_.headers;
    post.headers.emplace_back("Content-Type: application/json");
    post.headers.emplace_back("Accept: application/json, text/event-stream");
    if (!session_.empty()) post.headers.push_back("Mcp-Session-Id: " + session_);
    if (!version_.empty()) post.headers.push_back("MCP-Protocol-Version: " + version_);
    post.body = message;
    return post;
  }

  const std::unique_ptr<net::HttpClient> client_;
  const McpServerSpec spec_;
  std::string session_;
  std::string version_;
};

/// The variables that programs need, and nothing secret.
std::vector<std::string> basic_environment() {
  std::vector<std::string> out;
  for (const char* name : {"PATH", "HOME", "LANG", "TMPDIR"}) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): never set here
    if (const char* const value = std::getenv(name)) out.push_back(std::string(name) + "=" + value);
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<McpTransport>> open_mcp_transport(const McpServerSpec& spec) {
  if (!spec.command.empty()) {
    ChildCommand command;
    command.words = spec.command;
    command.environment = basic_environment();
    command.environment.insert(command.environment.end(), spec.environment.begin(),
                               spec.environment.end());
    CHIMERE_TRY(ChildProcess child, ChildProcess::start(command));
    return std::unique_ptr<McpTransport>(std::make_unique<StdioTransport>(std::move(child)));
  }
  if (net::origin_of(spec.url).empty()) {
    return invalid_argument("'" + spec.url + "' is not an http or https address.");
  }
  net::HttpClientOptions options;
  options.policy.any_address = true;  // the operator names it
  options.policy.max_body_bytes = int64_t{64} << 20;
  constexpr double kMostSeconds = 60;
  options.policy.total_seconds = kMostSeconds;
  CHIMERE_TRY(auto client, net::HttpClient::create(std::move(options)));
  return std::unique_ptr<McpTransport>(std::make_unique<HttpTransport>(std::move(client), spec));
}

}  // namespace chimere::orchestrator
