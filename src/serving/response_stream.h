// The response to one request, passed from the threads that compute it to the connection.
#ifndef CHIMERE_SERVING_RESPONSE_STREAM_H_
#define CHIMERE_SERVING_RESPONSE_STREAM_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "serving/http_message.h"

namespace chimere::serving {

/// Either respond() once, or start_events(), event() and end_events(). All functions may be called
/// from any thread; data sent after the client has disconnected is dropped.
class ResponseStream {
 public:
  /// Bytes that may be queued for a slow client; beyond that it is disconnected.
  static constexpr size_t kMaxWaiting = 4 << 20;

  /// Whether new data may wait for the next piece of the stream, which is expected soon.
  enum class Urgency { kNow, kMayWait };

  /// `wake` is called, from any thread, when there is data to send.
  explicit ResponseStream(std::function<void(Urgency)> wake) : wake_(std::move(wake)) {}

  void respond(HttpResponse response);
  /// Starts a response of events, server-sent ones or lines of JSON (application/x-ndjson).
  void start_events(Headers headers, std::string content_type = "text/event-stream");
  /// The same with the head of another stream's events.
  void start_events_of(HttpResponse head);
  void event(std::string_view bytes);
  void end_events();
  struct Piece {
    std::optional<HttpResponse> head;  ///< of a stream, with an empty body; or the whole response
    std::string bytes;                 ///< of a stream
    bool ended = false;
    bool too_slow = false;
  };
  /// Registers a producer of deferred events: take() calls `write` on the connection's thread,
  /// which calls collect() and then appends its events to Piece::bytes. Returns false if it has
  /// called neither. announce() requests a take(). To be called once, before start_events(), from
  /// which on `write` is called, so that the head comes first.
  void on_take(std::function<bool(Piece&)> write);
  /// Moves everything that was sent without a producer to `out`, which is empty.
  void collect(Piece& out);
  void announce() { wake_(Urgency::kMayWait); }
  /// The client is too slow for the deferred events; disconnects it.
  void drop_slow_client();

  /// `action` runs once when the client has disconnected, is too slow or has asked for the end of
  /// the work: immediately if that has happened already, else on the thread that learns of it.
  void on_stopped(std::function<void()> action);
  bool stopped() const;
  /// The client has disconnected or is too slow: nothing is sent any more.
  bool abandoned() const;
  /// Ends the work for the response, whose client still receives its end.
  void cancel();

  /// Sends what keeps an idle stream open: a comment, of server-sent events only.
  void keep_alive();

  // For the connection:
  Piece take();
  bool streaming() const;
  void abandon();

 private:
  std::function<void(Urgency)> wake_;
  mutable Mutex mutex_;
  Piece waiting_;
  std::atomic<bool> any_waiting_ = false;  ///< `waiting_` is not empty
  bool streaming_ = false;
  bool comments_ = false;  ///< the stream's type has comments
  bool abandoned_ = false;
  bool cancelled_ = false;
  std::function<bool(Piece&)> write_;   ///< constant once `deferred_` is set
  std::atomic<bool> deferred_ = false;  ///< the events have a producer and were started
  std::function<void()> action_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_RESPONSE_STREAM_H_
