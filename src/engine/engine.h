// Runs many requests on one model: mixes their rows into steps, samples, and tells the callers.
#ifndef CHIMERE_ENGINE_ENGINE_H_
#define CHIMERE_ENGINE_ENGINE_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "engine/generation.h"
#include "engine/histogram.h"
#include "engine/prefill_budget.h"
#include "engine/prefix_cache.h"
#include "engine/request.h"
#include "engine/speculation/draft_statistics.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace chimere::engine {

struct EngineOptions {
  int32_t max_step_rows = 512;  ///< of one forward(); at most what the model was loaded with
  int32_t max_running = 64;     ///< requests that have a state at the same time; the others wait
  int64_t context = 0;          ///< most tokens of one request; 0: as many as the state store holds
  /// How much longer than usual prompts may keep generations waiting for their next token.
  double max_itl_ratio = 2;
  /// Chooses the tokens of several requests at the same time, between two steps, so it may be the
  /// pool that the model uses; nullptr: one after the other. Must outlive the engine.
  ThreadPool* pool = nullptr;
  /// Of the model's state store; nullptr: prompts are computed whole. Must outlive the engine.
  PrefixCache* cache = nullptr;
};

/// What the engine is doing and has done.
struct EngineCounters {
  int64_t running = 0;    ///< requests with a state
  int64_t waiting = 0;    ///< requests without one
  int64_t suspended = 0;  ///< of those that wait: moved out of the state store
  int64_t steps = 0;
  int64_t prompt_tokens = 0;    ///< computed as prompt
  int64_t warmup_tokens = 0;    ///< computed as prompt while idle, for the prefix cache
  int64_t warmups_waiting = 0;  ///< prefix-cache warm-ups that wait or are being computed
  int64_t warmups_computed = 0;
  int64_t warmups_cached = 0;    ///< that found their state in the prefix cache
  int64_t warmups_dropped = 0;   ///< for want of memory, or because there were too many
  int64_t generated_tokens = 0;  ///< sampled
  int64_t evictions = 0;         ///< requests moved out of a full state store
  kernels::ExpertUse experts;    ///< of generations that may use fewer; as it was some steps ago
  Histogram batch;               ///< generations of the steps that had some: "seconds" are requests
};

/// A loop that its caller drives: submit() and cancel() at any time (callbacks included), step()
/// until it says that nothing is left. All on one thread.
///
/// What a request answers depends on the request alone. Every step holds one row of each request
/// that is decoding, with the drafts it wants to verify, then whole prompt chunks, as many as the
/// pace of the generations allows, taken in turn from the owners whose requests are still reading.
/// Where even one chunk would keep the generations waiting, they have steps in the midst of it.
/// Where the model chooses tokens itself and everybody is decoding, the next step is launched
/// before the tokens of the one before are known. Of those that wait, the owner with the fewest
/// running requests comes first. When the state store is full, what only the prefix cache holds
/// goes first; then the youngest request is copied out and comes back, with the same bits, when
/// there is room.
///
/// With a prefix cache, a generation that has ended is run again as prompt while nobody asks for
/// anything, or what warmup() names is: only what was computed as prompt may serve another prompt.
class Engine {
 public:
  /// Model and tokenizer must outlive the engine. Errors: kInvalidArgument (options).
  static Result<std::unique_ptr<Engine>> create(model::Model& model,
                                                const text::Tokenizer& tokenizer,
                                                const EngineOptions& options);
  ~Engine();

  /// Errors: kInvalidArgument (an empty or too long prompt, tokens that do not exist, sampling
  /// values out of range); no callback is called then.
  Result<RequestId> submit(Request request);
  /// The two halves of submit(). check() reads nothing that changes: any thread may call it.
  /// add() takes a request that has passed it under an id that is larger than all before.
  Status check(const Request& request) const;
  void add(RequestId id, Request request);
  /// The request ends at the next step() with FinishReason::kCancelled; what it has said so far is
  /// in its outcome. False if there is no such request (any more).
  bool cancel(RequestId id);
  void cancel_all();

  /// Prefix-cache warm-up: while the engine is idle it computes the state behind the longest
  /// beginning of `tokens` that every longer prompt can continue from. The newest one comes first.
  /// `owner` as Request::owner. Does nothing without a prefix cache, or for more tokens than the
  /// context holds.
  void warmup(const std::string& owner, std::vector<int32_t> tokens);

  /// Computes one step, or, when there is nothing to compute, part of a generation that is run
  /// again. False when there is nothing left to do; the prefix cache may still be working (it wakes
  /// its owner).
  bool step();
  /// Nothing is running or waiting.
  bool idle() const { return running_.empty() && waiting_.empty(); }

  int64_t context() const { return options_.context; }
  EngineCounters counters() const;

 private:
  using List = std::vector<std::unique_ptr<Generation>>;
  struct Planned {
    Generation* generation = nullptr;
    int64_t rows = 0;  ///< of the prompt; 0: a decode row
  };

  struct RowCounts {
    int64_t generations = 0;
    int64_t prompt_rows = 0;
  };

  /// A step of generations that the model has been asked for and nobody has waited for.
  struct InFlight {
    std::vector<Planned> planned;  ///< without a generation: the generation has ended since
    model::StepPlan plan;
    std::chrono::steady_clock::time_point launched;
  };

  Engine(model::Model& model, const text::Tokenizer& tokenizer, const EngineOptions& options);

  void finish_cancelled();
  void admit();
  size_t next_waiting(const std::set<RequestId>& skipped) const;
  bool look_up(Generation& candidate);
  bool make_room_for(const Generation& candidate);
  bool evict();
  bool has_room_for(const Generation& candidate) const;
  int64_t pages_for(int64_t tokens) const;
  std::vector<Planned> plan_rows();
  static RowCounts count_rows(const std::vector<Planned>& planned);
  void measure_prefill_budget(const std::vector<Planned>& planned, double seconds);
  void handle_failure(const Error& error, std::vector<Planned> planned);
  void propose_drafts();
  /// Rows of the next step that are left for drafts.
  int64_t draft_rows() const;
  model::StepPlan make_plan(const std::vector<Planned>& planned);
  bool worth_interleaving(const std::vector<Planned>& planned) const;
  void begin_step(std::vector<Planned> planned);
  std::optional<InFlight> launch(const std::vector<Planned>& planned, bool behind);
  bool may_overlap() const;
  void finish_in_flight();
  Status compute(const std::vector<Planned>& planned);
  Status compute_interleaved(const std::vector<Planned>& planned);
  Status generate_once();
  /// The step is to be tried again without drafts; false if it has none.
  static bool drop_drafts(const std::vector<Planned>& planned);
  void choose(const std::vector<Planned>& planned, const model::StepResult& result);
  void accept(const std::vector<Planned>& planned);
  void learn(const model::StepPlan& plan, double seconds);
  void drop_finished();
  void plan_warmup(const Generation& finished);
  int64_t stable_end_of(std::span<const int32_t> tokens) const;
  void add_warmup(Request again);
  void drop_warmup();
  bool work_while_idle();
  bool start_warmup();
  Generation::Options generation_options(bool cached) const;

  model::Model& model_;
  const text::Tokenizer& tokenizer_;
  EngineOptions options_;
  std::vector<int32_t> message_starts_;
  RequestId next_id_ = 1;
  List running_;  ///< with a state, oldest first
  List waiting_;  ///< without one, oldest first
  std::vector<RequestId> cancelled_;
  size_t running_limit_;  ///< most running requests since the state store was last found full
  size_t turn_ = 0;       ///< who gets the first prompt chunk
  PrefillBudget prefill_budget_;
  std::chrono::steady_clock::time_point last_decode_;  ///< when a step of generations last ended
  double longest_part_ = 0;      ///< seconds between two interrupts of the last divided step
  std::deque<Request> warmups_;  ///< generations to run again as prompts, the newest last
  std::unique_ptr<Generation> warmup_;
  EngineCounters counters_;
  DraftStatistics draft_statistics_;
  bool drafts_ready_ = false;  ///< of those who are decoding, for their next step
  /// While requests come without a pause, states are written to disk so often.
  static constexpr int64_t kStepsPerSave = 1024;
  std::optional<InFlight> in_flight_;
  int32_t overlapped_steps_ = 0;  ///< launched one behind the other without a look at drafts
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_ENGINE_H_
