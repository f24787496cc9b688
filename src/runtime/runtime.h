// What the models of one process share.
#ifndef CHIMERE_RUNTIME_RUNTIME_H_
#define CHIMERE_RUNTIME_RUNTIME_H_

#include <cstdint>
#include <memory>

#include "base/settings.h"
#include "base/thread_pool.h"
#include "runtime/memory_budget.h"

namespace chimere::runtime {

/// Threads, a GPU and memory, handed to load(). The models of a Runtime share one thread pool: the
/// loops of concurrent steps take turns, so that no more threads compute than there are CPUs. On a
/// GPU each model has its own streams and workspace. Immutable; models keep the parts alive that
/// they use. Two Runtimes share nothing.
class Runtime {
 public:
  struct Options {
    int threads = 0;          ///< 0: as many as this process has CPUs
    int gpu = 0;              ///< number of the GPU, for models that run on one
    int64_t state_bytes = 0;  ///< host memory for the states of all models; 0: what is free now
  };
  explicit Runtime(const Options& options);
  /// With --threads, and GPU 0.
  explicit Runtime(const Settings& settings)
      : Runtime(Options{.threads = static_cast<int>(settings.get(settings::kThreads))}) {}

  const std::shared_ptr<ThreadPool>& pool() const { return pool_; }
  int gpu() const { return gpu_; }
  /// For the states of models that run on the CPU.
  MemoryBudget& host_memory() const { return *host_memory_; }
  /// What models on the GPU were promised beyond what they had allocated when they were loaded.
  MemoryBudget& gpu_memory() const { return *gpu_memory_; }

 private:
  std::shared_ptr<ThreadPool> pool_;
  int gpu_;
  std::shared_ptr<MemoryBudget> host_memory_;
  std::shared_ptr<MemoryBudget> gpu_memory_;
};

}  // namespace chimere::runtime

#endif  // CHIMERE_RUNTIME_RUNTIME_H_
