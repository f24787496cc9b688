// Ops::gdn_mix for decode rows in one launch, with heads of 128 elements and a convolution of four
// taps: convolution, normalisation of q and k, the delta rule, the gated norm and its rounding. The
// bits are those of the separate ops (docs/numerics.md).
//
// A block handles one v head of one sequence. The state is loaded before the previous kernel has
// ended. If every sequence has one row, it is kept in shared memory: three blocks share a
// multiprocessor of 228 KiB, so that states of some are transferred while others compute. Otherwise
// it is kept in registers, so that it is read once, and written once for each row that stores it:
// thread (p, c) holds rows p * 64 .. of column c. While half of the threads compute the chains over
// the columns, the second half computes everything else.
//
// A launch of few blocks is limited by instruction fetches, because the kernels of a layer evict
// each other's code from the caches. Its blocks warm the instruction cache before the previous
// kernel has ended: they process their first row once with weights in place of its inputs, and
// discard the result.
//
// Bytes per row: 2 * 4 * n_v_heads * head_dim² of state, and the convolution's inputs. A row that
// is kept does not write the state.
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
/// Parts of a column, and rows per part.
inline constexpr int kParts = kMixThreads / kMixDim;
inline constexpr int kPartRows = kMixDim / kParts;
static_assert(kParts == 2, "a thread for each channel of the q and k heads");

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

/// The inputs of the state update for row r and column c.
template <int kRows>
__device__ __forceinline__ float delta_of(const GdnMixShared<kRows>& shared, int r, int c) {
  return shared.beta[r] * fmaf(-shared.decay[r], shared.kept[r][c], shared.raw[r][2 * kMixDim + c]);
}

template <int kRows>
__device__ __forceinline__ float out_of(const GdnMixShared<kRows>& shared, int r, int c) {
  return fmaf(shared.kq[r], delta_of(shared, r, c), shared.decay[r] * shared.read[r][c]);
}

/// Normalises the q heads (first half of the threads) and the k heads (second half) of rows 0 ..
/// kRows - 1. Missing rows may hold any value.
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

/// The state of a head in registers.
struct StateInRegisters {
  float s[kPartRows];

  static __device__ __forceinline__ int part() { return static_cast<int>(threadIdx.x) / kMixDim; }
  static __device__ __forceinline__ int column() { return static_cast<int>(threadIdx.x) % kMixDim; }
  static __device__ __forceinline__ int place() { return part() * kPartRows * kMixDim + column(); }

  __device__ __forceinline__ void begin(const float* before) {
#pragma unroll
    for (int i = 0; i < kPartRows; ++i) s[i] = before[place() + i * kMixDim];
  }

  __device__ __forceinline__ void arrive() {}

  /// Computes the chains over the columns into shared memory; the second half of the threads calls
  /// `meanwhile`.
  template <int kRows, class F>
  __device__ __forceinline__ void read(GdnMixShared<kRows>& shared, int r,
                                       bool /*warm the instruction cache*/, F meanwhile) const {
#pragma unroll 1
    for (int turn = 0; turn < kParts; ++turn) {
      if (turn == part()) add_part(shared, r);
      if (turn == 0 && part() > 0) meanwhile();
      __syncthreads();
    }
  }

  template <int kRows>
  __device__ __forceinline__ void add_part(GdnMixShared<kRows>& shared, int r) const {
    const int c = column();
    float kept = part() > 0 ? shared.kept[r][c] : 0;
    float read = part() > 0 ? shared.read[r][c] : 0;
    const auto* k4 = reinterpret_cast<const float4*>(&shared.k[r][part() * kPartRows]);
    const auto* q4 = reinterpret_cast<const float4*>(&shared.q[r][part() * kPartRows]);
#pragma unroll
    for (int i = 0; i < kPartRows; i += 4) {
      const float4 k = k4[i / 4];
      const float4 q = q4[i / 4];
      kept = fmaf(k.x, s[i], kept);
      read = fmaf(q.x, s[i], read);
      kept = fmaf(k.y, s[i + 1], kept);
      read = fmaf(q.y, s[i + 1], read);
      kept = fmaf(k.z, s[i + 2], kept);
      read = fmaf(q.z, s[i + 2], read);
      kept = fmaf(k.w, s[i + 3], kept);
      read = fmaf(q.w, s[i + 3], read);
    }
    shared.kept[r][c] = kept;
    shared.read[r][c] = read;
  }

  /// Updates the state with row r; also writes it to `after` if that is not nullptr.
  template <int kRows>
  __device__ __forceinline__ void advance(const GdnMixShared<kRows>& shared, int r,
                                          bool /*warm the instruction cache*/, float* after) {
    const float decay = shared.decay[r];
    const float delta = delta_of(shared, r, column());
    const auto* k4 = reinterpret_cast<const float4*>(&shared.k[r][part() * kPartRows]);
#pragma unroll
    for (int i = 0; i < kPartRows; i += 4) {
      const float4 k = k4[i / 4];
      s[i] = fmaf(k.x, delta, decay * s[i]);
      s[i + 1] = fmaf(k.y, delta, decay * s[i + 1]);
      s[i + 2] = fmaf(k.z, delta, decay * s[i + 2]);
      s[i + 3] = fmaf(k.w, delta, decay * s[i + 3]);
    }
    if (after == nullptr) return;
#pragma unroll
    for (int i = 0; i < kPartRows; ++i) after[place() + i * kMixDim] = s[i];
  }
};

/// The state of a head in shared memory, for one row.
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

  /// A lane of the first two warps handles two columns.
  template <int kRows, class F>
  __device__ __forceinline__ void read(GdnMixShared<kRows>& shared, int r, bool warm_icache,
                                       F meanwhile) const {
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
          const float4 k = *reinterpret_cast<const float4*>(&shared.k[r][i]);
          const float4 q = *reinterpret_cast<const float4*>(&shared.q[r][i]);
          add(k.x, q.x, i);
          add(k.y, q.y, i + 1);
          add(k.z, q.z, i + 2);
          add(k.w, q.w, i + 3);
        }
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        shared.kept[r][c + j] = kept[j];
        shared.read[r][c + j] = read[j];
      }
    } else if (threadIdx.x >= kMixThreads / 2) {
      meanwhile();
    }
    __syncthreads();
  }

  /// Writes the state to `after` by the second half of the threads: a warp per row, four columns
  /// per lane.
  template <int kRows>
  __device__ __forceinline__ void advance(const GdnMixShared<kRows>& shared, int r,
                                          bool warm_icache, float* after) const {
    const int warp = static_cast<int>(threadIdx.x) / kWarp - kWarps / 2;
    if (warp < 0) return;
    const int c = static_cast<int>(threadIdx.x) % kWarp * 4;
    const float decay = shared.decay[r];
    const float4 delta = make_float4(delta_of(shared, r, c), delta_of(shared, r, c + 1),
                                     delta_of(shared, r, c + 2), delta_of(shared, r, c + 3));
    constexpr int kAtOnce = 8;  // values read before the first of them is written
    constexpr int kStep = kWarps / 2;
#pragma unroll 1
    for (int first = warp; first < (warm_icache ? kStep : kMixDim); first += kAtOnce * kStep) {
      float4 x[kAtOnce];
      float k[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        x[j] = *reinterpret_cast<const float4*>(s + (first + j * kStep) * kMixDim + c);
        k[j] = shared.k[r][first + j * kStep];
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

/// 32 normalised outputs of row r (`row` of the step), by one warp; c: the lane's column.
template <int kRows>
__device__ __forceinline__ void write_outputs(const GdnMixArgs& args,
                                              const GdnMixShared<kRows>& shared, int r, int row,
                                              int h, int c, float weight, bool warm_icache) {
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
  if (!warm_icache) args.scan.out.data[row * args.scan.out.stride + int64_t{kMixDim} * h + c] = y;
  if (args.rounded.q == nullptr) return;
  RoundedLane rounded[1];
  round_lanes({y}, rounded);
  if (warm_icache) return;
  put_block_of_row(rounded[0], lane, row, h * kColumnWarps + c / kWarp,
                   args.scan.dims.n_v_heads * kColumnWarps, args.rounded);
}

/// What the chains over the state do not need, by the second half of the threads: the products of k
/// and q, the gates, and silu(z).
template <int kRows>
__device__ __forceinline__ void prepare(const GdnMixArgs& args, GdnMixShared<kRows>& shared,
                                        int first_row, int count, int h, const float (&z)[kRows],
                                        bool warm_icache) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  static_assert(kWarps == 2 * kColumnWarps && kRows <= kColumnWarps);
  if (const int r = warp - kColumnWarps; r < count) {
    const float kq = half_warp_dot16(shared.k[r], shared.q[r], kMixDim);
    if (lane == 0) shared.kq[r] = kq;
  }
  // By the last warp, which has no row of its own before the fourth.
  if (warp == kWarps - 1 && lane < count) {
    const GdnScanArgs& scan = args.scan;
    const int row = first_row + lane;
    const float* alpha = warm_icache ? scan.a : scan.alpha.data + row * scan.alpha.stride;
    const float* beta = warm_icache ? scan.a : scan.beta.data + row * scan.beta.stride;
    const Gates gates = gates_from(scan, h, alpha[h], beta[h]);
    shared.decay[lane] = exp_f32(gates.log_decay);
    shared.beta[lane] = gates.beta;
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) shared.gate[r][threadIdx.x % kMixDim] = silu(z[r]);
}

/// kWarmsIcache: the block warms the instruction cache first.
template <bool kWarmsIcache, int kRows, class State>
__device__ __forceinline__ void mix(const GdnMixArgs& args, GdnMixShared<kRows>& shared,
                                    State& state) {
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
  [[maybe_unused]] const bool leads = first_of_k_head(scan.dims, h);
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
  int slots[kRows] = {};
  bool warm_icache = kWarmsIcache;
  if (!warm_icache) wait_for_previous_kernel();
#pragma unroll 1
  for (int group = 0; group < rows;) {
    const int count = warm_icache ? 1 : min(kRows, rows - group);
    const int group_row = first_row + group;
    float own[kRows] = {};
    float own_v[kRows] = {};
    float z[kRows] = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r >= count) break;
      slots[r] = warm_icache ? -1 : batch.write_slot[group_row + r];
      // Weights may be read at any time, and there are enough of them.
      const float* inputs =
          warm_icache ? args.conv_weight : scan.qkv.data + (group_row + r) * scan.qkv.stride;
      const float* z_row =
          warm_icache ? args.conv_weight : args.z.data + (group_row + r) * args.z.stride;
      own[r] = inputs[qk_channel];
      if (has_v) {
        own_v[r] = inputs[v_channel];
      } else {
        z[r] = z_row[kMixDim * h + c];
      }
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r >= count) break;
      const float input = own[r];
      if constexpr (kRows > 1) {
        float* const kept = warm_icache ? nullptr : kept_row(batch, args.conv_state, group_row + r);
        if (kept != nullptr && leads) kept[qk_channel] = input;
        if (kept != nullptr && has_v) kept[v_channel] = own_v[r];
      }
      own[r] = qk.convolve(input);
      qk.advance(input);
      shared.raw[r][thread] = own[r];
      if (has_v) {
        shared.raw[r][2 * kMixDim + c] = v.convolve(own_v[r]);
        v.advance(own_v[r]);
        v.write(args, slots[r], v_channel);
      }
    }
    __syncthreads();
    normalise(shared, own, args.eps, thread);
    if (group == 0 && !warm_icache) state.arrive();
    __syncthreads();
#pragma unroll 1
    for (int r = 0; r < count; ++r) {
      const int slot = kRows == 1 || warm_icache ? slots[0] : batch.write_slot[group_row + r];
      state.read(shared, r, warm_icache, [&] {
        if (r > 0) return;
        prepare(args, shared, group_row, count, h, z, warm_icache);
        if (group == 0 && counts && !warm_icache) {
          // This block has read what the last one writes.
          __threadfence();
          arrived = atomicAdd(barrier_counters, 1U);
        }
      });
      // With one row, the first half of the threads computes the outputs before it updates the
      // state.
      if (kRows == 1 && warp < kColumnWarps) {
        write_outputs(args, shared, r, group_row, h, c, norm, warm_icache);
      }
      state.advance(shared, r, warm_icache,
                    slot < 0 ? nullptr : scan.state.base + slot * scan.state.stride + head);
    }
    if constexpr (kRows > 1) {
      for (int r = 0; r < count; ++r) {
        float* const kept = warm_icache ? nullptr : kept_row(batch, scan.state, group_row + r);
        if (kept == nullptr) continue;
        if (has_v) {
          kept[kept_corrections(scan.dims, h) + c] = delta_of(shared, r, c);
        } else if (leads) {
          kept[kept_k(scan.dims, k_head) + c] = shared.k[r][c];
        }
        if (thread == 0) kept[kept_decay(scan.dims, h)] = shared.decay[r];
      }
      for (int unit = warp; unit < count * kColumnWarps; unit += kWarps) {
        const int r = unit / kColumnWarps;
        write_outputs(args, shared, r, group_row + r, h, c, norm, warm_icache);
      }
    }
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
      group += kRows;
    }
    if ((kRows > 1 || !kWarmsIcache) && group < rows) __syncthreads();
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
  if (rows == 1) {
    qk.write(args, slots[0], qk_channel);
    return;
  }
  qk = qk_before;
  for (int row = first_row; row < first_row + rows; ++row) {
    qk.advance(scan.qkv.data[row * scan.qkv.stride + qk_channel]);
    qk.write(args, batch.write_slot[row], qk_channel);
  }
}

}  // namespace

// Grid: [v heads, sequences]. Dynamic shared memory: GdnMixShared; with one row per sequence, a
// state before it.

/// For sequences of at most one row each.
CHIMERE_KERNEL_OF_BLOCKS(gdn_decode_128_many, kMixThreads, 3, GdnMixArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, memory);
  StateInSharedMemory state = {reinterpret_cast<float*>(memory)};
  mix<false>(args, *reinterpret_cast<GdnMixShared<1>*>(memory + kMixStateBytes), state);
}

/// The same for few blocks.
CHIMERE_KERNEL(gdn_decode_128_few, kMixThreads, GdnMixArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, memory);
  StateInSharedMemory state = {reinterpret_cast<float*>(memory)};
  mix<true>(args, *reinterpret_cast<GdnMixShared<1>*>(memory + kMixStateBytes), state);
}

/// For sequences of any number of rows, some of which may be kept.
CHIMERE_KERNEL(gdn_decode_128_rows, kMixThreads, GdnMixArgs, args) {
  CHIMERE_DYNAMIC_SHARED(GdnMixShared<kMixRows>, shared);
  StateInRegisters state;
  mix<false>(args, *shared, state);
}

/// The same for few blocks.
CHIMERE_KERNEL(gdn_decode_128_rows_few, kMixThreads, GdnMixArgs, args) {
  CHIMERE_DYNAMIC_SHARED(GdnMixShared<kMixRows>, shared);
  StateInRegisters state = {};
  mix<true>(args, *shared, state);
}

}  // namespace chimere::kernels::cuda
