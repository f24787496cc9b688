// Outgoing HTTP(S) requests: resolved, checked, pinned and limited.
#ifndef CHIMERE_NET_HTTP_CLIENT_H_
#define CHIMERE_NET_HTTP_CLIENT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/address.h"
#include "net/resolver.h"
#include "net/url.h"

namespace chimere::net {

/// What a client may connect to, and how much it may receive.
struct Policy {
  /// Addresses of every scope may be contacted; else only public ones. For addresses that the
  /// operator configured, never for those that a page, document, model or request named.
  bool any_address = false;
  /// Addresses that may be contacted whatever their scope, such as an internal server's.
  std::vector<IpAddress> allowed;
  /// Honour the environment's proxies (http_proxy, https_proxy, all_proxy, no_proxy). A request
  /// through a proxy is resolved by the proxy, so only the proxy's own address is pinned; without
  /// any_address, proxies are never used.
  bool proxies = false;
  int max_redirects = 10;
  int64_t max_header_bytes = 256 << 10;
  int64_t max_body_bytes = 0;  ///< after decompression; 0: no limit
  /// Accept compressed bodies. Their size is limited by max_body_bytes and by max_ratio.
  bool decompress = false;
  double max_ratio = 200;  ///< of decompressed to received bytes, from 1 MiB on
  double connect_seconds = 30;
  double stall_seconds = 60;  ///< without receiving a byte
  double total_seconds = 0;   ///< of one get(), with its redirects; 0: no limit
};

struct HttpResponse {
  long status = 0;
  /// Headers of the last response, names in lower case.
  std::map<std::string, std::string> headers;
  /// Headers of the redirects before it; those of a later redirect replace those of an earlier one.
  std::map<std::string, std::string> redirect_headers;
  std::string url;  ///< of the last response

  /// Empty: not sent.
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
  /// An error: no response, an interrupted one, an address that the policy forbids
  /// (kInvalidArgument), a limit exceeded (kInvalidData), or a callback failed.
  Status status;
  bool transport = false;  ///< the error is the connection's, not a callback's or the policy's
  bool transient = false;  ///< retrying may help
  HttpResponse response;
};

struct HttpPost {
  std::string url;
  std::vector<std::string> headers;  ///< "Name: value"
  std::string body;
  /// As in HttpGet.
  std::function<Status(const HttpResponse&)> on_start;
  std::function<Status(std::string_view)> on_data;
  /// Called with the pieces of the body of a response with another status; may be empty.
  std::function<void(std::string_view)> on_error_data;
};

struct HttpClientOptions {
  Policy policy;
  std::string user_agent = "chimere";
  /// Sent as "Authorization: Bearer" to `token_origin` (Url::origin()) only. May be empty.
  std::string token;
  std::string token_origin;
  std::function<bool()> interrupted;  ///< polled; may be empty
  Resolve resolve = resolve_host;
};

/// Not thread-safe. Redirects are followed here, to http and https addresses but never from https
/// to http; each of them is resolved and checked like the first address. The connection goes to an
/// address that was checked: a name server that answers differently the next time changes nothing.
class HttpClient {
 public:
  /// Errors: kInvalidArgument (a token with line breaks), kIo (libcurl), kOutOfMemory.
  static Result<std::unique_ptr<HttpClient>> create(HttpClientOptions options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  HttpResult get(const HttpGet& request);
  /// Is not redirected: a redirect is the response.
  HttpResult post(const HttpPost& request);
  bool interrupted() const { return options_.interrupted && options_.interrupted(); }

 private:
  struct Curl;
  struct Hop;
  HttpClient(HttpClientOptions options, std::unique_ptr<Curl> curl);

  /// The checked addresses of the host. Errors: kInvalidArgument (the policy forbids it), those of
  /// Resolve.
  Result<std::vector<IpAddress>> addresses_of(const Url& url);
  /// `post`: nullptr for a GET.
  HttpResult send_once(const HttpGet& request, const HttpPost* post, Hop& hop);

  HttpClientOptions options_;
  std::unique_ptr<Curl> curl_;
};

}  // namespace chimere::net

#endif  // CHIMERE_NET_HTTP_CLIENT_H_
