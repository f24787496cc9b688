// The op set on a GPU or on its emulator.
#ifndef CHIMERE_KERNELS_CUDA_CUDA_OPS_H_
#define CHIMERE_KERNELS_CUDA_CUDA_OPS_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/api.h"
#include "kernels/cuda/device/device.h"

namespace chimere::kernels::cuda {

/// Where and how weights are stored. Results do not depend on it.
struct WeightPlacement {
  int host_expert_buffers = 1;       ///< GPU buffers for ExpertPlacement::kHost (host_experts.h)
  bool unpacked = false;             ///< store weights as packed_type() says, unpacked for speed
  CpuIsa host_isa = best_cpu_isa();  ///< of the experts that the CPU computes
};

/// Called while weights are uploaded (before the first step) with the bytes submitted so far; the
/// last of them may still be in flight.
using OnUpload = std::function<void(int64_t bytes)>;

/// Ops on device memory; call them within run_step() only. A small step without prefill rows is
/// captured as a CUDA graph when its GraphKey occurs for the second time, and is a single launch
/// from then on.
///
/// Decode rows have the bits of the CPU back end. Prefill rows use tensor cores with their own
/// order of summation (docs/numerics.md), so states are not exchangeable with the CPU's
/// (kv_layout()).
///
/// `device` and `pool` (which packs weights, decodes embedding rows and computes host experts) must
/// outlive the result, and so must the weights of host experts. Errors: kOutOfMemory, kIo.
Result<std::unique_ptr<Ops>> make_cuda_ops(Device& device, ThreadPool& pool,
                                           const WeightPlacement& placement = {},
                                           OnUpload on_upload = {});

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_CUDA_OPS_H_
