// Parses HTTP/1.1 requests from untrusted bytes.
#ifndef CHIMERE_SERVING_HTTP_PARSER_H_
#define CHIMERE_SERVING_HTTP_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "protocol/api_error.h"
#include "serving/http_message.h"

namespace chimere::serving {

/// Parses one request. Strict, because request smuggling exploits programs that parse a message
/// differently: exactly one Host, at most one Content-Length, no Transfer-Encoding but "chunked",
/// never both, no folded lines, no bare line feeds (RFC 9112, sections 5 and 6).
class HttpParser {
 public:
  enum class State { kHead, kBody, kDone, kFailed };

  HttpParser(size_t max_head, uint64_t max_body);
  ~HttpParser();

  /// Consumes bytes from the beginning of `bytes` and returns their number. The remaining bytes
  /// must be passed again, followed by more.
  size_t push(std::string_view bytes);

  State state() const { return state_; }
  const HttpHead& head() const { return head_; }              ///< from kBody on
  std::string take_body();                                    ///< at kDone
  const protocol::ApiError& error() const { return error_; }  ///< at kFailed

 private:
  struct Beast;
  void fail(protocol::ErrorCode code, std::string message);
  void read_head(std::string_view raw);

  std::unique_ptr<Beast> beast_;
  State state_ = State::kHead;
  HttpHead head_;
  protocol::ApiError error_{"bad_http_request", ""};
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_HTTP_PARSER_H_
