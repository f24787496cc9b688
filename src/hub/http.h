// GET over HTTP(S), with libcurl.
#ifndef CHIMERE_HUB_HTTP_H_
#define CHIMERE_HUB_HTTP_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace chimere::hub {

struct HttpResponse {
  long status = 0;
  /// Of the last answer, names in lower case; "x-linked-etag" may come from a redirect before it.
  std::map<std::string, std::string> headers;

  std::string header(const std::string& name) const;
};

struct HttpGet {
  std::string url;
  std::vector<std::string> headers;  ///< "Name: value"
  /// Called once before the body of a 2xx answer; an error ends the transfer with it.
  std::function<Status(const HttpResponse&)> on_start;
  /// The body of a 2xx answer, piece by piece; an error ends the transfer with it.
  std::function<Status(std::string_view)> on_data;
};

/// How a transfer ended.
struct HttpResult {
  Status status;           ///< an error: no answer came, or it broke off, or a callback failed
  bool transport = false;  ///< the error is one of the connection, not of a callback
  bool transient = false;  ///< trying again may help
  HttpResponse response;
};

/// One client for one host. Not thread-safe.
///
/// The token is sent to the endpoint's origin (scheme, host and port) alone: redirects are followed
/// here, one by one, at most ten, to http and https addresses, never from https to http; to any
/// other origin they go without it.
class HttpClient {
 public:
  /// `token`: may be empty. `interrupted` is asked now and then. Errors: kInvalidArgument (an
  /// endpoint that is no http address, a token with line breaks).
  static Result<std::unique_ptr<HttpClient>> create(const std::string& endpoint, std::string token,
                                                    std::function<bool()> interrupted);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  HttpResult get(const HttpGet& request);
  bool interrupted() const { return interrupted_(); }

 private:
  HttpClient(std::string origin, std::string token, std::function<bool()> interrupted);
  HttpResult get_once(const HttpGet& request, const std::string& url, std::string& redirect);

  struct Curl;
  std::unique_ptr<Curl> curl_;
  std::string origin_;
  std::string token_;
  std::function<bool()> interrupted_;
};

/// "https://host:port" of an address, in lower case; empty if it is no http or https address.
std::string origin_of(const std::string& url);

}  // namespace chimere::hub

#endif  // CHIMERE_HUB_HTTP_H_
