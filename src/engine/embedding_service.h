// Embeddings and scores for many threads: the texts of all requests share steps.
#ifndef CHIMERE_ENGINE_EMBEDDING_SERVICE_H_
#define CHIMERE_ENGINE_EMBEDDING_SERVICE_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/result.h"
#include "engine/embedder.h"

namespace chimere::engine {

/// One thread drives the embedder, which must outlive the service and is used by nothing else.
/// Results have the bits of Embedder::compute() of the same text alone. Any thread may call the
/// functions.
class EmbeddingService {
 public:
  /// `max_waiting`: texts that may wait or be computed; more are refused.
  explicit EmbeddingService(Embedder& embedder, size_t max_waiting = 8192);
  /// Ends after the step that is being computed; the other texts fail.
  ~EmbeddingService();
  EmbeddingService(const EmbeddingService&) = delete;
  EmbeddingService& operator=(const EmbeddingService&) = delete;

  const Embedder& embedder() const { return embedder_; }

  struct Request {
    std::vector<EmbeddingInput> texts;  ///< must have passed Embedder::check()
    /// Called once on the service's thread, with the results in the texts' order.
    std::function<void(Result<std::vector<std::vector<float>>>)> done;
    /// Asked before texts are computed; true: the result is not read. May be empty.
    std::function<bool()> abandoned = {};
  };
  /// Returns false, and does not call `done`, if too many texts wait or the service has ended.
  bool submit(Request request);
  /// Ends the service; requests that are not complete fail with kCancelled.
  void stop();

 private:
  struct Running;
  void run();
  /// Gives the embedder texts of the running requests, one of each in turn, while it has room.
  void feed();
  /// Ends requests with that result and takes their texts off the count.
  void finish(const std::shared_ptr<Running>& request, Status status);

  Embedder& embedder_;
  const size_t max_waiting_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  size_t texts_ = 0;  ///< of all requests
  std::deque<std::shared_ptr<Running>> waiting_;
  std::deque<std::shared_ptr<Running>> running_;  ///< of the service's thread
  std::thread thread_;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_EMBEDDING_SERVICE_H_
