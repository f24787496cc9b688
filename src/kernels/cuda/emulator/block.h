// Runs the threads of a block on one host thread. Each is a fiber with its own stack, and runs
// until it waits (at a barrier or a warp operation) or ends. Between two such points the threads
// run one after the other, in rising or falling order: a kernel that lacks a barrier gives
// different results in the two orders.
#ifndef CHIMERE_KERNELS_CUDA_EMULATOR_BLOCK_H_
#define CHIMERE_KERNELS_CUDA_EMULATOR_BLOCK_H_

#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace chimere::kernels::cuda::emulator {

struct Index3 {
  uint32_t x = 0;
  uint32_t y = 0;
  uint32_t z = 0;
};

/// Indices of a thread: threadIdx, blockIdx, blockDim, gridDim.
struct Thread {
  Index3 index;
  Index3 block;
  Index3 block_size;
  Index3 grid_size;
  uint32_t lane = 0;
};

/// The thread that runs now.
inline const Thread* running_thread = nullptr;
inline const Thread& current_thread() { return *running_thread; }

/// Most bytes that a lane can pass to its warp at once: the fragments of one matrix product.
inline constexpr size_t kSlotBytes = 64;

/// What the lanes of a warp passed to each other; valid until the warp's next operation.
struct WarpSlots {
  const uint8_t* first;
  const uint8_t* of_lane(uint32_t lane) const { return first + lane * kSlotBytes; }
};

/// Waits until every thread of the block has arrived here or ended.
void block_barrier();
/// Arrives at barrier `barrier` (1 to 15), which opens when `threads` threads have arrived, and
/// waits for that if `waits`.
void named_barrier(int barrier, int threads, bool waits);
/// Waits until all `lanes` of the warp have arrived here, each with `bytes` bytes to pass.
WarpSlots warp_exchange(uint32_t lanes, const void* mine, size_t bytes);
/// The block's dynamic shared memory.
uint8_t* dynamic_shared();

enum class Order { kRising, kFalling };

struct Grid {
  Index3 grid_size;
  Index3 block_size;
  size_t shared_bytes = 0;
  Order order = Order::kRising;
};

using Entry = void (*)(const void* args);

/// Adds a kernel to the table that find_kernel() searches.
struct Registration {
  Registration(const char* kernel_name, int threads_limit, size_t bytes, Entry function);
  const char* name;
  int max_threads;
  size_t args_bytes;
  Entry entry;
  const Registration* next;
};

/// nullptr if there is no such kernel.
const Registration* find_kernel(const char* name);

/// Runs every thread of every block, one block after the other in the order that the grid names.
/// Dynamic shared memory starts as NaNs in each block. Errors: kInvalidArgument (too many threads,
/// threads that wait for each other at different points). One call at a time per process.
Status run_grid(const Registration& kernel, const Grid& grid, const void* args);

}  // namespace chimere::kernels::cuda::emulator

#endif  // CHIMERE_KERNELS_CUDA_EMULATOR_BLOCK_H_
