// Ops::gdn_mix for step rows in one launch, with heads of 128 elements and a convolution of four
// taps: convolution, normalisation of q and k, the delta rule, the gated norm and its rounding. The
// bits are those of the ops one by one (docs/numerics.md).
//
// A block has one v head of one sequence. Its state lies in shared memory, where it is on its way
// before the previous kernel has ended; three such blocks of one row each share a multiprocessor of
// 228 KiB, so that states come and go while others are computed. A thread of the first four warps
// has the chains over one column; meanwhile the others do what the column does not need. The state
// is then advanced by rows, 16 bytes a thread.
//
// Bytes of a row: 2 * 4 * n_v_heads * head_dim² of state, and what the convolution reads.
#include "kernels/cuda/dot16.h"
#include "kernels/cuda/dot_device.h"
#include "kernels/cuda/gdn_device.h"
#include "kernels/cuda/ptx/async_copy.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/cuda/rounding.h"

namespace chimere::kernels::cuda {
namespace {

inline constexpr int kPast = kMixTaps - 1;
inline constexpr int kWarps = kMixThreads / kWarp;
/// Warps with the chains, a lane for each column; blocks of 32 outputs of a head.
inline constexpr int kColumnWarps = kMixDim / kWarp;
static_assert(2 * kMixDim == kMixThreads, "a thread for each channel of the q and k heads");

/// A channel of the convolution: its weights, and the inputs before the row.
struct Channel {
  float4 weight;
  float past[kPast];

  __device__ __forceinline__ void begin(const GdnMixArgs& args, const float* before, int channel) {
    const int64_t width = conv_dim(args.scan.dims);
    weight = *reinterpret_cast<const float4*>(args.conv_weight + int64_t{kMixTaps} * channel);
#pragma unroll
    for (int t = 0; t < kPast; ++t) past[t] = before[t * width + channel];
  }

  __device__ __forceinline__ void advance(float input) {
#pragma unroll
    for (int t = 0; t + 1 < kPast; ++t) past[t] = past[t + 1];
    past[kPast - 1] = input;
  }

  __device__ __forceinline__ float convolve(float input) const {
    float sum = fmaf(weight.x, past[0], 0.0F);
    sum = fmaf(weight.y, past[1], sum);
    sum = fmaf(weight.z, past[2], sum);
    return silu(fmaf(weight.w, input, sum));
  }

  /// The state behind a row, if it keeps one.
  __device__ __forceinline__ void write(const GdnMixArgs& args, int slot, int channel) const {
    if (slot < 0) return;
    const int64_t width = conv_dim(args.scan.dims);
    float* const after = args.conv_state.base + slot * args.conv_state.stride + channel;
#pragma unroll
    for (int t = 0; t < kPast; ++t) after[t * width] = past[t];
  }
};

/// What the state is advanced by, of row r and column c.
template <int kRows>
__device__ __forceinline__ float delta_of(const GdnMixShared<kRows>& shared, int r, int c) {
  return shared.beta[r] * fmaf(-shared.decay[r], shared.kept[r][c], shared.raw[r][2 * kMixDim + c]);
}

template <int kRows>
__device__ __forceinline__ float out_of(const GdnMixShared<kRows>& shared, int r, int c) {
  return fmaf(shared.kq[r], delta_of(shared, r, c), shared.decay[r] * shared.read[r][c]);
}

/// Normalises the q heads (first half of the threads) and the k heads of rows 0 .. kRows - 1; those
/// that are not there have any value.
template <int kRows>
__device__ __forceinline__ void normalise(GdnMixShared<kRows>& shared, const float (&own)[kRows],
                                          float eps, int thread) {
  const int head = thread / kMixDim;
  float sum[kRows] = {};
#pragma unroll
  for (int i = 0; i < kMixDim; i += 16) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float x = shared.raw[r][head * kMixDim + i + thread % 16];
      sum[r] = fmaf(x, x, sum[r]);
    }
  }
#pragma unroll
  for (int h = 8; h > 0; h /= 2) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) sum[r] = sum[r] + __shfl_xor_sync(kFullWarp, sum[r], h);
  }
  const float read_scale = 1.0F / sqrtf(static_cast<float>(kMixDim));
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float x = own[r] * (1.0F / sqrtf(sum[r] + eps));
    if (head == 0) {
      shared.q[r][thread] = x * read_scale;
    } else {
      shared.k[r][thread - kMixDim] = x;
    }
  }
}

/// Both chains over column c.
template <int kRows>
__device__ __forceinline__ void read_column(GdnMixShared<kRows>& shared, int r, int c) {
  float kept = 0;
  float read = 0;
#pragma unroll 4
  for (int i = 0; i < kMixDim; i += 4) {
    const float4 k = *reinterpret_cast<const float4*>(&shared.k[r][i]);
    const float4 q = *reinterpret_cast<const float4*>(&shared.q[r][i]);
    const float* s = shared.state + i * kMixDim + c;
    const float s0 = s[0];
    const float s1 = s[kMixDim];
    const float s2 = s[2 * kMixDim];
    const float s3 = s[3 * kMixDim];
    kept = fmaf(k.x, s0, kept);
    read = fmaf(q.x, s0, read);
    kept = fmaf(k.y, s1, kept);
    read = fmaf(q.y, s1, read);
    kept = fmaf(k.z, s2, kept);
    read = fmaf(q.z, s2, read);
    kept = fmaf(k.w, s3, kept);
    read = fmaf(q.w, s3, read);
  }
  shared.kept[r][c] = kept;
  shared.read[r][c] = read;
}

/// Rows first, first + step, ... of the state behind row r, to `after` and, if more rows come, to
/// shared memory; four columns a lane.
template <int kRows>
__device__ __forceinline__ void advance_state(GdnMixShared<kRows>& shared, int r, int first,
                                              int step, bool more, float* after) {
  const int c = static_cast<int>(threadIdx.x) % kWarp * 4;
  const float decay = shared.decay[r];
  const float4 delta = make_float4(delta_of(shared, r, c), delta_of(shared, r, c + 1),
                                   delta_of(shared, r, c + 2), delta_of(shared, r, c + 3));
#pragma unroll 4
  for (int i = first; i < kMixDim; i += step) {
    auto* const at = reinterpret_cast<float4*>(&shared.state[i * kMixDim + c]);
    const float k = shared.k[r][i];
    float4 s = *at;
    s.x = fmaf(k, delta.x, decay * s.x);
    s.y = fmaf(k, delta.y, decay * s.y);
    s.z = fmaf(k, delta.z, decay * s.z);
    s.w = fmaf(k, delta.w, decay * s.w);
    if (more) *at = s;
    if (after != nullptr) *reinterpret_cast<float4*>(after + i * kMixDim + c) = s;
  }
}

/// 32 normalised outputs of row r, which is `row` of the step, by a warp; c: the lane's column.
template <int kRows>
__device__ __forceinline__ void write_outputs(const GdnMixArgs& args,
                                              const GdnMixShared<kRows>& shared, int r, int row,
                                              int h, int c, float weight) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kMixDim; i += 16) {
    const float x = out_of(shared, r, i + lane % 16);
    sum = fmaf(x, x, sum);
  }
  sum = tree_of_16(sum);
  const float scale = 1.0F / sqrtf(sum / static_cast<float>(kMixDim) + args.eps);
  const float y = out_of(shared, r, c) * scale * weight * shared.gate[r][c];
  args.scan.out.data[row * args.scan.out.stride + int64_t{kMixDim} * h + c] = y;
  if (args.rounded.q == nullptr) return;
  round_block_of_row(y, lane, row, h * kColumnWarps + c / kWarp,
                     args.scan.dims.n_v_heads * kColumnWarps, args.rounded);
}

template <int kRows>
__device__ __forceinline__ void mix(const GdnMixArgs& args, GdnMixShared<kRows>& shared) {
  const GdnScanArgs& scan = args.scan;
  const BatchArgs& batch = scan.batch;
  let_next_kernel_start();
  const auto thread = static_cast<int>(threadIdx.x);
  const int warp = thread / kWarp;
  const int lane = thread % kWarp;
  const auto h = static_cast<int>(blockIdx.x);
  const auto sequence = static_cast<int>(blockIdx.y);
  const int slice_begin = batch.sequence_slices[sequence];
  const int slice_end = batch.sequence_slices[sequence + 1];
  const int read_slot = batch.read_slot[sequence];
  if (slice_begin == slice_end) return;

  // Nobody has written these states in this step, and a step begins with a copy that waits for all
  // of the step before.
  const auto* state = reinterpret_cast<const uint8_t*>(
      scan.state.base + read_slot * scan.state.stride + int64_t{kMixDim} * kMixDim * h);
  for (int i = thread * 16; i < static_cast<int>(sizeof shared.state); i += kMixThreads * 16) {
    copy_async<16>(reinterpret_cast<uint8_t*>(shared.state) + i, state + i);
  }
  const int k_head = k_head_of(scan.dims, h);
  const int key_dim = scan.dims.n_k_heads * kMixDim;
  const int c = thread % kMixDim;
  const bool has_v = thread < kMixDim;
  const int qk_channel = thread / kMixDim * key_dim + k_head * kMixDim + c;
  const int v_channel = 2 * key_dim + h * kMixDim + c;
  const float* conv_before = args.conv_state.base + read_slot * args.conv_state.stride;
  Channel qk;
  Channel v = {};
  qk.begin(args, conv_before, qk_channel);
  if (has_v) v.begin(args, conv_before, v_channel);
  const Channel qk_before = qk;
  const float norm = args.norm[c];
  const int first_row = batch.slices[slice_begin].row_begin;
  const SliceArgs last_slice = batch.slices[slice_end - 1];
  const int rows = last_slice.row_begin + last_slice.row_count - first_row;
  wait_for_previous_kernel();

  uint32_t* const arrivals = args.arrivals + int64_t{sequence} * scan.dims.n_k_heads + k_head;
  const bool counts = thread == kMixThreads - 1;  // the thread that counts the readers of a k head
  uint32_t arrived = 0;
  for (int group = 0; group < rows; group += kRows) {
    const int count = min(kRows, rows - group);
    const int group_row = first_row + group;
    float own[kRows] = {};
    float own_v[kRows] = {};
    float z[kRows] = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r >= count) break;
      const float* inputs = scan.qkv.data + (group_row + r) * scan.qkv.stride;
      own[r] = inputs[qk_channel];
      if (has_v) {
        own_v[r] = inputs[v_channel];
      } else {
        z[r] = args.z.data[(group_row + r) * args.z.stride + int64_t{kMixDim} * h + c];
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r >= count) break;
      const float input = own[r];
      own[r] = qk.convolve(input);
      qk.advance(input);
      shared.raw[r][thread] = own[r];
      if (has_v) {
        shared.raw[r][2 * kMixDim + c] = v.convolve(own_v[r]);
        v.advance(own_v[r]);
        v.write(args, batch.write_slot[group_row + r], v_channel);
      }
    }
    __syncthreads();
    if (group == 0 && counts) {
      // The block has read what the last one writes.
      __threadfence();
      arrived = atomicAdd(arrivals, 1U);
    }
    normalise(shared, own, args.eps, thread);
    if (group == 0) wait_for_copies();
    __syncthreads();
    for (int r = 0; r < count; ++r) {
      if (warp < kColumnWarps) {
        read_column(shared, r, c);
      } else if (r == 0) {
        if (warp == kColumnWarps) {
          for (int i = 0; i < count; ++i) {
            const float kq = half_warp_dot16(shared.k[i], shared.q[i], kMixDim);
            if (lane == 0) shared.kq[i] = kq;
          }
        } else if (warp == kColumnWarps + 1 && lane < count) {
          const Gates gates = gates_of(scan, group_row + lane, h);
          shared.decay[lane] = exp_f32(gates.log_decay);
          shared.beta[lane] = gates.beta;
        }
#pragma unroll
        for (int i = 0; i < kRows; ++i) shared.gate[i][c] = silu(z[i]);
      }
      __syncthreads();
      const bool more = group + r + 1 < rows;
      float* const after = state_after(scan, group_row + r, h);
      if (more || rows > 1) {
        advance_state(shared, r, warp, kWarps, more, after);
        if (r + 1 < count) __syncthreads();
      } else if (warp >= kColumnWarps && after != nullptr) {
        advance_state(shared, r, warp - kColumnWarps, kWarps - kColumnWarps, more, after);
      }
    }
    for (int unit = warp; unit < count * kColumnWarps; unit += kWarps) {
      const int r = unit / kColumnWarps;
      write_outputs(args, shared, r, group_row + r, h, c, norm);
    }
    if (group + kRows < rows) __syncthreads();
  }
  // The last of the blocks that read a k head of a sequence writes the states of its convolution.
  if (counts) {
    const auto readers = static_cast<uint32_t>(scan.dims.n_v_heads / scan.dims.n_k_heads);
    shared.last_reader = rows > 0 && arrived + 1 == readers ? 1 : 0;
    if (shared.last_reader != 0) *arrivals = 0;
  }
  __syncthreads();
  if (shared.last_reader == 0) return;
  qk = qk_before;
  for (int row = first_row; row < first_row + rows; ++row) {
    qk.advance(scan.qkv.data[row * scan.qkv.stride + qk_channel]);
    qk.write(args, batch.write_slot[row], qk_channel);
  }
}

}  // namespace

// Grid: [v heads, sequences].

/// Sequences of one row each.
CHIMERE_KERNEL_OF_BLOCKS(gdn_step_128_row, kMixThreads, 3, GdnMixArgs, args) {
  CHIMERE_DYNAMIC_SHARED(GdnMixShared<1>, shared);
  mix(args, *shared);
}

CHIMERE_KERNEL_OF_BLOCKS(gdn_step_128_rows, kMixThreads, 2, GdnMixArgs, args) {
  CHIMERE_DYNAMIC_SHARED(GdnMixShared<kMixRows>, shared);
  mix(args, *shared);
}

}  // namespace chimere::kernels::cuda
