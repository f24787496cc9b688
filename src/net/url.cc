#include "net/url.h"

#include <curl/curl.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <memory>

namespace chimere::net {
namespace {

std::string part_of(CURLU* url, CURLUPart which, unsigned flags) {
  char* text = nullptr;
  std::string out;
  if (curl_url_get(url, which, &text, flags) == CURLUE_OK) out = text;
  curl_free(text);
  return out;
}

}  // namespace

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string Url::origin() const {
  const bool ipv6 = host.find(':') != std::string::npos;
  return scheme + "://" + (ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::optional<Url> parse_url(const std::string& text) {
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> parsed(curl_url(), curl_url_cleanup);
  if (parsed == nullptr || text.find('\0') != std::string::npos) return std::nullopt;
  if (curl_url_set(parsed.get(), CURLUPART_URL, text.c_str(), CURLU_NON_SUPPORT_SCHEME) !=
      CURLUE_OK) {
    return std::nullopt;
  }
  Url url;
  url.scheme = lower_case(part_of(parsed.get(), CURLUPART_SCHEME, 0));
  url.host = lower_case(part_of(parsed.get(), CURLUPART_HOST, CURLU_URLDECODE));
  const std::string port = part_of(parsed.get(), CURLUPART_PORT, CURLU_DEFAULT_PORT);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), url.port);
  if (url.scheme != "http" && url.scheme != "https") return std::nullopt;
  if (url.host.empty() || error != std::errc() || end != port.data() + port.size() ||
      url.port == 0) {
    return std::nullopt;
  }
  if (url.host.front() == '[' && url.host.back() == ']') {
    url.host = url.host.substr(1, url.host.size() - 2);
  }
  url.credentials = !part_of(parsed.get(), CURLUPART_USER, 0).empty() ||
                    !part_of(parsed.get(), CURLUPART_PASSWORD, 0).empty();
  return url;
}

std::string origin_of(const std::string& url) {
  const auto parsed = parse_url(url);
  return parsed ? parsed->origin() : "";
}

}  // namespace chimere::net
