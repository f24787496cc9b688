// HTTP requests and responses as plain data.
#ifndef CHIMERE_SERVING_HTTP_MESSAGE_H_
#define CHIMERE_SERVING_HTTP_MESSAGE_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace chimere::serving {

/// The text without its percent encoding; `form`: + is a space, as in queries.
std::string percent_decoded(std::string_view text, bool form);

/// With ASCII letters in lower case.
std::string lower_case(std::string_view text);

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpHead {
  std::string method;
  std::string path;   ///< without the query
  std::string query;  ///< between '?' and '#', as sent
  bool keep_alive = false;
  bool http_1_0 = false;
  bool expects_continue = false;
  Headers headers;  ///< names in lower case

  /// The first header of this name (in lower case); empty if there is none.
  std::string_view header(std::string_view name) const {
    for (const auto& [key, value] : headers) {
      if (key == name) return value;
    }
    return {};
  }
  /// The first value of this name in the query, with %XX and '+' decoded; absent: there is none.
  std::optional<std::string> query_value(std::string_view name) const;
};

struct HttpRequest {
  HttpHead head;
  std::string body;
  std::string peer;  ///< address of the client
};

struct HttpResponse {
  int status = 200;
  std::string body = {};
  std::string content_type = "application/json";
  Headers headers = {};
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_HTTP_MESSAGE_H_
