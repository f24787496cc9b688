// How much of a device's memory this process may use, and how much it uses.
#ifndef CHIMERE_KERNELS_CUDA_DEVICE_MEMORY_ACCOUNT_H_
#define CHIMERE_KERNELS_CUDA_DEVICE_MEMORY_ACCOUNT_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "base/result.h"

namespace chimere::kernels::cuda {

class MemoryAccount {
 public:
  void set_limit(int64_t bytes) { limit_ = bytes; }
  int64_t used() const { return used_; }

  /// Errors: kOutOfMemory beyond the limit; the account is then unchanged.
  Status take(size_t bytes) {
    const auto more = static_cast<int64_t>(bytes);
    if (more > limit_ - used_) {
      return out_of_memory("the limit of " + std::to_string(limit_) +
                           " bytes of the GPU is reached; allow more (--vram-budget), use a "
                           "smaller context (--ctx) or smaller cache types (--cache-k, --cache-v)");
    }
    used_ += more;
    return {};
  }
  void give_back(size_t bytes) { used_ -= static_cast<int64_t>(bytes); }

 private:
  int64_t limit_ = std::numeric_limits<int64_t>::max();
  int64_t used_ = 0;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_DEVICE_MEMORY_ACCOUNT_H_
