// One random schedule: requests arrive, share steps, fork, are cancelled, evicted, restored and
// rolled back.
#ifndef CHIMERE_TESTS_SCHEDULE_FUZZ_WORLD_H_
#define CHIMERE_TESTS_SCHEDULE_FUZZ_WORLD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/prefix_cache.h"
#include "model/model.h"
#include "requests.h"

namespace chimere::fuzz {

/// Counts of all kinds of events, over all schedules.
struct Counts {
  int64_t steps = 0;
  int64_t rows_checked = 0;
  int64_t top_rows_checked = 0;  ///< rows with top-k logits only
  int64_t selected_checked = 0;  ///< single logits of those
  int64_t sums_checked = 0;      ///< rows of those
  int64_t masks_checked = 0;     ///< rows of those with a set of allowed tokens
  int64_t forks = 0;
  int64_t restores = 0;
  int64_t evictions = 0;
  int64_t returns = 0;
  int64_t rows_taken_back = 0;
  int64_t async_rows = 0;       ///< launched before their token was sampled
  int64_t drafts_accepted = 0;  ///< by Model::draft(), in verifications
  int64_t drafts_rejected = 0;
  int64_t drafted_blocks = 0;     ///< of rows that are all taken back
  int64_t non_causal_blocks = 0;  ///< of those
  int64_t mixed_depths = 0;       ///< steps that verified drafts of different depths
  int64_t cancellations = 0;
  int64_t refusals = 0;  ///< a pool was exhausted
  int64_t completions = 0;
  int64_t cached = 0;            ///< states given to the prefix cache
  int64_t adapted = 0;           ///< of those, of requests with adapters
  int64_t hits[5] = {};          ///< requests that continued from a state, by engine::CacheTier
  int64_t interleaved = 0;       ///< decode steps interleaved with a prefill
  int64_t forced_evictions = 0;  ///< states evicted for requests
  int64_t cache_starts = 0;      ///< the cache was closed and opened again
};

class World {
 public:
  /// `solo` runs a request alone at its first use. `folder`: an empty one, for the prefix cache.
  World(model::Model& model, model::Model& solo, std::vector<Request>& requests, uint32_t seed,
        Counts& counts, std::string folder)
      : model_(model),
        solo_(solo),
        requests_(requests),
        rng_(seed),
        counts_(counts),
        folder_(std::move(folder)) {}

  /// Runs the schedule to its end. Returns the failure, if any.
  std::optional<std::string> run();

 private:
  /// A running request.
  struct Job {
    size_t request = 0;
    std::unique_ptr<state::SequenceState> state;  ///< null while evicted
    std::vector<uint8_t> blob;                    ///< while evicted
    std::vector<state::Checkpoint> checkpoints;
    std::vector<int32_t> drafts;  ///< after the next token, to be verified in the next step
  };
  /// A job's part of the step that is being planned.
  struct Part {
    size_t job = 0;
    int32_t first = 0;    ///< position of its first row
    int32_t correct = 0;  ///< leading rows with the request's own tokens
    std::vector<int32_t> logits_of;
    int32_t top = 0;  ///< SequenceRows::top
    std::vector<std::vector<int32_t>> selected;
    std::vector<std::vector<uint32_t>> masks;  ///< of allowed tokens; empty ones: all tokens
    bool sums = false;
    bool revocable = false;
    size_t drafts = 0;  ///< rows that verify one of Model::draft()
  };

  struct Step {
    model::StepPlan plan;
    std::vector<Part> parts;
    size_t rows = 0;
  };

  uint32_t below(uint32_t n) { return static_cast<uint32_t>(rng_() % n); }
  bool chance(uint32_t percent) { return below(100) < percent; }
  Request& request_of(const Job& job) { return requests_[job.request]; }
  void fail(const std::string& what) {
    if (!failure_) failure_ = what;
  }

  void tick();
  void draft();
  int32_t choose_draft(Job& job, std::span<const float> logits);
  void step();
  void overlap_scheduling();
  bool compute(const Step& step);
  model::SequenceRows plan_rows(size_t job, Part& part);
  std::vector<int32_t> some_ids(uint32_t most);
  std::vector<uint32_t> some_mask();
  void plan_chunks(const Request& request, model::SequenceRows& rows);
  void plan_steps(const Request& request, model::SequenceRows& rows, Part& part);
  void count_drafts(const std::vector<Part>& parts);
  void check_logits(const std::vector<Part>& parts, const model::StepResult& result);
  void commit(const std::vector<Part>& parts);
  void relieve();
  void disturb(size_t i);
  void draft_block(Job& job);
  void fork(size_t i);
  void evict(Job& job);
  void come_back(Job& job);
  void remove(size_t i);
  void remove_finished();
  void open_cache();
  void remember(const Job& job);
  void recall(Job& job);

  model::Model& model_;
  model::Model& solo_;
  std::vector<Request>& requests_;
  std::mt19937 rng_;
  Counts& counts_;
  std::vector<Job> jobs_;
  uint32_t arrivals_left_ = 0;
  size_t popular_ = 0;  ///< a request with several chunks that is repeated
  std::optional<std::string> failure_;
  std::string folder_;
  std::unique_ptr<engine::PrefixCache> cache_;
};

}  // namespace chimere::fuzz

#endif  // CHIMERE_TESTS_SCHEDULE_FUZZ_WORLD_H_
