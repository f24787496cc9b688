// A generation that continues when its client disconnects: its text is stored in a message of the
// history, and any number of clients read its events.
#ifndef CHIMERE_SERVING_HISTORY_DETACHED_ANSWER_H_
#define CHIMERE_SERVING_HISTORY_DETACHED_ANSWER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "protocol/answer_data.h"
#include "protocol/generation_writer.h"
#include "serving/history/conversation_store.h"
#include "serving/history/event_buffer.h"
#include "serving/response_stream.h"

namespace chimere::serving {

/// Is the writer of the generation, in place of one that it asks for the events; what it returns
/// goes to stream(), where drain() discards it. Functions without a comment on threads: any thread.
class DetachedAnswer final : public protocol::GenerationWriter,
                             public std::enable_shared_from_this<DetachedAnswer> {
 public:
  struct Place {
    std::string owner;
    std::string conversation;
    std::string message;
  };
  /// `before`: the message as it is stored. `model`: its name in the message's data. `client`: the
  /// response to the request, which becomes the first reader. `wake` is called when the generation
  /// begins and ends.
  DetachedAnswer(Place place, StoredMessage before, std::string model,
                 std::shared_ptr<ResponseStream> client, const std::function<void()>& wake);

  const Place& place() const { return place_; }
  /// The response as the generation writes it.
  const std::shared_ptr<ResponseStream>& stream() const { return stream_; }
  /// To be called before the generation begins.
  void write_with(std::shared_ptr<protocol::GenerationWriter> inner) { inner_ = std::move(inner); }

  const std::string& id() const override { return inner_->id(); }
  std::string open(std::span<const protocol::Choice> choices, int64_t prompt_tokens) override;
  std::string piece(const protocol::Choice& part) override;
  std::string step(std::string_view json) override;
  void set_orchestration(std::string_view json) override;
  std::string close(const protocol::Usage& usage, const protocol::Timings& timings) override;
  std::string fail(const protocol::ApiError& error) override;
  /// Detached generations are streams.
  std::string whole(std::span<const protocol::Choice> choices, const protocol::Usage& usage,
                    const protocol::Timings& timings) override;

  /// Responds with the events after `after`; if that is absent, or not all of them are there, with
  /// an event that has the whole message, and with those after it.
  void attach(const std::shared_ptr<ResponseStream>& reader, Headers headers,
              std::optional<int64_t> after);
  /// Ends the generation; what was generated stays. `done` is called with the message when it is
  /// stored, or now if it is.
  void stop(std::function<void(const StoredMessage&)> done);
  void cancel() { stream_->cancel(); }
  /// The message as it is now.
  StoredMessage message() const;

  // For DetachedAnswers, each by one thread at a time:

  /// kRefused: the request had an error. kEnded: the message is not stored yet.
  enum class State { kRunning, kRefused, kEnded, kStored };
  State state() const;
  /// Passes on what the generation has written.
  void drain();
  /// Stores what is new; at the end the message's data, before readers receive the end.
  void save(ConversationStore& store);

 private:
  using Clock = std::chrono::steady_clock;

  /// Of the request, in seconds.
  double now() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }
  void serve(ResponseStream& reader, int64_t after, std::string first = {});
  /// Adds the events of the end, which readers receive when the message is stored.
  std::string end(std::string events);
  void read(int64_t& after, ResponseStream::Piece& out) const;
  /// The generation is over: readers receive the end.
  void release(State state);
  /// The message with this generation.
  StoredMessage extended(const protocol::AnswerData& answer, bool complete) const;
  void announce();
  /// Requires `mutex_`: the number of the last event that readers receive.
  int64_t visible() const;

  const Place place_;
  const StoredMessage before_;
  const Clock::time_point began_ = Clock::now();
  const std::shared_ptr<ResponseStream> stream_;
  std::shared_ptr<protocol::GenerationWriter> inner_;
  std::shared_ptr<ResponseStream> client_;  ///< of drain(); nullptr when it has its head

  mutable Mutex mutex_;
  EventBuffer events_;
  std::optional<int64_t> held_after_;  ///< number of the last event before those of the end
  protocol::AnswerData answer_;
  bool without_logprobs_ = false;  ///< there are too many
  State state_ = State::kRunning;
  int64_t announced_ = 0;  ///< events that drain() has told readers of
  std::vector<std::weak_ptr<ResponseStream>> readers_;
  std::vector<std::function<void(const StoredMessage&)>> on_stored_;

  // Of save():
  size_t saved_content_ = 0;  ///< bytes of this generation
  size_t saved_reasoning_ = 0;
  std::optional<double> failing_since_;  ///< when the whole could not be stored, as now()
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_HISTORY_DETACHED_ANSWER_H_
