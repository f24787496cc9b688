#include "runtime/memory_budget.h"

#include "base/byte_amount.h"

namespace chimere::runtime {

Result<std::unique_ptr<MemoryBudget::Share>> MemoryBudget::take(int64_t bytes) {
  int64_t taken = taken_;
  do {
    if (bytes > bytes_ - taken) {
      return out_of_memory("A model needs " + human_bytes(static_cast<double>(bytes)) +
                           " for its states, and the other models leave " +
                           human_bytes(static_cast<double>(bytes_ - taken)) +
                           " of the process's budget; give each model less (--state-memory).");
    }
  } while (!taken_.compare_exchange_weak(taken, taken + bytes));
  return std::make_unique<Share>(shared_from_this(), bytes);
}

Result<int64_t> state_memory(const Settings& settings) {
  auto limit = parse_byte_amount(settings.get(settings::kStateMemory));
  if (!limit.ok()) return invalid_argument("--state-memory: " + limit.error().message + ".");
  return limit;
}

}  // namespace chimere::runtime
