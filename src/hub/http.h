// An HTTP(S) GET client on top of libcurl.
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
  /// Headers of the last response, names in lower case; "x-linked-etag" may come from a redirect
  /// before it.
  std::map<std::string, std::string> headers;

  std::string header(const std::string& name) const;
};

struct HttpGet {
  std::string url;
  std::vector<std::string> headers;  ///< "Name: value"
  /// Called once before the body of a 2xx response; an error aborts the transfer with it.
  std::function<Status(const HttpResponse&)> on_start;
  /// Called with each piece of the body of a 2xx response; an error aborts the transfer with it.
  std::function<Status(std::string_view)> on_data;
};

/// The outcome of a transfer.
struct HttpResult {
  Status status;           ///< an error: no response, an interrupted one, or a callback failed
  bool transport = false;  ///< the error is the connection's, not a callback's
  bool transient = false;  ///< retrying may help
  HttpResponse response;
};

/// A client for one host. Not thread-safe.
///
/// The token is sent only to the endpoint's origin (scheme, host and port). Redirects are followed
/// here, at most ten, to http and https addresses but never from https to http; to any other origin
/// they go without the token.
class HttpClient {
 public:
  /// `token` may be empty. `interrupted` is polled. Errors: kInvalidArgument (an endpoint that is
  /// not an http address, a token with line breaks).
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

/// "https://host:port" of an address, in lower case; empty if it is not an http or https address.
std::string origin_of(const std::string& url);

}  // namespace chimere::hub

#endif  // CHIMERE_HUB_HTTP_H_
