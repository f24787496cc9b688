// Ops::gdn_mix for sequences of at most one decode row in one launch, with heads of 128 elements
// and a convolution of four taps: convolution, normalisation of q and k, the delta rule, the gated
// norm and its rounding. The bits are those of the separate ops (docs/numerics.md). Sequences of
// several rows, and rows that are kept: gdn_decode_128_rows.
//
// A block handles one v head of one sequence. The state is loaded before the previous kernel has
// ended. It is kept in shared memory: three blocks share a multiprocessor of 228 KiB, so that
// states of some are transferred while others compute. While a quarter of the threads computes the
// chains over the columns, the second half computes everything else.
//
// A launch of few blocks is limited by instruction fetches, because the kernels of a layer evict
// each other's code from the caches. Its blocks warm the instruction cache before the previous
// kernel has ended: they process their row once with weights in place of its inputs, and discard
// the result.
//
// Bytes per row: 2 * 4 * n_v_heads * head_dim² of state, and the convolution's inputs.
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
/// Warps for one part of the columns; a head's outputs in blocks of 32.
inline constexpr int kColumnWarps = kMixDim / kWarp;
static_assert(kMixThreads == 2 * kMixDim, "a thread for each channel of the q and k heads");

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

  /// Writes the state after a row, if the row stores one.
  __device__ __forceinline__ void write(const GdnMixArgs& args, int slot, int channel) const {
    if (slot < 0) return;
    const int64_t width = conv_dim(args.scan.dims);
    float* const after = args.conv_state.base + slot * args.conv_state.stride + channel;
#pragma unroll
    for (int t = 0; t < kPast; ++t) after[t * width] = past[t];
  }
};

/// The inputs of the state update for column c.
__device__ __forceinline__ float delta_of(const GdnMixShared& shared, int c) {
  return shared.beta * fmaf(-shared.decay, shared.kept[c], shared.raw[2 * kMixDim + c]);
}

__device__ __forceinline__ float out_of(const GdnMixShared& shared, int c) {
  return fmaf(shared.kq, delta_of(shared, c), shared.decay * shared.read[c]);
}

/// Normalises the q head (first half of the threads) and the k head (second half).
__device__ __forceinline__ void normalise(GdnMixShared& shared, float own, float eps, int thread) {
  const int head = thread / kMixDim;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kMixDim; i += 16) {
    const float x = shared.raw[head * kMixDim + i + thread % 16];
    sum = fmaf(x, x, sum);
  }
  const float x = own * (1.0F / sqrtf(tree_of_16(sum) + eps));
  const float read_scale = 1.0F / sqrtf(static_cast<float>(kMixDim));
  if (head == 0) {
    shared.q[thread] = x * read_scale;
  } else {
    shared.k[thread - kMixDim] = x;
  }
}

/// The state of a head in shared memory.
struct StateInSharedMemory {
  float* s;  ///< [kMixDim, kMixDim]

  __device__ __forceinline__ void begin(const float* before) const {
    auto* const to = reinterpret_cast<uint8_t*>(s);
    const auto* from = reinterpret_cast<const uint8_t*>(before);
    for (int i = static_cast<int>(threadIdx.x) * 16; i < kMixStateBytes; i += kMixThreads * 16) {
      copy_async<16>(to + i, from + i);
    }
  }

  __device__ __forceinline__ void arrive() const { wait_for_copies(); }

  /// Computes the chains over the columns into shared memory: a lane of the first two warps handles
  /// two columns. The second half of the threads calls `meanwhile`.
  template <class F>
  __device__ __forceinline__ void read(GdnMixShared& shared, bool warm_icache, F meanwhile) const {
    const int c = 2 * static_cast<int>(threadIdx.x);
    if (c < kMixDim) {
      float kept[2] = {};
      float read[2] = {};
      auto add = [&](float k, float q, int i) {
        const float2 x = *reinterpret_cast<const float2*>(s + i * kMixDim + c);
        kept[0] = fmaf(k, x.x, kept[0]);
        kept[1] = fmaf(k, x.y, kept[1]);
        read[0] = fmaf(q, x.x, read[0]);
        read[1] = fmaf(q, x.y, read[1]);
      };
      constexpr int kAtOnce = 32;
#pragma unroll 1
      for (int begin = 0; begin < (warm_icache ? kAtOnce : kMixDim); begin += kAtOnce) {
#pragma unroll
        for (int j = 0; j < kAtOnce; j += 4) {
          const int i = begin + j;
          const float4 k = *reinterpret_cast<const float4*>(&shared.k[i]);
          const float4 q = *reinterpret_cast<const float4*>(&shared.q[i]);
          add(k.x, q.x, i);
          add(k.y, q.y, i + 1);
          add(k.z, q.z, i + 2);
          add(k.w, q.w, i + 3);
        }
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        shared.kept[c + j] = kept[j];
        shared.read[c + j] = read[j];
      }
    } else if (threadIdx.x >= kMixThreads / 2) {
      meanwhile();
    }
    __syncthreads();
  }

  /// Writes the updated state to `after` by the second half of the threads: a warp per row of the
  /// state, four columns per lane.
  __device__ __forceinline__ void advance(const GdnMixShared& shared, bool warm_icache,
                                          float* after) const {
    const int warp = static_cast<int>(threadIdx.x) / kWarp - kWarps / 2;
    if (warp < 0) return;
    const int c = static_cast<int>(threadIdx.x) % kWarp * 4;
    const float decay = shared.decay;
    const float4 delta = make_float4(delta_of(shared, c), delta_of(shared, c + 1),
                                     delta_of(shared, c + 2), delta_of(shared, c + 3));
    constexpr int kAtOnce = 8;  // values read before the first of them is written
    constexpr int kStep = kWarps / 2;
#pragma unroll 1
    for (int first = warp; first < (warm_icache ? kStep : kMixDim); first += kAtOnce * kStep) {
      float4 x[kAtOnce];
      float k[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        x[j] = *reinterpret_cast<const float4*>(s + (first + j * kStep) * kMixDim + c);
        k[j] = shared.k[first + j * kStep];
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        x[j].x = fmaf(k[j], delta.x, decay * x[j].x);
        x[j].y = fmaf(k[j], delta.y, decay * x[j].y);
        x[j].z = fmaf(k[j], delta.z, decay * x[j].z);
        x[j].w = fmaf(k[j], delta.w, decay * x[j].w);
        if (after == nullptr) continue;
        *reinterpret_cast<float4*>(after + (first + j * kStep) * kMixDim + c) = x[j];
      }
    }
  }
};

/// 32 normalised outputs of row `row` of the step, by one warp; c: the lane's column.
__device__ __forceinline__ void write_outputs(const GdnMixArgs& args, const GdnMixShared& shared,
                                              int row, int h, int c, float weight,
                                              bool warm_icache) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kMixDim; i += 16) {
    const float x = out_of(shared, i + lane % 16);
    sum = fmaf(x, x, sum);
  }
  sum = tree_of_16(sum);
  const float scale = 1.0F / sqrtf(sum / static_cast<float>(kMixDim) + args.eps);
  const float y = out_of(shared, c) * scale * weight * shared.gate[c];
  if (!warm_icache) args.scan.out.data[row * args.scan.out.stride + int64_t{kMixDim} * h + c] = y;
  if (args.rounded.q == nullptr) return;
  RoundedLane rounded[1];
  round_lanes({y}, rounded);
  if (warm_icache) return;
  put_block_of_row(rounded[0], lane, row, h * kColumnWarps + c / kWarp,
                   args.scan.dims.n_v_heads * kColumnWarps, args.rounded);
}

/// What the chains over the state do not need, by the second half of the threads: the product of k
/// and q, the gates, and silu(z).
__device__ __forceinline__ void prepare(const GdnMixArgs& args, GdnMixShared& shared, int row,
                                        int h, float z, bool warm_icache) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  static_assert(kWarps == 2 * kColumnWarps);
  if (warp == kColumnWarps) {
    const float kq = half_warp_dot16(shared.k, shared.q, kMixDim);
    if (lane == 0) shared.kq = kq;
  }
  if (warp == kWarps - 1 && lane == 0) {
    const GdnScanArgs& scan = args.scan;
    const float* alpha = warm_icache ? scan.a : scan.alpha.data + row * scan.alpha.stride;
    const float* beta = warm_icache ? scan.a : scan.beta.data + row * scan.beta.stride;
    const Gates gates = gates_from(scan, h, alpha[h], beta[h]);
    shared.decay = exp_f32(gates.log_decay);
    shared.beta = gates.beta;
  }
  shared.gate[threadIdx.x % kMixDim] = silu(z);
}

/// kWarmsIcache: the block warms the instruction cache first.
template <bool kWarmsIcache>
__device__ __forceinline__ void mix(const GdnMixArgs& args, GdnMixShared& shared,
                                    const StateInSharedMemory& state) {
  const GdnScanArgs& scan = args.scan;
  const BatchArgs& batch = scan.batch;
  let_next_kernel_start();
  const auto thread = static_cast<int>(threadIdx.x);
  const int warp = thread / kWarp;
  const auto h = static_cast<int>(blockIdx.x);
  const auto sequence = static_cast<int>(blockIdx.y);
  const int slice_begin = batch.sequence_slices[sequence];
  const int slice_end = batch.sequence_slices[sequence + 1];
  const int read_slot = batch.read_slot[sequence];
  if (slice_begin == slice_end) {
    wait_for_previous_kernel();
    return;
  }

  // No other kernel of this step has written these states, and a step begins with a copy that waits
  // for the whole previous step.
  const bool folded = args.folded != 0;
  if (!kWarmsIcache && folded) wait_for_previous_kernel();
  const int64_t head = int64_t{kMixDim} * kMixDim * h;
  const float* const state_before = scan.state.base + read_slot * scan.state.stride + head;
  if (!kWarmsIcache) state.begin(state_before);
  const int k_head = k_head_of(scan.dims, h);
  const int key_dim = scan.dims.n_k_heads * kMixDim;
  const int c = thread % kMixDim;
  const bool has_v = thread < kMixDim;
  const int qk_channel = thread / kMixDim * key_dim + k_head * kMixDim + c;
  const int v_channel = 2 * key_dim + h * kMixDim + c;
  const float* conv_before = args.conv_state.base + read_slot * args.conv_state.stride;
  Channel qk = {};
  Channel v = {};
  if (!kWarmsIcache || !folded) {
    qk.begin(args, conv_before, qk_channel);
    if (has_v) v.begin(args, conv_before, v_channel);
  }
  Channel qk_before = qk;
  Channel v_before = v;
  const float norm = args.norm[c];
  const int first_row = batch.slices[slice_begin].row_begin;
  const SliceArgs last_slice = batch.slices[slice_end - 1];
  const int rows = last_slice.row_begin + last_slice.row_count - first_row;
  uint32_t* const barrier_counters =
      args.barrier_counters + int64_t{sequence} * scan.dims.n_k_heads + k_head;
  const bool counts = thread == kMixThreads - 1;  // counts the readers of a k head
  uint32_t arrived = 0;
  int slot = -1;
  bool warm_icache = kWarmsIcache;
  if (!warm_icache) wait_for_previous_kernel();
#pragma unroll 1
  for (int done = 0; done < rows;) {
    slot = warm_icache ? -1 : batch.write_slot[first_row];
    // Weights may be read at any time, and there are enough of them.
    const float* inputs =
        warm_icache ? args.conv_weight : scan.qkv.data + first_row * scan.qkv.stride;
    const float* z_row = warm_icache ? args.conv_weight : args.z.data + first_row * args.z.stride;
    const float input = inputs[qk_channel];
    float input_v = 0;
    float z = 0;
    if (has_v) {
      input_v = inputs[v_channel];
    } else {
      z = z_row[kMixDim * h + c];
    }
    const float own = qk.convolve(input);
    qk.advance(input);
    shared.raw[thread] = own;
    if (has_v) {
      shared.raw[2 * kMixDim + c] = v.convolve(input_v);
      v.advance(input_v);
      v.write(args, slot, v_channel);
    }
    __syncthreads();
    normalise(shared, own, args.eps, thread);
    if (!warm_icache) state.arrive();
    __syncthreads();
    state.read(shared, warm_icache, [&] {
      prepare(args, shared, first_row, h, z, warm_icache);
      if (counts && !warm_icache) {
        // This block has read what the last one writes.
        __threadfence();
        arrived = atomicAdd(barrier_counters, 1U);
      }
    });
    // The first half of the threads computes the outputs while the second updates the state.
    if (warp < kColumnWarps) write_outputs(args, shared, first_row, h, c, norm, warm_icache);
    state.advance(shared, warm_icache,
                  slot < 0 ? nullptr : scan.state.base + slot * scan.state.stride + head);
    if (warm_icache) {
      warm_icache = false;
      if (folded) {
        wait_for_previous_kernel();
        qk_before.begin(args, conv_before, qk_channel);
        if (has_v) v_before.begin(args, conv_before, v_channel);
      }
      qk = qk_before;
      v = v_before;
      __syncthreads();  // the dry run has finished with the memory that the state overwrites
      state.begin(state_before);
      wait_for_previous_kernel();
    } else {
      ++done;
    }
  }
  if (kWarmsIcache) wait_for_previous_kernel();  // for a sequence without rows
  // The last block that reads a k head of a sequence writes the states of its convolution.
  if (counts) {
    const auto readers = static_cast<uint32_t>(scan.dims.n_v_heads / scan.dims.n_k_heads);
    shared.last_reader = rows > 0 && arrived + 1 == readers ? 1 : 0;
    if (shared.last_reader != 0) *barrier_counters = 0;
  }
  __syncthreads();
  if (shared.last_reader == 0) return;
  qk.write(args, slot, qk_channel);
}

}  // namespace

// Grid: [v heads, sequences]. Dynamic shared memory: a state, then GdnMixShared.

CHIMERE_KERNEL_OF_BLOCKS(gdn_decode_128_many, kMixThreads, 3, GdnMixArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, memory);
  StateInSharedMemory state = {reinterpret_cast<float*>(memory)};
  mix<false>(args, *reinterpret_cast<GdnMixShared*>(memory + kMixStateBytes), state);
}

/// The same for few blocks.
CHIMERE_KERNEL(gdn_decode_128_few, kMixThreads, GdnMixArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, memory);
  StateInSharedMemory state = {reinterpret_cast<float*>(memory)};
  mix<true>(args, *reinterpret_cast<GdnMixShared*>(memory + kMixStateBytes), state);
}

}  // namespace chimere::kernels::cuda
