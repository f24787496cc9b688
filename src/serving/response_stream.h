// The answer to one request on its way from those who compute it to the connection.
#ifndef CHIMERE_SERVING_RESPONSE_STREAM_H_
#define CHIMERE_SERVING_RESPONSE_STREAM_H_

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "serving/http_message.h"

namespace chimere::serving {

/// Either respond() once, or start_events(), event() and end_events(). All functions may be called
/// from any thread; what comes after the client has gone is dropped.
class ResponseStream {
 public:
  /// Bytes that may wait for a slow reader; with more he is given up.
  static constexpr size_t kMaxWaiting = 4 << 20;

  /// Whether something to send may wait for the next piece of a stream, which is due soon.
  enum class Urgency { kNow, kMayWait };

  /// `wake` is called, from any thread, when there is something to send.
  explicit ResponseStream(std::function<void(Urgency)> wake) : wake_(std::move(wake)) {}

  void respond(HttpResponse response);
  /// Begins an answer of server-sent events.
  void start_events(Headers headers);
  void event(std::string_view bytes);
  void end_events();
  /// `write` calls event() for what it has kept back. It is called by take(), on the connection's
  /// thread, which announce() asks for. Before start_events().
  void on_take(std::function<void()> write);
  void announce() { wake_(Urgency::kMayWait); }
  /// The reader is too slow for what was kept back.
  void give_up();

  /// `action` runs once when the client has gone or is too slow: now if that is so, else on the
  /// connection's thread.
  void on_abandoned(std::function<void()> action);
  bool abandoned() const;

  // For the connection.
  struct Piece {
    std::optional<HttpResponse> head;  ///< of a stream, with an empty body; or the whole answer
    std::string bytes;                 ///< of a stream
    bool ended = false;
    bool too_slow = false;
  };
  Piece take();
  bool streaming() const;
  void abandon();

 private:
  std::function<void(Urgency)> wake_;
  mutable std::mutex mutex_;
  Piece waiting_;
  bool streaming_ = false;
  bool abandoned_ = false;
  bool taking_ = false;  ///< whoever would be woken is here already
  std::function<void()> write_;
  std::function<void()> action_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_RESPONSE_STREAM_H_
