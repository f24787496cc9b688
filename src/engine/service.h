// The engine as a service: requests from any thread, one thread that computes.
#ifndef CHIMERE_ENGINE_SERVICE_H_
#define CHIMERE_ENGINE_SERVICE_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "engine/engine.h"
#include "engine/histogram.h"
#include "engine/request.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace chimere::engine {

struct ServiceOptions {
  EngineOptions engine;
  /// Requests that may wait beside EngineOptions::max_running; one more is refused.
  int32_t max_queue = 256;
  /// The prefix cache that the service makes and owns; EngineOptions::cache and
  /// PrefixCacheOptions::wake are filled in by it.
  std::optional<PrefixCacheOptions> cache = {};
};

/// How far the states of all requests and of the prefix cache may go.
struct StateLimits {
  int64_t bytes = 0;   ///< of keys, values and recurrent states together
  int64_t tokens = 0;  ///< with keys and values, of all sequences together
  int64_t states = 0;  ///< recurrent ones
  int64_t bytes_per_token = 0;
  int64_t bytes_per_state = 0;
};

/// A snapshot of the service; counts are since its start.
struct ServiceStats {
  EngineCounters engine;
  PrefixCacheStats cache;
  int64_t in_flight = 0;  ///< accepted and not finished: running, waiting, or just arrived
  uint64_t accepted = 0;
  uint64_t refused = 0;    ///< for a full queue
  uint64_t finished = 0;   ///< for any reason
  uint64_t cancelled = 0;  ///< of these
  uint64_t failed = 0;     ///< of these: FinishReason::kError
  Histogram first_token;   ///< from submit() to the first token
  Histogram inter_token;   ///< from a token to the next one of the same request
  int64_t kv_bytes = 0;    ///< pages of the state store in use, with what checkpoints hold
  int64_t kv_limit = 0;
  int64_t slot_bytes = 0;  ///< recurrent states in use, with what checkpoints hold
  int64_t slot_limit = 0;
  int64_t resident_bytes = 0;  ///< taken for pages and states, used or kept for the next ones
  int64_t resident_limit = 0;
};

/// Owns a thread that drives an Engine for as long as there is something to do. All functions may
/// be called from any thread, callbacks of requests included, but for stop() and the destructor,
/// which wait for that thread. The callbacks of a request run on the service's thread, and every
/// other request waits for them: they should hand over what they get, and return.
class EngineService {
 public:
  using Clock = std::chrono::steady_clock;

  /// Model, tokenizer and pool must outlive the service, and belong to it until stop(). Errors:
  /// those of Engine::create() and PrefixCache::create().
  static Result<std::unique_ptr<EngineService>> create(model::Model& model,
                                                       const text::Tokenizer& tokenizer,
                                                       const ServiceOptions& options);
  ~EngineService();  ///< stop()
  EngineService(const EngineService&) = delete;
  EngineService& operator=(const EngineService&) = delete;

  /// on_finish is called exactly once for a request that got an id, possibly before submit()
  /// returns. Errors: those of Engine::check(); kOutOfMemory (the queue is full: worth trying
  /// again later); kCancelled (the service is stopping). No callback is called then.
  Result<RequestId> submit(Request request);
  /// The request ends with kCancelled before the next step begins. Ids that are gone or never were
  /// do nothing.
  void cancel(RequestId id);

  bool has_prefix_cache() const;
  /// Engine::warmup() of each of these, in this order of urgency.
  void warmup(const std::string& owner, std::vector<std::vector<int32_t>> prefixes);

  ServiceStats stats() const;
  StateLimits state_limits() const;
  /// Most tokens of one request.
  int64_t context() const;

  /// Takes no more requests, and waits until those it has are finished; at `deadline` it cancels
  /// the rest. True if nothing had to be cancelled.
  bool drain(Clock::time_point deadline);
  /// Cancels what is in flight, writes the prefix cache to disk and ends the thread. Afterwards
  /// model and tokenizer are free again.
  void stop();

 private:
  struct Impl;
  explicit EngineService(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_SERVICE_H_
