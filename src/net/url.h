// Addresses of web resources.
#ifndef CHIMERE_NET_URL_H_
#define CHIMERE_NET_URL_H_

#include <cstdint>
#include <optional>
#include <string>

namespace chimere::net {

/// The parts of an http or https address that decide where it leads.
struct Url {
  std::string scheme;        ///< "http" or "https"
  std::string host;          ///< lower case; IPv6 addresses without brackets
  uint16_t port = 0;         ///< the scheme's own if the address names none
  bool credentials = false;  ///< names a user or password

  /// "https://host:port".
  std::string origin() const;
};

/// Parses as the HTTP client does, so that both see the same host: numeric IPv4 notations such as
/// "0x7f.1" become dotted, percent signs are decoded. Nothing for other schemes and damaged text.
std::optional<Url> parse_url(const std::string& text);

/// ASCII letters to lower case.
std::string lower_case(std::string text);

/// Url::origin() of an address; empty if it is not an http or https address.
std::string origin_of(const std::string& url);

}  // namespace chimere::net

#endif  // CHIMERE_NET_URL_H_
