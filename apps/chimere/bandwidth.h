// Measures the memory bandwidth of the host or of a GPU.
#ifndef CHIMERE_APPS_CHIMERE_BANDWIDTH_H_
#define CHIMERE_APPS_CHIMERE_BANDWIDTH_H_

#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/cuda/device/device.h"

namespace chimere::app {

struct Bandwidth {
  double read = 0;  ///< GB/s; 0: not measured
  double copy = 0;  ///< GB/s, bytes read and bytes written together
};

/// Host memory: the best of a few passes of all workers over arrays far larger than any cache.
/// Takes about half a second.
Bandwidth measure_bandwidth(ThreadPool& pool);
/// Copies within a GPU's memory. Errors: kOutOfMemory (it needs 256 MiB), kIo.
Result<Bandwidth> measure_bandwidth(kernels::cuda::Device& gpu);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_BANDWIDTH_H_
