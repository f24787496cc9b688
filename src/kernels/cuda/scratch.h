// Device memory that an op uses while it runs: at a fixed address, as large as the largest use.
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

  /// Room for `bytes`; what lies there has no meaning. Errors: kOutOfMemory.
  Status resize(int64_t bytes);
  /// The same, where what is new begins as zeros.
  Status resize_zeroed(int64_t bytes);

  /// The same address after every resize().
  uint8_t* data() const { return range_ != nullptr ? range_->data() : nullptr; }

 private:
  Device& device_;
  std::unique_ptr<MemoryRange> range_;
  int64_t bytes_ = 0;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_SCRATCH_H_
