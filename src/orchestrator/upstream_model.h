// A model behind an OpenAI-compatible API, over src/net.
#ifndef CHIMERE_ORCHESTRATOR_UPSTREAM_MODEL_H_
#define CHIMERE_ORCHESTRATOR_UPSTREAM_MODEL_H_

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/http_client.h"
#include "protocol/orchestration.h"

namespace chimere::orchestrator {

struct UpstreamOptions {
  std::string url;    ///< of the API, such as http://127.0.0.1:8080/v1
  std::string key;    ///< sent as a bearer token to that server only; may be empty
  Settings defaults;  ///< settings that requests leave as they are here are not sent
};

/// The server. Thread-safe: each request uses a connection of its own, which is kept for later.
class Upstream {
 public:
  /// Errors: kInvalidArgument (no http or https address).
  static Result<std::shared_ptr<Upstream>> create(UpstreamOptions options);

  /// Posts to `path` ("/chat/completions"). `on_data` receives the body of a success and returns
  /// false to end the transfer. Errors: that of the server, or that it cannot be reached.
  std::optional<protocol::ApiError> post(const std::string& path, const std::string& body,
                                         const std::function<bool(std::string_view)>& on_data);
  /// The body of GET `path`.
  Result<std::string> get(const std::string& path);
  /// The names of its models. Errors: those of get(), and an answer that is no list of models.
  Result<std::vector<std::string>> models();
  const Settings& defaults() const { return options_.defaults; }

 private:
  explicit Upstream(UpstreamOptions options) : options_(std::move(options)) {}
  Result<std::unique_ptr<net::HttpClient>> client();
  void give_back(std::unique_ptr<net::HttpClient> client);

  const UpstreamOptions options_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<net::HttpClient>> idle_;
};

/// One model of the server.
class UpstreamModel final : public protocol::ModelClient {
 public:
  /// `name`: sent as the model. `continues`: the server continues a last message of the assistant.
  /// `abandoned`: polled; may be empty.
  UpstreamModel(std::shared_ptr<Upstream> server, std::string name, bool continues,
                std::function<bool()> abandoned = {})
      : server_(std::move(server)),
        name_(std::move(name)),
        continues_(continues),
        abandoned_(std::move(abandoned)) {}

  std::string id() const override { return name_; }
  bool continues() const override { return continues_; }
  std::optional<protocol::ApiError> chat(const protocol::ChatRequest& request,
                                         const OnPiece& on_piece,
                                         protocol::ChatReply& out) override;

 private:
  const std::shared_ptr<Upstream> server_;
  const std::string name_;
  const bool continues_;
  const std::function<bool()> abandoned_;
};

}  // namespace chimere::orchestrator

#endif  // CHIMERE_ORCHESTRATOR_UPSTREAM_MODEL_H_
