// An HTTP/1.1 server with keep-alive and optional TLS.
#ifndef CHIMERE_SERVING_HTTP_SERVER_H_
#define CHIMERE_SERVING_HTTP_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "protocol/api_error.h"
#include "serving/http_message.h"
#include "serving/response_stream.h"

namespace chimere::serving {

struct HttpOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;         ///< 0: any free port
  std::string tls_certificate;  ///< PEM file with the certificate chain; empty: no TLS
  std::string tls_key;          ///< PEM file
  int64_t max_connections = 4096;
  size_t max_head = 16 << 10;
  uint64_t max_body = 16 << 20;
  double head_seconds = 15;        ///< from a request's first byte to the end of its head
  double idle_seconds = 75;        ///< between requests
  double body_seconds = 60;        ///< for the whole body
  double write_seconds = 30;       ///< without progress of a write
  double keep_alive_seconds = 10;  ///< without an event in a stream before a comment is sent
};

/// The application behind the server. All calls are made on the server's thread.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  /// Checks a request before its body is read; a response rejects it.
  virtual std::optional<HttpResponse> refuse(const HttpHead& head) = 0;
  /// The response to a request that is not valid HTTP, too large or too slow; what is known of its
  /// head may be incomplete. By default in OpenAI's form.
  virtual HttpResponse reject(const HttpHead& head, const protocol::ApiError& error);
  /// Must return quickly; the response may follow later, from any thread.
  virtual void handle(HttpRequest request, std::shared_ptr<ResponseStream> stream) = 0;
  /// Additional headers for responses that the server creates itself.
  virtual Headers extra_headers(const HttpHead& head) = 0;
};

class HttpServer {
 public:
  /// Binds the port; `handler` must outlive the server. Errors: kInvalidArgument (an unknown
  /// address, unusable certificates), kIo (the port is in use; the message proposes another one).
  static Result<std::unique_ptr<HttpServer>> create(const HttpOptions& options,
                                                    HttpHandler& handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;
  /// Serves until stop(). `on_signal` is called at the first SIGTERM or SIGINT; a second one
  /// terminates the process immediately with exit code 130.
  /// `on_hangup` is called at each SIGHUP; if it is empty, SIGHUP has its default action. Both are
  /// called on the server's thread.
  void run(std::function<void()> on_signal, std::function<void()> on_hangup = {});
  /// Stops accepting connections; responses in progress may finish within `limit` seconds. Any
  /// thread.
  void stop(double limit);
  /// Any thread.
  int64_t connections() const;

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_HTTP_SERVER_H_
