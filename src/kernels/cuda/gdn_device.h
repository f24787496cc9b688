// Device code shared by the kernels of the gated delta net.
#ifndef CHIMERE_KERNELS_CUDA_GDN_DEVICE_H_
#define CHIMERE_KERNELS_CUDA_GDN_DEVICE_H_

#include "kernels/cuda/batch_device.h"
#include "kernels/cuda/gdn_args.h"
#include "kernels/cuda/language.h"
#include "kernels/cuda/slice_runs.h"
#include "kernels/math.h"

namespace chimere::kernels::cuda {

__device__ __forceinline__ int conv_dim(const GdnDims& d) {
  return (2 * d.n_k_heads + d.n_v_heads) * d.head_dim;
}

/// The k head that v head h uses.
__device__ __forceinline__ int k_head_of(const GdnDims& d, int h) {
  return d.tiled_heads != 0 ? h % d.n_k_heads : h / (d.n_v_heads / d.n_k_heads);
}

/// Gates of a row and v head: the logarithm of the decay, and the factor of the correction.
struct Gates {
  float log_decay;
  float beta;
};

__device__ __forceinline__ Gates gates_from(float a, float dt_bias, float alpha, float beta) {
  return {a * softplus(alpha + dt_bias), sigmoid(beta)};
}

__device__ __forceinline__ Gates gates_from(const GdnScanArgs& args, int h, float alpha,
                                            float beta) {
  return gates_from(args.a[h], args.dt_bias[h], alpha, beta);
}

__device__ __forceinline__ Gates gates_of(const GdnScanArgs& args, int row, int h) {
  const float alpha = args.alpha.data[row * args.alpha.stride + h];
  const float beta = args.beta.data[row * args.beta.stride + h];
  return gates_from(args, h, alpha, beta);
}

/// Whether v head h is the first that uses its k head.
__device__ __forceinline__ bool first_of_k_head(const GdnDims& d, int h) {
  return d.tiled_heads != 0 ? h < d.n_k_heads : h % (d.n_v_heads / d.n_k_heads) == 0;
}

/// The parts of GdnShape::scan_row_floats().
__device__ __forceinline__ int64_t kept_k(const GdnDims& d, int k_head) {
  return static_cast<int64_t>(k_head) * d.head_dim;
}
__device__ __forceinline__ int64_t kept_corrections(const GdnDims& d, int h) {
  return static_cast<int64_t>(d.n_k_heads + h) * d.head_dim;
}
__device__ __forceinline__ int64_t kept_decay(const GdnDims& d, int h) {
  return static_cast<int64_t>(d.n_k_heads + d.n_v_heads) * d.head_dim + h;
}

/// State of v head h before the run.
__device__ __forceinline__ const float* state_before(const GdnScanArgs& args, int sequence, int h) {
  const int64_t head = static_cast<int64_t>(args.dims.head_dim) * args.dims.head_dim;
  if (args.run == 0) {
    return args.state.base + args.batch.read_slot[sequence] * args.state.stride + h * head;
  }
  return args.carry + (static_cast<int64_t>(sequence) * args.dims.n_v_heads + h) * head;
}

/// Where the state goes if another run of the sequence follows.
__device__ __forceinline__ float* state_carried(const GdnScanArgs& args, int sequence, int h) {
  const int64_t head = static_cast<int64_t>(args.dims.head_dim) * args.dims.head_dim;
  return args.carry + (static_cast<int64_t>(sequence) * args.dims.n_v_heads + h) * head;
}

/// Where the state after `row` is stored, or nullptr.
__device__ __forceinline__ float* state_after(const GdnScanArgs& args, int row, int h) {
  const int slot = args.batch.write_slot[row];
  if (slot < 0) return nullptr;
  const int64_t head = static_cast<int64_t>(args.dims.head_dim) * args.dims.head_dim;
  return args.state.base + slot * args.state.stride + h * head;
}

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_GDN_DEVICE_H_
