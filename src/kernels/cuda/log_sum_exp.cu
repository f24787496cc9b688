// Log-sum-exp statistics of rows of logits, in the order of docs/numerics.md ("log_sum_exp"). A
// half warp computes the partial sums of a piece, a block those of a row. Exponentials are f32;
// only the few operations on sums are f64, which is slow on some GPUs.
#include "kernels/cuda/language.h"
#include "kernels/cuda/log_sum_exp_args.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/exp_rule.h"

namespace chimere::kernels::cuda {

namespace {

constexpr uint32_t kMaskedBits = 0xFF800000U;  // -infinity

/// The largest value of `lanes` neighbouring lanes, a power of two.
__device__ __forceinline__ float largest_of(float x, int lanes) {
  for (int apart = lanes / 2; apart > 0; apart /= 2) {
    x = fmaxf(x, __shfl_xor_sync(kFullWarp, x, apart));
  }
  return x;
}

/// The tree over the sums of kExpLanes neighbouring lanes.
__device__ __forceinline__ double tree_of_lanes(double sum) {
  for (int apart = kExpLanes / 2; apart > 0; apart /= 2) {
    sum += __shfl_xor_sync(kFullWarp, sum, apart);
  }
  return sum;
}

}  // namespace

CHIMERE_KERNEL(exp_pieces, kExpThreads, ExpPiecesArgs, args) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  constexpr int kOwn = kExpPiece / kExpLanes;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kExpLanes;
  const int64_t row = blockIdx.y;
  const int piece = static_cast<int>(blockIdx.x) * (kExpThreads / kExpLanes) + thread / kExpLanes;
  const float* logits = args.logits + row * args.stride;
  float own[kOwn];
  float largest = __uint_as_float(kMaskedBits);
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const int at = piece * kExpPiece + i * kExpLanes + lane;
    own[i] = at < args.n ? logits[at] : __uint_as_float(kMaskedBits);
    largest = fmaxf(largest, own[i]);
  }
  largest = largest_of(largest, kExpLanes);
  float e = 0;
  float xe = 0;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const float x = below_largest(own[i], largest);
    const float power = exp_f32(x);
    e = e + power;
    xe = fmaf(x, power, xe);
  }
  const double e_sum = tree_of_lanes(static_cast<double>(e));
  const double xe_sum = tree_of_lanes(static_cast<double>(xe));
  if (lane != 0 || piece >= args.n_pieces) return;
  // The sums of a piece of masked logits are meaningless.
  const bool any = largest != __uint_as_float(kMaskedBits);
  args.pieces[row * args.n_pieces + piece] = {any ? e_sum : 0, any ? xe_sum : 0, largest};
}

CHIMERE_KERNEL(exp_rows, kExpThreads, ExpRowsArgs, args) {
  __shared__ float maxima[kExpThreads / kWarp];
  __shared__ double sums[kExpThreads];
  __shared__ double weighted[kExpThreads];
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int thread = static_cast<int>(threadIdx.x);
  const float masked = __uint_as_float(kMaskedBits);
  const LogSumExpArgs* pieces = args.pieces + static_cast<int64_t>(blockIdx.x) * args.n_pieces;
  float largest = masked;
  for (int p = thread; p < args.n_pieces; p += kExpThreads) {
    largest = fmaxf(largest, pieces[p].largest);
  }
  largest = largest_of(largest, kWarp);
  if (thread % kWarp == 0) maxima[thread / kWarp] = largest;
  __syncthreads();
  for (int w = 0; w < kExpThreads / kWarp; ++w) largest = fmaxf(largest, maxima[w]);
  double e = 0;
  double xe = 0;
  for (int p = thread; p < args.n_pieces; p += kExpThreads) {
    const LogSumExpArgs piece = pieces[p];
    if (piece.largest == masked) continue;
    const float below = below_largest(piece.largest, largest);
    const auto weight = static_cast<double>(exp_f32(below));
    e += weight * piece.e;
    xe += weight * (piece.xe + static_cast<double>(below) * piece.e);
  }
  sums[thread] = e;
  weighted[thread] = xe;
  __syncthreads();
  for (int half = kExpThreads / 2; half > 0; half /= 2) {
    if (thread < half) {
      sums[thread] += sums[thread + half];
      weighted[thread] += weighted[thread + half];
    }
    __syncthreads();
  }
  if (thread == 0) args.sums[blockIdx.x] = {sums[0], weighted[0], largest};
}

}  // namespace chimere::kernels::cuda
