// Thread-safe access to the engine: requests come from any thread, one thread computes.
#ifndef CHIMERE_ENGINE_SERVICE_H_
#define CHIMERE_ENGINE_SERVICE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "engine/engine.h"
#include "engine/histogram.h"
#include "engine/request.h"
#include "engine/speculation/speculation.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace chimere::engine {

struct ServiceOptions {
  EngineOptions engine;
  /// Requests that may wait in addition to EngineOptions::max_running; further ones are refused.
  int32_t max_queue = 256;
  /// The prefix cache that the service creates and owns; the service fills in EngineOptions::cache
  /// and PrefixCacheOptions::wake.
  std::optional<PrefixCacheOptions> cache = {};
};

/// Limits of the states of all requests and of the prefix cache, and their sizes.
struct StateLimits {
  int64_t bytes = 0;   ///< KV cache, recurrent states and pending rows together
  int64_t tokens = 0;  ///< positions in the KV cache, of all sequences together
  int64_t states = 0;  ///< recurrent states
  int64_t bytes_per_token = 0;
  int64_t bytes_per_state = 0;
};

/// A snapshot of the service, at most 20 ms older than its last step; counts are since its start.
struct ServiceStats {
  EngineCounters engine;
  PrefixCacheStats cache;
  int64_t in_flight = 0;  ///< accepted and not finished: running, waiting or queued
  uint64_t accepted = 0;
  uint64_t refused = 0;    ///< because the queue was full
  uint64_t finished = 0;   ///< for any reason
  uint64_t cancelled = 0;  ///< of these
  uint64_t failed = 0;     ///< of these: FinishReason::kError
  Histogram first_token;   ///< from submit() to the first token
  Histogram inter_token;   ///< from a token to the next one of the same request
  int64_t kv_bytes = 0;    ///< KV pages in use, including those held by checkpoints
  int64_t kv_limit = 0;
  /// Recurrent states and pending rows in use, including those held by checkpoints.
  int64_t slot_bytes = 0;
  int64_t slot_limit = 0;
  /// Committed for pages, states and pending rows, in use or kept for later ones.
  int64_t resident_bytes = 0;
  int64_t resident_limit = 0;
};

/// Owns a thread that drives an Engine while there is work. All functions may be called from any
/// thread, including from callbacks of requests, except stop() and the destructor, which join that
/// thread. Callbacks run on the service's thread and delay every other request: they should hand
/// over the data and return.
class EngineService {
 public:
  using Clock = std::chrono::steady_clock;

  /// Model, tokenizer and pool must outlive the service and must not be used elsewhere until
  /// stop(). Errors: those of Engine::create() and PrefixCache::create().
  static Result<std::unique_ptr<EngineService>> create(model::Model& model,
                                                       const text::Tokenizer& tokenizer,
                                                       const ServiceOptions& options);
  ~EngineService();  ///< stop()
  EngineService(const EngineService&) = delete;
  EngineService& operator=(const EngineService&) = delete;

  /// on_finish is called exactly once for a request that got an id, possibly before submit()
  /// returns. Errors: those of Engine::check(); kOutOfMemory (the queue is full: try again later);
  /// kCancelled (the service is stopping). No callback is called after an error.
  Result<RequestId> submit(Request request);
  /// The request ends with kCancelled before the next step begins. Unknown ids are ignored.
  void cancel(RequestId id);

  bool has_prefix_cache() const;
  /// Engine::warmup() for each of these token lists, the most urgent first.
  void warmup(const std::string& owner, std::vector<std::vector<int32_t>> prefixes,
              std::optional<std::string> shared_cache = std::nullopt, RequestAdapters adapters = {},
              Speculation speculation = Speculation::off());

  /// Runs `use` on the service's thread between two steps, when no step is in flight: the model may
  /// be used in it for more than requests. Requests wait meanwhile. Called again after kOutOfMemory
  /// as long as the prefix cache can release states. Returns when it has run.
  /// Errors: kCancelled (the service is stopping); those of `use`.
  Status use_model(const std::function<Status()>& use);

  ServiceStats stats() const;
  StateLimits state_limits() const;
  /// Most tokens of one request.
  int64_t context() const;

  /// Refuses new requests and waits until those in flight are finished; cancels the rest at
  /// `deadline`. True if nothing had to be cancelled.
  bool drain(Clock::time_point deadline);
  /// Cancels the requests in flight, writes the prefix cache to disk and joins the thread. Model
  /// and tokenizer may be used elsewhere afterwards.
  void stop();

 private:
  struct Impl;
  explicit EngineService(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_SERVICE_H_
