// The outputs of a step, copied to host memory.
#ifndef CHIMERE_KERNELS_CUDA_STEP_OUTPUTS_H_
#define CHIMERE_KERNELS_CUDA_STEP_OUTPUTS_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "kernels/api.h"
#include "kernels/cuda/device/device.h"

namespace chimere::kernels::cuda {

/// Keeps its host memory from step to step.
class FetchedOutputs {
 public:
  /// Submits the copies. Errors: kOutOfMemory.
  Status fetch(Device& device, const StepOutputs& outputs);
  /// Pointers to host memory, which is complete when the device has done the copies.
  const StepOutputs& outputs() const { return outputs_; }

 private:
  struct Output {
    std::unique_ptr<Pinned> memory;
    size_t bytes = 0;
  };
  /// Returns the destination, nullptr for zero bytes.
  static Result<uint8_t*> copy(Output& to, Device& device, const void* from, size_t bytes);

  StepOutputs outputs_;
  Output logits_;
  Output top_;
  Output selected_;
  Output sums_;
  Output chosen_;
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_STEP_OUTPUTS_H_
