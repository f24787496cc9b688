#include "engine/embedding_service.h"

#include <algorithm>
#include <utility>

namespace chimere::engine {

/// A request whose texts are being computed.
struct EmbeddingService::Running {
  Request request;
  std::vector<std::vector<float>> results;
  size_t started = 0;   ///< texts given to the embedder
  size_t complete = 0;  ///< of these
  bool ended = false;
};

EmbeddingService::EmbeddingService(Embedder& embedder, size_t max_waiting)
    : embedder_(embedder), max_waiting_(max_waiting), thread_([this] { run(); }) {}

EmbeddingService::~EmbeddingService() { stop(); }

bool EmbeddingService::submit(Request request) {
  auto running = std::make_shared<Running>();
  running->results.resize(request.texts.size());
  running->request = std::move(request);
  {
    const std::scoped_lock lock(mutex_);
    const size_t n = running->results.size();
    // A request that no limit could ever admit is admitted alone.
    if (stopping_ || (texts_ > 0 && texts_ + n > max_waiting_)) return false;
    texts_ += n;
    waiting_.push_back(std::move(running));
  }
  wake_.notify_one();
  return true;
}

void EmbeddingService::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void EmbeddingService::finish(const std::shared_ptr<Running>& request, Status status) {
  if (std::exchange(request->ended, true)) return;
  {
    const std::scoped_lock lock(mutex_);
    texts_ -= request->results.size();
  }
  if (status.ok()) {
    request->request.done(std::move(request->results));
  } else {
    request->request.done(std::move(status).error());
  }
}

void EmbeddingService::feed() {
  while (embedder_.pending() < Embedder::kMaxTexts && !running_.empty()) {
    const std::shared_ptr<Running> next = std::move(running_.front());
    running_.pop_front();
    if (next->ended) continue;
    if (next->request.abandoned && next->request.abandoned()) {
      finish(next, Error{Error::Code::kCancelled, "The client has gone."});
      continue;
    }
    const size_t i = next->started++;
    if (next->started < next->results.size()) running_.push_back(next);
    embedder_.add(std::move(next->request.texts[i]),
                  [this, next, i](Result<std::vector<float>> made) {
                    if (!made.ok()) return finish(next, std::move(made).error());
                    next->results[i] = *std::move(made);
                    if (++next->complete == next->results.size()) finish(next, {});
                  });
  }
}

void EmbeddingService::run() {
  std::deque<std::shared_ptr<Running>> all;  // those that have not ended
  while (true) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] {
        return stopping_ || !waiting_.empty() || !running_.empty() || embedder_.pending() > 0;
      });
      for (const auto& request : waiting_) all.push_back(request);
      running_.insert(running_.end(), waiting_.begin(), waiting_.end());
      waiting_.clear();
      if (stopping_) break;
    }
    for (const auto& request : all) {
      if (request->results.empty()) finish(request, {});
    }
    feed();
    embedder_.step();
    std::erase_if(all, [](const auto& request) { return request->ended; });
  }
  for (const auto& request : all) {
    finish(request, Error{Error::Code::kCancelled, "The service has stopped."});
  }
}

}  // namespace chimere::engine
