// Prefix-cache warm-up: prompts that the engine computes while it is idle.
#ifndef CHIMERE_ENGINE_WARMUP_QUEUE_H_
#define CHIMERE_ENGINE_WARMUP_QUEUE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/generation_factory.h"
#include "engine/prefix_cache.h"
#include "engine/request.h"
#include "engine/speculation/drafters.h"
#include "engine/speculation/speculation.h"
#include "model/model.h"

namespace chimere::engine {

struct WarmupCounters {
  int64_t tokens = 0;  ///< computed
  int64_t computed = 0;
  int64_t cached = 0;   ///< prompts whose state was in the prefix cache already
  int64_t dropped = 0;  ///< for lack of memory, or because too many were waiting
};

/// Computes states that later prompts are likely to continue from. Only states of prefill rows may
/// serve them, because prefill and decode rows differ in their bits. The newest prompt comes first.
/// Belongs to one thread.
class WarmupQueue {
 public:
  /// More prompts drop the oldest.
  static constexpr size_t kMaxWaiting = 16;

  /// `cache` nullptr: nothing is ever queued. `make_room` frees memory for a generation; false if
  /// it cannot. All must outlive the queue.
  WarmupQueue(model::Model& model, PrefixCache* cache, GenerationFactory& generations,
              Drafters& drafters, std::function<bool(const Generation&)> make_room);

  /// Queues the prefix of `tokens` (of the vocabulary) that every longer prompt can continue from.
  /// In the scope of Request::owner or Request::shared_cache, with Request::adapters. The drafters
  /// of `speculation` read the rows as those of a prompt.
  void add(const std::string& owner, std::vector<int32_t> tokens,
           std::optional<std::string> shared_cache, RequestAdapters adapters,
           Speculation speculation);
  /// Queues the tokens of a finished generation: the next turn of the conversation begins with
  /// them, unless the template renders the generation differently.
  void add(const Generation& finished);
  /// Computes a part of a warm-up. False if none is left; then one unsaved state of the cache is
  /// written to disk.
  bool work();
  /// Drops the warm-up that is being computed and releases its memory. False if there is none.
  bool release();
  void clear();

  const WarmupCounters& counters() const { return counters_; }
  /// Those that wait or are being computed.
  int64_t size() const { return static_cast<int64_t>(waiting_.size()) + (current_ ? 1 : 0); }

 private:
  void push(Request request);
  bool start_next();

  model::Model& model_;
  PrefixCache* cache_;
  GenerationFactory& generations_;
  Drafters& drafters_;
  std::function<bool(const Generation&)> make_room_;
  std::deque<Request> waiting_;  ///< newest last
  std::unique_ptr<Generation> current_;
  WarmupCounters counters_;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_WARMUP_QUEUE_H_
