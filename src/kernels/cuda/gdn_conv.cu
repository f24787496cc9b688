// The convolution of all rows of a step, in place (Ops::gdn_conv). Two launches: the first saves
// the inputs that neighbouring tiles of rows share, and writes the states; the second convolves.
//
// Bytes: qkv is read once, and twice at the edges of tiles (3 rows of 64), and written once.
#include "kernels/cuda/dot_device.h"
#include "kernels/cuda/gdn_device.h"
#include "kernels/cuda/ptx/dependent_launch.h"

namespace chimere::kernels::cuda {
/// Grid: [conv_dim / block, sequences, tiles of kConvTile rows]; one thread per channel.
CHIMERE_KERNEL(gdn_conv_edges, 256, GdnConvArgs, args) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int channels = conv_dim(args.dims);
  const int c = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const auto sequence = static_cast<int>(blockIdx.y);
  const SequenceRange rows = rows_of(args.batch, sequence);
  if (c >= channels || rows.count == 0) return;
  const int past = args.dims.taps - 1;
  const float* before = args.state.base + args.batch.read_slot[sequence] * args.state.stride + c;
  float old[kMaxTaps - 1];
  for (int t = 0; t < past; ++t) old[t] = before[static_cast<int64_t>(t) * channels];
  // The input `row` rows after the sequence's first row of this step; `row` may be as low as -past.
  auto input = [&](int row) {
    return row < 0 ? old[row + past] : args.qkv.data[(rows.begin + row) * args.qkv.stride + c];
  };
  const auto tile = static_cast<int>(blockIdx.z);
  if (tile * kConvTile < rows.count) {
    float* edge = args.edges +
                  static_cast<int64_t>(conv_edge(sequence, rows.begin, tile)) * past * channels + c;
    for (int t = 0; t < past; ++t) {
      edge[static_cast<int64_t>(t) * channels] = input(tile * kConvTile - past + t);
    }
  }
  if (tile > 0) return;
  for (int r = 0; r < rows.count; ++r) {
    float* kept = kept_row(args.batch, args.state, rows.begin + r);
    if (kept != nullptr) kept[c] = input(r);
  }
  for (int i = args.batch.sequence_slices[sequence]; i < args.batch.sequence_slices[sequence + 1];
       ++i) {
    const SliceArgs slice = args.batch.slices[i];
    const int end = slice.row_begin + slice.row_count;
    for (int r = slice.row_class == kPrefillRows ? end - 1 : slice.row_begin; r < end; ++r) {
      const int slot = args.batch.write_slot[r];
      if (slot < 0) continue;
      float* after = args.state.base + slot * args.state.stride + c;
      for (int t = 0; t < past; ++t) {
        after[static_cast<int64_t>(t) * channels] = input(r - rows.begin - past + 1 + t);
      }
    }
  }
}

/// Grid: [heads: q, k, v; tiles of kConvTile rows; sequences]; one thread per element of a head, in
/// whole warps. Dynamic shared memory: kConvRows * head_dim floats.
CHIMERE_KERNEL(gdn_conv_rows, 256, GdnConvArgs, args) {
  CHIMERE_DYNAMIC_SHARED(float, x);
  __shared__ float scale[kConvRows];
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int n = args.dims.head_dim;
  const int taps = args.dims.taps;
  const auto sequence = static_cast<int>(blockIdx.z);
  const SequenceRange rows = rows_of(args.batch, sequence);
  const auto tile = static_cast<int>(blockIdx.y);
  const int tile_begin = tile * kConvTile;
  if (tile_begin >= rows.count) return;
  const int tile_rows = min(kConvTile, rows.count - tile_begin);
  const int channels = conv_dim(args.dims);
  const auto head = static_cast<int>(blockIdx.x);
  const auto i = static_cast<int>(threadIdx.x);
  const bool works = i < n;
  const int c = head * n + (works ? i : 0);
  const bool normalised = head < 2 * args.dims.n_k_heads;

  // The last inputs, newest at the end; the weights likewise, so that both have fixed indices.
  float window[kMaxTaps];
  float weight[kMaxTaps];
  const float* edge = args.edges + static_cast<int64_t>(conv_edge(sequence, rows.begin, tile)) *
                                       (taps - 1) * channels;
#pragma unroll
  for (int t = 0; t < kMaxTaps; ++t) {
    const int from_oldest = t - (kMaxTaps - taps);
    weight[t] = from_oldest >= 0 ? args.weight[static_cast<int64_t>(c) * taps + from_oldest] : 0;
    window[t] = from_oldest >= 1 ? edge[static_cast<int64_t>(from_oldest - 1) * channels + c] : 0;
  }
  float* column = args.qkv.data + (rows.begin + tile_begin) * args.qkv.stride + c;
  for (int first = 0; first < tile_rows; first += kConvRows) {
    const int count = min(kConvRows, tile_rows - first);
    for (int r = 0; r < count && works; ++r) {
#pragma unroll
      for (int t = 0; t < kMaxTaps - 1; ++t) window[t] = window[t + 1];
      float* at = column + (first + r) * args.qkv.stride;
      window[kMaxTaps - 1] = *at;
      float sum = 0;
#pragma unroll
      for (int t = 0; t < kMaxTaps; ++t) {
        if (t >= kMaxTaps - taps) sum = fmaf(weight[t], window[t], sum);
      }
      if (normalised) {
        x[r * n + i] = silu(sum);
      } else {
        *at = silu(sum);
      }
    }
    if (!normalised) continue;
    __syncthreads();
    // One half warp per row.
    for (int base = 0; base < count; base += static_cast<int>(blockDim.x) / 16) {
      const int r = base + i / 16;
      const float* row = x + min(r, count - 1) * n;
      const float dot = half_warp_dot16(row, row, n);
      if (r < count && i % 16 == 0) scale[r] = 1.0F / sqrtf(dot + args.eps);
    }
    __syncthreads();
    for (int r = 0; r < count && works; ++r) {
      column[(first + r) * args.qkv.stride] = x[r * n + i] * scale[r];
    }
    __syncthreads();
  }
}

}  // namespace chimere::kernels::cuda
