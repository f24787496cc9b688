// The server's API inside a command: the same models, orchestrator and requests, without a network.
#ifndef CHIMERE_APPS_CHIMERE_LOCAL_SERVER_H_
#define CHIMERE_APPS_CHIMERE_LOCAL_SERVER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/settings.h"
#include "protocol/api_error.h"

namespace chimere::app {

class LocalServer {
 public:
  /// Loads the model of the settings. Errors: those of loading and of make_odo_host();
  /// kUnsupported (no orchestrator in this build).
  static Result<std::unique_ptr<LocalServer>> start(const Settings& settings);
  ~LocalServer();
  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;

  /// Posts a streamed chat completion and calls `on_bytes` with what arrives, until the stream has
  /// ended or `on_bytes` returns false. Errors: that of the response.
  std::optional<protocol::ApiError> chat(const std::string& body,
                                         const std::function<bool(std::string_view)>& on_bytes);

 private:
  struct Parts;
  explicit LocalServer(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_LOCAL_SERVER_H_
