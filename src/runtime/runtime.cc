#include "runtime/runtime.h"

#include <limits>

#include "base/system.h"

namespace chimere::runtime {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

int64_t host_bytes(int64_t wanted) {
  if (wanted > 0) return wanted;
  const int64_t available = available_memory();
  return available > 0 ? available : kUnlimited;  // 0: unknown
}

}  // namespace

Runtime::Runtime(const Options& options)
    : pool_(std::make_shared<ThreadPool>(options.threads > 0 ? options.threads : available_cpus())),
      gpu_(options.gpu),
      host_memory_(MemoryBudget::create(host_bytes(options.state_bytes))),
      gpu_memory_(MemoryBudget::create(kUnlimited)) {}

}  // namespace chimere::runtime
