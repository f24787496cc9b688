// What this machine's memory can do, measured.
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

/// The best of a few passes of all workers over arrays far larger than any cache; takes about half
/// a second.
Bandwidth measure_bandwidth(ThreadPool& pool);
/// Of copies within a GPU's memory. Errors: kOutOfMemory (256 MiB for it), kIo.
Result<Bandwidth> measure_bandwidth(kernels::cuda::Device& gpu);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_BANDWIDTH_H_
