#include "serving/access.h"

#include <algorithm>

#include "serving/http_message.h"

namespace chimere::serving {
namespace {

/// "example.org:8080" without the port.
std::string host_name(std::string_view host) {
  const size_t bracket = host.rfind(']');
  const size_t colon = host.rfind(':');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    host = host.substr(0, colon);
  }
  return lower_case(host);
}

bool is_address(std::string_view name) {
  if (name.starts_with('[')) return name.ends_with(']');
  return !name.empty() && name.find_first_not_of("0123456789.") == std::string_view::npos;
}

bool is_listed(const std::vector<std::string>& list, std::string_view what) {
  return std::ranges::any_of(list, [&](const std::string& s) { return lower_case(s) == what; });
}

/// Whether the page was loaded from this server.
bool is_own(std::string_view origin, std::string_view host) {
  const size_t at = origin.find("://");
  return at != std::string_view::npos && lower_case(origin.substr(at + 3)) == lower_case(host);
}

bool is_allowed(const AccessRules& rules, std::string_view origin) {
  return is_listed(rules.cors_origins, "*") || is_listed(rules.cors_origins, lower_case(origin));
}

}  // namespace

bool is_loopback(std::string_view host) {
  const std::string name = lower_case(host);
  const bool v4 = is_address(name) && name.starts_with("127.");
  return v4 || name == "localhost" || name == "::1" || name == "[::1]";
}

std::optional<protocol::ApiError> check_access(const AccessRules& rules, const HttpHead& head) {
  const std::string name = host_name(head.header("host"));
  const bool known = is_address(name) || name == "localhost" || name == lower_case(rules.host) ||
                     is_listed(rules.allowed_hosts, name) || (head.http_1_0 && name.empty());
  if (!known && (!rules.keys || !rules.allowed_hosts.empty())) {
    return protocol::ApiError{"host_not_allowed",
                              "The host name in the Host header is not allowed; it can "
                              "be added with --allowed-hosts."};
  }
  const std::string_view origin = head.header("origin");
  if (origin.empty() || is_own(origin, head.header("host")) || is_allowed(rules, origin)) {
    return std::nullopt;
  }
  return protocol::ApiError{"origin_not_allowed",
                            "Pages of this Origin may not use the server; the Origin can be "
                            "allowed with --cors-origins."};
}

Headers cors_headers(const AccessRules& rules, const HttpHead& head) {
  const std::string_view origin = head.header("origin");
  if (origin.empty() || !is_allowed(rules, origin)) return {};
  Headers out = {{"Access-Control-Allow-Origin", std::string(origin)}, {"Vary", "Origin"}};
  if (head.method == "OPTIONS") {
    out.emplace_back("Access-Control-Allow-Methods", "GET, POST, DELETE");
    // The wildcard of the Fetch standard does not cover Authorization.
    const std::string_view wanted = head.header("access-control-request-headers");
    if (!wanted.empty()) out.emplace_back("Access-Control-Allow-Headers", std::string(wanted));
    out.emplace_back("Access-Control-Max-Age", "600");
  }
  return out;
}

}  // namespace chimere::serving
