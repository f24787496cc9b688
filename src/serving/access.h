// Which sites may speak to the server through a browser.
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
  std::string host = {};                        ///< that the server listens on
  bool keys = false;                            ///< requests need a key
  std::vector<std::string> allowed_hosts = {};  ///< names that Host may say besides addresses
  std::vector<std::string> cors_origins = {};   ///< "https://chat.example.org", or "*"
};

/// True for localhost, 127.x.x.x and ::1.
bool is_loopback(std::string_view host);

/// A page of any site can send requests to this machine. Its name in Host gives it away when its
/// name server says that it lives here (DNS rebinding): without keys, Host must be an address,
/// localhost or a name that was allowed. Its Origin gives it away otherwise: it must be the
/// server's own or one of `cors_origins`. Errors: 403.
std::optional<protocol::ApiError> check_access(const AccessRules& rules, const HttpHead& head);

/// What lets a page of an allowed origin read the answer; empty for other requests.
Headers cors_headers(const AccessRules& rules, const HttpHead& head);

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_ACCESS_H_
