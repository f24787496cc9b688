// The work that constraints take, counted in units that depend on neither the machine nor its load.
#ifndef CHIMERE_CONSTRAINTS_WORK_H_
#define CHIMERE_CONSTRAINTS_WORK_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "base/result.h"

namespace chimere::constraints {

/// One unit is an item of an Earley set that is made or looked at, about 0.1 µs; or so many nodes
/// of a trie that are visited for a token mask.
inline constexpr uint64_t kNodesPerUnit = 8;

/// Most work of one call: a mask, or a token that is accepted. The other requests of a step wait
/// for an accepted token, at most some tenths of a second; for a mask, not more than kWorkPerStep.
/// A mask for which every node of a trie of 256,000 tokens is visited takes about 200,000 units.
inline constexpr uint64_t kWorkPerCall = 2'000'000;
/// Most work of one generation's mask between two steps. A mask that takes more is computed on
/// another thread, and that generation alone waits for it.
inline constexpr uint64_t kWorkPerStep = 10'000;
/// Most work of one generation, at its start and for each token. States and masks that are known
/// take none, so that ordinary constraints spend most at the start and 100 to 10,000 units a token
/// later.
inline constexpr uint64_t kWorkPerGeneration = 16'000'000;
inline constexpr uint64_t kWorkPerToken = 250'000;
/// Most work of a compilation, and of one that others wait behind.
inline constexpr uint64_t kWorkPerCompilation = 50'000'000;
inline constexpr uint64_t kWorkPerQuickCompilation = 100'000;

/// Counts the work of one call.
class WorkMeter {
 public:
  void begin(uint64_t limit) {
    spent_ = 0;
    limit_ = limit;
  }
  void add(uint64_t units) { spent_ += units; }
  uint64_t spent() const { return spent_; }
  /// What was computed since is not complete: it must be neither used nor kept.
  bool exhausted() const { return spent_ > limit_; }

 private:
  uint64_t spent_ = 0;
  uint64_t limit_ = kWorkPerCall;
};

/// Counts what the regular expressions, numbers and schemas of this thread compute while it exists:
/// they lie too deep to be given a meter. Scopes of one thread nest.
class WorkScope {
 public:
  /// Of a call: nothing ends before its result is complete.
  explicit WorkScope(WorkMeter& meter) : WorkScope(&meter, false, nullptr) {}
  /// Of a compilation, which ends where the meter is exhausted: its result is not valid then.
  /// `when_slow` is called once, after more than kWorkPerQuickCompilation; may be empty.
  WorkScope(WorkMeter& meter, const std::function<void()>& when_slow)
      : WorkScope(&meter, true, when_slow ? &when_slow : nullptr) {}
  ~WorkScope() { current_ = outer_; }
  WorkScope(const WorkScope&) = delete;
  WorkScope& operator=(const WorkScope&) = delete;

  static void add(uint64_t units) {
    if (current_ != nullptr) current_->count(units);
  }
  /// Whether the compilation in progress must end.
  static bool exhausted() {
    return current_ != nullptr && current_->ends_ && current_->meter_->exhausted();
  }

 private:
  WorkScope(WorkMeter* meter, bool ends, const std::function<void()>* when_slow)
      : outer_(std::exchange(current_, this)), meter_(meter), ends_(ends), when_slow_(when_slow) {}
  void count(uint64_t units) {
    meter_->add(units);
    if (when_slow_ != nullptr && meter_->spent() > kWorkPerQuickCompilation) {
      (*std::exchange(when_slow_, nullptr))();
    }
  }

  static inline constinit thread_local WorkScope* current_ = nullptr;
  WorkScope* outer_;
  WorkMeter* meter_;
  bool ends_;
  const std::function<void()>* when_slow_;
};

/// Counts the nodes of a trie that are visited.
class NodeCount {
 public:
  explicit NodeCount(WorkMeter& meter) : meter_(meter) {}
  /// One more node. False if the meter is exhausted.
  bool add() {
    if (++nodes_ % kNodesPerUnit != 0) return true;
    meter_.add(1);
    return !meter_.exhausted();
  }

 private:
  WorkMeter& meter_;
  uint64_t nodes_ = 0;
};

/// What one generation may still spend. A copy is that of a fork.
class WorkBudget {
 public:
  /// The limit of the next call.
  uint64_t next_call() {
    const uint64_t most = std::min(kWorkPerCall, allowed_ - std::min(allowed_, spent_));
    limited_ = limit_ < most;
    return std::min(limit_, most);
  }
  /// Calls that take more than `units` are put off, until end_limit().
  void begin_limit(uint64_t units) { limit_ = units; }
  bool put_off() const { return put_off_; }
  /// Whether a call was put off: its result is not valid, and it may be made again.
  bool end_limit() {
    limit_ = kWorkPerCall;
    return std::exchange(put_off_, false);
  }
  uint64_t spent() const { return spent_; }
  void add_token() { allowed_ += kWorkPerToken; }
  void spend(const WorkMeter& call) {
    spent_ += call.spent();
    (limited_ ? put_off_ : exhausted_) |= call.exhausted();
  }
  /// kUnsupported after a call that took more than was left: its result is not valid.
  Status status() const {
    if (!exhausted_) return {};
    return unsupported(
        "The constraint of this request takes too much work: its text can be read in too many ways "
        "at once. Use a grammar that is less ambiguous.");
  }

 private:
  uint64_t allowed_ = kWorkPerGeneration;
  uint64_t spent_ = 0;
  bool exhausted_ = false;
  uint64_t limit_ = kWorkPerCall;
  bool limited_ = false;  ///< the call in progress
  bool put_off_ = false;
};

}  // namespace chimere::constraints

#endif  // CHIMERE_CONSTRAINTS_WORK_H_
