// The language of device code (.cu): the subset of CUDA C++ that two compilers accept. nvcc
// compiles it for GPUs; any C++ compiler compiles it for the emulator, which tests the same sources
// on machines without a GPU.
//
// Rules of the subset:
//   - a kernel is declared with CHIMERE_KERNEL and takes one plain struct (see *_args.h);
//   - static shared memory is `__shared__ T name[N];` inside a function, dynamic shared memory is
//     CHIMERE_DYNAMIC_SHARED(T, name) (one array for each kernel, 16-byte aligned);
//   - warp operations name all lanes (kFullWarp) or exactly those that take part;
//   - inline PTX stays in ptx/, beside a portable definition;
//   - no host library, no recursion, no <cmath>: fmaf, sqrtf, fabsf and kernels/math.h.
// nvcc runs with -fmad=false: a fused multiply-add is written fmaf(), as docs/numerics.md requires.
#ifndef CHIMERE_KERNELS_CUDA_LANGUAGE_H_
#define CHIMERE_KERNELS_CUDA_LANGUAGE_H_

#include <cstdint>

#ifdef __CUDACC__

/// CHIMERE_KERNEL(name, maximum threads per block, Args, args) { ... } defines kernel `name` with
/// the only parameter `const Args& args`. The name is unique among all kernels.
#define CHIMERE_KERNEL(name, max_threads, Args, args) \
  extern "C" __global__ void __launch_bounds__(max_threads) name(const __grid_constant__ Args args)

/// The same, with registers limited so that a multiprocessor can hold `blocks` blocks.
#define CHIMERE_KERNEL_OF_BLOCKS(name, max_threads, blocks, Args, args) \
  extern "C" __global__ void __launch_bounds__(max_threads, blocks)     \
      name(const __grid_constant__ Args args)

#define CHIMERE_DYNAMIC_SHARED(T, name)                             \
  extern __shared__ __align__(16) uint8_t chimere_dynamic_shared[]; \
  T* const name = reinterpret_cast<T*>(chimere_dynamic_shared)

#else

#include "kernels/cuda/emulator/language.h"

#endif

namespace chimere::kernels::cuda {

inline constexpr uint32_t kFullWarp = 0xFFFFFFFFU;
inline constexpr int kWarp = 32;

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_LANGUAGE_H_
