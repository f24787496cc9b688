#include "orchestrator/upstream_model.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "net/url.h"
#include "protocol/chat_stream.h"

namespace chimere::orchestrator {
namespace {

constexpr size_t kMostIdle = 16;
constexpr size_t kMostError = 64 << 10;
constexpr int64_t kMostBody = 256 << 20;
/// A model may think for long before its first token.
constexpr double kStallSeconds = 600;

}  // namespace

Result<std::shared_ptr<Upstream>> Upstream::create(UpstreamOptions options) {
  while (options.url.ends_with('/')) options.url.pop_back();
  if (!net::parse_url(options.url)) {
    return invalid_argument("'" + options.url +
                            "' is not an http or https address, such as http://127.0.0.1:8080/v1.");
  }
  std::shared_ptr<Upstream> out(new Upstream(std::move(options)));
  CHIMERE_TRY(auto first, out->client());
  out->give_back(std::move(first));
  return out;
}

Result<std::unique_ptr<net::HttpClient>> Upstream::client() {
  {
    const std::scoped_lock lock(mutex_);
    if (!idle_.empty()) {
      auto out = std::move(idle_.back());
      idle_.pop_back();
      return out;
    }
  }
  net::HttpClientOptions options;
  // The operator named this address; nothing that a model or document says reaches it.
  options.policy.any_address = true;
  options.policy.max_body_bytes = kMostBody;
  options.policy.stall_seconds = kStallSeconds;
  options.token = options_.key;
  options.token_origin = net::parse_url(options_.url)->origin();
  return net::HttpClient::create(std::move(options));
}

void Upstream::give_back(std::unique_ptr<net::HttpClient> client) {
  const std::scoped_lock lock(mutex_);
  if (idle_.size() < kMostIdle) idle_.push_back(std::move(client));
}

std::optional<protocol::ApiError> Upstream::post(
    const std::string& path, const std::string& body,
    const std::function<bool(std::string_view)>& on_data) {
  auto http = client();
  if (!http.ok()) return protocol::ApiError{"model_unavailable", http.error().message, "", 5};
  net::HttpPost request;
  request.url = options_.url + path;
  request.headers = {"Content-Type: application/json"};
  request.body = body;
  std::string refusal;
  bool ended = false;
  request.on_data = [&](std::string_view data) -> Status {
    if (on_data(data)) return {};
    ended = true;
    return Error{Error::Code::kCancelled, "The transfer was ended."};
  };
  request.on_error_data = [&](std::string_view data) {
    if (refusal.size() + data.size() <= kMostError) refusal += data;
  };
  const net::HttpResult result = (*http)->post(request);
  give_back(*std::move(http));
  if (ended) return std::nullopt;
  if (!result.status.ok()) {
    return protocol::ApiError{"model_unavailable", result.status.error().message, "", 5};
  }
  if (result.response.status < 200 || result.response.status > 299) {
    return protocol::error_of_body(static_cast<int>(result.response.status), refusal);
  }
  return std::nullopt;
}

Result<std::string> Upstream::get(const std::string& path) {
  CHIMERE_TRY(auto http, client());
  std::string body;
  net::HttpGet request;
  request.url = options_.url + path;
  request.on_data = [&](std::string_view data) -> Status {
    body += data;
    return {};
  };
  const net::HttpResult result = http->get(request);
  give_back(std::move(http));
  CHIMERE_CHECK_OK(result.status);
  if (result.response.status != 200) {
    return io_error("The server " + options_.url + " answered " + path + " with status " +
                    std::to_string(result.response.status) + ".");
  }
  return body;
}

Result<std::vector<std::string>> Upstream::models() {
  CHIMERE_TRY(const std::string body, get("/models"));
  const auto document = nlohmann::json::parse(body, nullptr, false);
  std::vector<std::string> out;
  if (document.is_object() && document.contains("data") && document["data"].is_array()) {
    for (const auto& model : document["data"]) {
      if (model.is_object() && model.contains("id") && model["id"].is_string()) {
        out.push_back(model["id"].get<std::string>());
      }
    }
  }
  if (out.empty()) return invalid_data("The server " + options_.url + " lists no models.");
  return out;
}

std::optional<protocol::ApiError> UpstreamModel::chat(const protocol::ChatRequest& request,
                                                      const OnPiece& on_piece,
                                                      protocol::ChatReply& out) {
  using Clock = std::chrono::steady_clock;
  out = {};
  const Clock::time_point began = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - began).count(); };
  protocol::ChatRequest wanted = request;
  wanted.model = name_;
  bool more = true;
  protocol::ChatStreamReader::Events events;
  events.piece = [&](const protocol::Choice& part) {
    if (out.timings.prompt == 0) out.timings.prompt = seconds();
    protocol::append_piece(part, out.choice);
    if (more && on_piece) more = on_piece(part);
  };
  events.usage = [&](const protocol::Usage& usage) { out.usage = usage; };
  protocol::ChatStreamReader reader(std::move(events));
  std::optional<protocol::ApiError> wrong;
  bool gone = false;
  auto error =
      server_->post("/chat/completions", protocol::chat_request_body(wanted, server_->defaults()),
                    [&](std::string_view bytes) {
                      wrong = reader.push(bytes);
                      gone = abandoned_ && abandoned_();
                      return !wrong && more && !gone;
                    });
  out.timings.total = seconds();
  out.timings.decode = out.timings.total - out.timings.prompt;
  if (gone) return protocol::ApiError{"cancelled", "The request was cancelled.", "", 5};
  if (error) return error;
  if (wrong) return wrong;
  if (more && out.choice.finish_reason.empty()) {
    return protocol::ApiError{"engine_error", "The server's stream ended before the answer did."};
  }
  return std::nullopt;
}

}  // namespace chimere::orchestrator
