// One block a head of a sequence: see delta_rule_block.h.
#include "kernels/delta_rule_block.h"
#include "kernels/launch.h"

namespace chimere::train::cuda {
namespace {

constexpr int kForwardThreads = 256, kBackwardThreads = 512;

__global__ void __launch_bounds__(kForwardThreads, 2) forward(DeltaRule call) {
  extern __shared__ __align__(32) float memory[];
  delta_rule_forward(call, blockIdx.x, memory);
}

__global__ void __launch_bounds__(kBackwardThreads, 1) backward(DeltaRule call) {
  extern __shared__ __align__(32) float memory[];
  delta_rule_backward(call, blockIdx.x, memory);
}

}  // namespace

void delta_rule(const DeltaCall& c, bool back, Stream stream) {
  using B = Storage;
  const DeltaRule call{c.n_batch,
                       c.n_time,
                       c.n_k,
                       c.n_v,
                       static_cast<const B*>(c.mixed),
                       c.g,
                       c.beta,
                       static_cast<B*>(c.out),
                       c.states,
                       static_cast<const B*>(c.d_out),
                       static_cast<B*>(c.d_q),
                       static_cast<B*>(c.d_k),
                       static_cast<B*>(c.d_v),
                       c.d_g,
                       c.d_beta};
  const int tiles = back ? kBackwardTiles : kForwardTiles;
  const int bytes = (tiles * kTileFloats + kVectorFloats) * static_cast<int>(sizeof(float));
  auto* kernel = back ? &backward : &forward;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  kernel<<<static_cast<unsigned>(c.n_batch * c.n_v), back ? kBackwardThreads : kForwardThreads,
           bytes, static_cast<cudaStream_t>(stream.handle)>>>(call);
}

}  // namespace chimere::train::cuda
