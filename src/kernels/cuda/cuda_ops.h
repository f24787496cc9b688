// The op set on a GPU (or its emulator).
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

/// How weights lie; no bit depends on it.
struct WeightPlacement {
  int host_expert_layers = 0;  ///< whose routed experts stay in the host's memory (host_experts.h)
  bool unpacked = false;       ///< on the GPU, as packed_type() has it
};

/// PendingToken, while weights are placed (before the first step), how many bytes of them the
/// device has got so far; the last of these may be on their way.
using OnUpload = std::function<void(int64_t bytes)>;

/// Ops whose memory is the device's; they are called within run_step() alone. A step of few rows
/// without chunks is recorded when its kind comes for the second time, and is one launch from then
/// on.
///
/// Decode rows have the bits of the CPU's. Prefill rows use tensor cores, with an order of sums
/// that is their own (docs/numerics.md), so that states are not exchanged with the CPU's
/// (kv_layout()).
///
/// The device and the pool (which packs weights, decodes rows of the embedding table and computes
/// experts of the host) must outlive it, and so must the weights of those experts. Errors:
/// kOutOfMemory, kIo.
Result<std::unique_ptr<Ops>> make_cuda_ops(Device& device, ThreadPool& pool,
                                           const WeightPlacement& places = {},
                                           OnUpload on_upload = {});

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_CUDA_OPS_H_
