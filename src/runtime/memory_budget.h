// Memory that several models of a process share, and the limit of the settings.
#ifndef CHIMERE_RUNTIME_MEMORY_BUDGET_H_
#define CHIMERE_RUNTIME_MEMORY_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/result.h"
#include "base/settings.h"

namespace chimere::runtime {

/// Counts what models were promised, whether or not they have allocated it yet, so that the next
/// model does not count on it. Thread-safe.
class MemoryBudget : public std::enable_shared_from_this<MemoryBudget> {
 public:
  /// A part of the budget that its destructor returns.
  class Share {
   public:
    Share(std::shared_ptr<MemoryBudget> of, int64_t bytes) : of_(std::move(of)), bytes_(bytes) {}
    ~Share() { of_->taken_ -= bytes_; }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

   private:
    std::shared_ptr<MemoryBudget> of_;
    int64_t bytes_;
  };

  /// `bytes` is what all models may be promised together.
  static std::shared_ptr<MemoryBudget> create(int64_t bytes) {
    return std::shared_ptr<MemoryBudget>(new MemoryBudget(bytes));
  }

  /// Errors: kOutOfMemory, with what is left.
  Result<std::unique_ptr<Share>> take(int64_t bytes);
  int64_t taken() const { return taken_; }
  int64_t left() const { return bytes_ - taken_; }

 private:
  explicit MemoryBudget(int64_t bytes) : bytes_(bytes) {}

  const int64_t bytes_;
  std::atomic<int64_t> taken_{0};
};

/// The amount of --state-memory, which is given. Errors: kInvalidArgument, which names the flag.
Result<int64_t> state_memory(const Settings& settings);

}  // namespace chimere::runtime

#endif  // CHIMERE_RUNTIME_MEMORY_BUDGET_H_
