// Scratch memory of an op: device memory at a fixed address that grows to the largest use.
#ifndef CHIMERE_KERNELS_CUDA_SCRATCH_H_
#define CHIMERE_KERNELS_CUDA_SCRATCH_H_

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "kernels/cuda/device/device.h"

namespace chimere::kernels::cuda {

class Scratch {
 public:
  explicit Scratch(Device& device) : device_(device) {}

  /// Makes at least `bytes` available, with undefined contents. Errors: kOutOfMemory.
  Status resize(int64_t bytes);
  /// The same, but newly added memory is zeroed.
  Status resize_zeroed(int64_t bytes);

  /// The address does not change with resize().
  uint8_t* data() const { return range_ != nullptr ? range_->data() : nullptr; }

 private:
  Device& device_;
  std::unique_ptr<MemoryRange> range_;
  int64_t bytes_ = 0;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_SCRATCH_H_
