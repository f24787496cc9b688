// Runs many requests on one model: batches their rows into steps, samples tokens and calls the
// requests' callbacks.
#ifndef CHIMERE_ENGINE_ENGINE_H_
#define CHIMERE_ENGINE_ENGINE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/stopwatch.h"
#include "base/thread_pool.h"
#include "engine/background.h"
#include "engine/generation.h"
#include "engine/generation_factory.h"
#include "engine/histogram.h"
#include "engine/overlap_pipeline.h"
#include "engine/prefix_cache.h"
#include "engine/request.h"
#include "engine/scheduler.h"
#include "engine/speculation/drafter.h"
#include "engine/speculation/drafters.h"
#include "engine/step_planner.h"
#include "engine/step_sampler.h"
#include "engine/warmup_queue.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace chimere::engine {

struct EngineOptions {
  int32_t max_step_rows = 512;  ///< rows of one forward(); at most what the model was loaded with
  int32_t max_running = 64;     ///< requests that have a state at the same time; the others wait
  int64_t context = 0;          ///< token limit of a request; 0: the capacity of the state store
  /// Upper bound for the inter-token latency while prompts are computed, relative to a step without
  /// prompt rows (see PrefillBudget).
  double max_itl_ratio = 2;
  /// Samples the tokens of several requests in parallel between two steps, so it may be the pool
  /// that the model uses; nullptr: sequentially. Must outlive the engine.
  ThreadPool* pool = nullptr;
  /// A cache over the model's state store; nullptr: every prompt is computed whole. Must outlive
  /// the engine.
  PrefixCache* cache = nullptr;
  /// Called on another thread when step() has work again; empty: step() computes all masks itself.
  std::function<void()> wake = {};
  /// Masks that take more are computed on another thread (constraints/work.h).
  uint64_t mask_work = constraints::kWorkPerStep;
  /// A drafter's own model; nullptr: none. Without Model::memory() of the engine's model it is not
  /// used. Must outlive the engine and the cache.
  model::Model* draft_model = nullptr;
  /// Request::speculation selects from these; must outlive the engine.
  std::span<const DrafterType* const> drafters = drafter_types();
  /// Measures steps and drafts. What it says decides how many prompt rows a step has and which
  /// drafts are verified.
  Now now = std::chrono::steady_clock::now;
  /// Called once: the first request goes without a drafter's drafts for want of memory. May be
  /// empty; must not block.
  std::function<void()> draft_memory_full = {};
};

/// Gauges and totals of an engine.
struct EngineCounters {
  int64_t running = 0;    ///< requests with a state
  int64_t waiting = 0;    ///< requests without a state
  int64_t suspended = 0;  ///< waiting requests whose state was copied out of the state store
  int64_t steps = 0;
  int64_t overlapped_steps = 0;  ///< launched before the tokens of the preceding step were known
  int64_t prompt_tokens = 0;     ///< prompt tokens computed
  int64_t warmup_tokens = 0;     ///< tokens computed by idle-time prefix-cache warm-up
  int64_t warmups_waiting = 0;   ///< prefix-cache warm-ups that wait or are being computed
  int64_t warmups_computed = 0;
  int64_t warmups_cached = 0;     ///< warm-ups whose state was in the prefix cache already
  int64_t warmups_dropped = 0;    ///< for lack of memory, or because too many were waiting
  int64_t generated_tokens = 0;   ///< sampled
  int64_t evictions = 0;          ///< requests suspended because the state store was full
  kernels::ExpertUse experts;     ///< of requests that may skip experts; updated every few steps
  int64_t masks_beside = 0;       ///< token masks computed on another thread
  SpeculationCounts speculation;  ///< of all requests
  BatchHistogram batch;           ///< decoding requests per decode step
};

/// The scheduler. Its caller drives it: submit() and cancel() at any time (also from callbacks),
/// step() until it returns false. Single-threaded.
///
/// The output of a request depends on the request alone, not on scheduling. A step contains one
/// decode row of each decoding request, followed by the drafts to verify, then whole prompt chunks:
/// as many as PrefillBudget allows, round-robin over the owners that have requests in prefill. If
/// even one chunk exceeds the inter-token-latency budget, decode steps are interleaved with the
/// layers of the prefill (StepPlan::interleave). If the GPU samples the tokens of all requests in
/// it, the next step is launched before the tokens of the current one are known (overlap
/// scheduling), unless a waiting request could be admitted first. Waiting requests are admitted by
/// owner, the owner with the fewest running requests first. When the state store is full, states
/// that only the prefix cache holds are evicted first; then the youngest request is suspended: its
/// state is copied out and restored bit for bit when there is memory.
///
/// With a prefix cache, the tokens of a finished generation, and those that warmup() names, are
/// computed again as prompt while the engine is idle (warm-up): only states of prefill rows may
/// serve later prompts, because prefill and decode rows differ in their bits. The cache keeps with
/// a state what drafters have of its tokens.
class Engine {
 public:
  /// Model and tokenizer must outlive the engine. Errors: kInvalidArgument (options).
  static Result<std::unique_ptr<Engine>> create(model::Model& model,
                                                const text::Tokenizer& tokenizer,
                                                const EngineOptions& options);
  /// Errors: kInvalidArgument (an empty or too long prompt, token ids out of range, sampling values
  /// out of range, taps that are no layers or do not rise); no callback is called then.
  Result<RequestId> submit(Request request);
  /// The two halves of submit(). check() reads only immutable data and may be called from any
  /// thread. add() takes a request that check() has accepted; `id` must be larger than all ids
  /// before it.
  Status check(const Request& request) const;
  void add(RequestId id, Request request);
  /// The request ends at the next step() with FinishReason::kCancelled; its outcome holds what was
  /// generated so far. False if no such request is in flight.
  bool cancel(RequestId id);
  void cancel_all();

  /// Waits for the steps in flight, so that the caller may use the model itself until the next
  /// step().
  void settle();
  /// Releases a state that only the prefix cache or a warm-up holds. False if there is none.
  bool release_cached() { return scheduler_.evict(); }

  /// Prefix-cache warm-up: while the engine is idle it computes the state after the longest prefix
  /// of `tokens` that every longer prompt can continue from. The newest warm-up runs first.
  /// `owner`, `shared_cache` and `adapters` as in Request. No effect without a prefix cache, or if
  /// the context cannot hold the tokens. `speculation`: of the prompts to come, whose drafters read
  /// the rows.
  void warmup(const std::string& owner, std::vector<int32_t> tokens,
              std::optional<std::string> shared_cache = std::nullopt, RequestAdapters adapters = {},
              Speculation speculation = Speculation::off());

  /// Computes one step or, if no request needs one, a part of a prefix-cache warm-up. False if no
  /// work is left now; the prefix cache may still have background work (it calls
  /// PrefixCacheOptions::wake), and so may masks (EngineOptions::wake).
  bool step();
  /// No request is running or waiting.
  bool idle() const { return scheduler_.running().empty() && scheduler_.waiting().empty(); }

  int64_t context() const { return options_.context; }
  EngineCounters counters() const;

 private:
  Engine(model::Model& model, const text::Tokenizer& tokenizer, const EngineOptions& options);

  Status check_tokens(std::span<const int32_t> tokens, const char* where) const;
  void finish_cancelled();
  bool begin_step();
  void finish_oldest_step();
  bool may_overlap() const;
  void sample(LaunchedStep& step, const model::StepResult& result);
  void observe(const LaunchedStep& step, std::span<const ConstMatrixView> taps);
  void keep(LaunchedStep& step);
  void hand_over(const StepRows& rows, const model::StepPlan& plan, const Request& request);
  void accept(std::span<const PlannedRows> planned);
  Status compute(LaunchedStep& step);
  Status compute_interleaved();
  Status decode_once();
  void handle_failure(const Error& error, std::vector<PlannedRows>& planned);
  void propose_drafts();
  void prepare_masks();
  /// Removes the drafts of the step, so that it can be tried again without them; false if it has
  /// none.
  static bool drop_drafts(std::span<const PlannedRows> planned);
  void learn(const LaunchedStep& step, double seconds);
  void drop_finished();
  double seconds_since(std::chrono::steady_clock::time_point then) const;

  model::Model& model_;
  EngineOptions options_;
  Drafters drafters_;
  GenerationFactory generations_;
  RequestId next_id_ = 1;
  std::vector<RequestId> cancelled_;
  Scheduler scheduler_;
  WarmupQueue warmups_;
  StepPlanner planner_;
  StepSampler sampler_;
  std::optional<Background> masks_;                    ///< computes masks that take much work
  LaunchedStep step_;                                  ///< computed by forward(); memory is reused
  LaunchedStep interleaved_;                           ///< decode steps inside another step
  std::vector<PlannedRows> next_;                      ///< scratch
  std::vector<DraftingSequence> drafting_;             ///< scratch
  std::chrono::steady_clock::time_point last_decode_;  ///< when a decode step last ended
  std::chrono::steady_clock::time_point last_step_;    ///< when a step last ended
  double longest_part_ = 0;  ///< seconds between interleave points of the last interleaved step
  EngineCounters counters_;
  bool settling_ = false;         ///< launch no further step
  bool drafts_ready_ = false;     ///< the drafts of the next step have been proposed
  int32_t overlapped_steps_ = 0;  ///< since drafts were last considered
  /// Steps between two writes of cached states to disk while requests never pause.
  static constexpr int64_t kStepsPerSave = 1024;
  OverlapPipeline pipeline_;  ///< destroyed first: the steps in flight use the generations' states
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_ENGINE_H_
