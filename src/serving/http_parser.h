// HTTP/1.1 requests from bytes that nobody vouches for.
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

/// One request. Strict where others differ, because two programs that read a message differently
/// are what request smuggling lives on: one Host, at most one Content-Length, no other
/// Transfer-Encoding than "chunked", never both, no folded lines, no bare line feeds (RFC 9112,
/// sections 5 and 6).
class HttpParser {
 public:
  enum class State { kHead, kBody, kDone, kFailed };

  HttpParser(size_t max_head, uint64_t max_body);
  ~HttpParser();

  /// Reads from the beginning of `bytes`; returns how many are used up. What is left must be given
  /// again, with more behind it.
  size_t push(std::string_view bytes);

  State state() const { return state_; }
  const HttpHead& head() const { return head_; }              ///< from kBody on
  std::string take_body();                                    ///< at kDone
  const protocol::ApiError& error() const { return error_; }  ///< at kFailed

 private:
  struct Beast;
  void fail(int status, const std::string& message);
  void read_head(std::string_view raw);

  std::unique_ptr<Beast> beast_;
  State state_ = State::kHead;
  HttpHead head_;
  protocol::ApiError error_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_HTTP_PARSER_H_
