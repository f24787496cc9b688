// OpenAI's chat completions from the client's side: requests as bodies, streams and errors as typed
// values.
#ifndef CHIMERE_PROTOCOL_CHAT_STREAM_H_
#define CHIMERE_PROTOCOL_CHAT_STREAM_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/api_error.h"
#include "protocol/requests.h"
#include "protocol/responses.h"

namespace chimere::protocol {

/// The body of a streamed request with usage. Settings that are as in `defaults` are left out, so
/// that the server's own apply.
std::string chat_request_body(const ChatRequest& request, const Settings& defaults);

/// Reads the bytes of a stream of server-sent events as they come.
class ChatStreamReader {
 public:
  struct Events {
    std::function<void(const Choice&)> piece;        ///< of the first choice
    std::function<void(std::string_view)> step;      ///< `odo.step`, as JSON
    std::function<void(std::string_view)> metadata;  ///< `odo` of the last chunk, as JSON
    std::function<void(const Usage&)> usage;
  };
  explicit ChatStreamReader(Events events) : events_(std::move(events)) {}

  /// Errors: what the stream says, or that it is none. After an error nothing more is read.
  std::optional<ApiError> push(std::string_view bytes);
  /// The stream has ended with [DONE].
  bool done() const { return done_; }

 private:
  std::optional<ApiError> event(std::string_view data);

  Events events_;
  std::string waiting_;
  bool done_ = false;
};

/// The error in the body of a response with this status.
ApiError error_of_body(int status, std::string_view body);

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_CHAT_STREAM_H_
