// Protection against requests that other web sites send through a browser.
#ifndef CHIMERE_SERVING_ACCESS_H_
#define CHIMERE_SERVING_ACCESS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/api_error.h"
#include "serving/http_message.h"

namespace chimere::serving {

struct AccessRules {
  std::string host = {};                        ///< address that the server listens on
  bool keys = false;                            ///< requests need an API key
  std::vector<std::string> allowed_hosts = {};  ///< host names accepted besides addresses
  std::vector<std::string> cors_origins = {};   ///< "https://chat.example.org", or "*"
};

/// True for localhost, 127.x.x.x and ::1.
bool is_loopback(std::string_view host);

/// Any web page can make a browser send requests to this machine. Against DNS rebinding, Host must
/// be an address, localhost or an allowed name, unless API keys are required. Otherwise Origin
/// identifies the page: it must be the server's own origin or one of `cors_origins`. Errors: 403.
std::optional<protocol::ApiError> check_access(const AccessRules& rules, const HttpHead& head);

/// The headers that let a page of an allowed origin read the response; empty for other requests.
Headers cors_headers(const AccessRules& rules, const HttpHead& head);

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_ACCESS_H_
