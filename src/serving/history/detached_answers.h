// The detached generations of the server, running ones and those that have just ended.
#ifndef CHIMERE_SERVING_HISTORY_DETACHED_ANSWERS_H_
#define CHIMERE_SERVING_HISTORY_DETACHED_ANSWERS_H_

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "protocol/api_error.h"
#include "serving/history/conversation_store.h"
#include "serving/history/detached_answer.h"

namespace chimere::serving {

/// Any thread. Has two threads of its own: one passes events on, the other one writes to the disk.
class DetachedAnswers {
 public:
  /// Generations of an owner that may run at the same time.
  static constexpr size_t kMostRunning = 32;
  /// So many of an owner that have ended are kept, so long.
  static constexpr size_t kMostEnded = 32;
  static constexpr std::chrono::seconds kKept{60};

  /// The store must outlive it.
  explicit DetachedAnswers(ConversationStore& store);
  ~DetachedAnswers();  ///< stop()
  DetachedAnswers(const DetachedAnswers&) = delete;
  DetachedAnswers& operator=(const DetachedAnswers&) = delete;

  /// Begins an answer; parameters as of DetachedAnswer. Errors: `conversation_not_found`,
  /// `history_failed`, `generation_running`, `too_many_parallel_requests`.
  std::optional<protocol::ApiError> begin(const DetachedAnswer::Place& place,
                                          const std::string& model,
                                          std::shared_ptr<ResponseStream> client,
                                          std::shared_ptr<DetachedAnswer>& out);
  /// nullptr: no such generation runs or has just ended.
  std::shared_ptr<DetachedAnswer> find(const DetachedAnswer::Place& place);
  /// Ends all generations, as their engines do it.
  void cancel_all();
  /// Stores what was generated, and joins the threads. To be called when the generations have
  /// ended.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  using Answers = std::vector<std::shared_ptr<DetachedAnswer>>;
  struct Entry {
    std::shared_ptr<DetachedAnswer> answer;
    std::optional<Clock::time_point> ended;
  };
  /// What generations tell the threads; outlives them.
  struct Signals {
    std::mutex mutex;
    std::condition_variable changed;
    bool begun_or_ended = false;
    bool to_save = false;  ///< the same, for the thread that saves
    bool stopping = false;
  };

  void drain_all();
  void save_all();
  Answers running();
  /// Notes which generations have ended, and forgets old ones. Returns whether there are others.
  bool sweep();

  ConversationStore& store_;
  const std::shared_ptr<Signals> signals_ = std::make_shared<Signals>();
  std::mutex mutex_;
  std::vector<Entry> entries_;  ///< the oldest first
  std::thread drains_;
  std::thread saves_;
};

/// An error of the store as one of the API.
protocol::ApiError from_history(const Error& error);

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_HISTORY_DETACHED_ANSWERS_H_
