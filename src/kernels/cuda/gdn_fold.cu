// Folds the rows that sequences have kept into their states (BatchView::fold_rows), before the ops
// of a gated delta-net layer read them. One launch for both states of a layer, or for one of them.
//
// Bytes: the states of the sequences that fold rows are read once and written once, whatever the
// number of rows; each block of a head reads the head's part of the rows.
#include "kernels/cuda/gdn_device.h"
#include "kernels/cuda/language.h"
#include "kernels/cuda/ptx/dependent_launch.h"

namespace chimere::kernels::cuda {
namespace {

inline constexpr int kMaxFoldDim = 256;  ///< GdnShape::head_dim
inline constexpr int kOwnElements = kFoldStateRows * kMaxFoldDim / kFoldThreads;

/// Row blocks of a sequence, and the slots before and after them.
struct Fold {
  const int32_t* row_blocks;
  int count;
  int from;
  int to;
};

/// kFoldStateRows rows of the state of v head h. A thread holds its elements in registers from the
/// first row block to the last.
__device__ void fold_scan(const GdnFoldArgs& args, const Fold& fold, int h, int part) {
  __shared__ float k[kFoldStateRows];
  __shared__ float corrections[kMaxFoldDim];
  const GdnDims& dims = args.dims;
  const int n = dims.head_dim;
  const auto thread = static_cast<int>(threadIdx.x);
  const int elements = kFoldStateRows * n;
  const int64_t at = static_cast<int64_t>(h) * n * n + static_cast<int64_t>(part) * elements;
  const float* before = args.scan.base + fold.from * args.scan.stride + at;
  float s[kOwnElements] = {};
#pragma unroll
  for (int j = 0; j < kOwnElements; ++j) {
    const int e = thread + j * kFoldThreads;
    if (e < elements) s[j] = before[e];
  }
  const int64_t k_at = kept_k(dims, k_head_of(dims, h)) + part * kFoldStateRows;
#pragma unroll 1
  for (int r = 0; r < fold.count; ++r) {
    const float* kept = args.scan.rows + fold.row_blocks[r] * args.scan.row_stride;
    __syncthreads();
    if (thread < kFoldStateRows) k[thread] = kept[k_at + thread];
    if (thread < n) corrections[thread] = kept[kept_corrections(dims, h) + thread];
    const float decay = kept[kept_decay(dims, h)];
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kOwnElements; ++j) {
      const int e = thread + j * kFoldThreads;
      if (e < elements) s[j] = fmaf(k[e / n], corrections[e % n], decay * s[j]);
    }
  }
  float* after = args.scan.base + fold.to * args.scan.stride + at;
#pragma unroll
  for (int j = 0; j < kOwnElements; ++j) {
    const int e = thread + j * kFoldThreads;
    if (e < elements) after[e] = s[j];
  }
}

/// The inputs of one channel of the convolution.
__device__ void fold_conv(const GdnFoldArgs& args, const Fold& fold, int c) {
  const int channels = conv_dim(args.dims);
  if (c >= channels) return;
  const int past = args.dims.taps - 1;
  const float* before = args.conv.base + fold.from * args.conv.stride + c;
  float inputs[kMaxTaps - 1];  // read before the state is written in place
#pragma unroll
  for (int t = 0; t < kMaxTaps - 1; ++t) {
    if (t >= past) break;
    const int at = t + fold.count;  // among the old inputs, then the rows
    inputs[t] = at < past ? before[static_cast<int64_t>(at) * channels]
                          : args.conv.rows[fold.row_blocks[at - past] * args.conv.row_stride + c];
  }
  float* after = args.conv.base + fold.to * args.conv.stride + c;
#pragma unroll
  for (int t = 0; t < kMaxTaps - 1; ++t) {
    if (t < past) after[static_cast<int64_t>(t) * channels] = inputs[t];
  }
}

}  // namespace

/// Grid: [parts of v heads, then parts of the channels; sequences]. Folds before the previous
/// kernel has ended: no other kernel of this step has touched the states and the kept rows, and a
/// step begins with a copy that waits for the whole previous step.
CHIMERE_KERNEL(gdn_fold, kFoldThreads, GdnFoldArgs, args) {
  let_next_kernel_start();
  const auto sequence = static_cast<int>(blockIdx.y);
  const int begin = args.batch.fold_begin[sequence];
  const int count = args.batch.fold_begin[sequence + 1] - begin;
  if (count == 0) {
    wait_for_previous_kernel();
    return;
  }
  const Fold fold = {args.batch.fold_rows + begin, count, args.batch.fold_from[sequence],
                     args.batch.read_slot[sequence]};
  const int parts = args.dims.head_dim / kFoldStateRows;
  const int scan_blocks = args.scan.base == nullptr ? 0 : args.dims.n_v_heads * parts;
  const auto block = static_cast<int>(blockIdx.x);
  if (block < scan_blocks) {
    fold_scan(args, fold, block / parts, block % parts);
  } else {
    fold_conv(args, fold, (block - scan_blocks) * kFoldThreads + static_cast<int>(threadIdx.x));
  }
  wait_for_previous_kernel();  // the kernels after this one read the previous kernel's results
}

}  // namespace chimere::kernels::cuda
