// The decode rows of a gated delta-net layer in one launch, for all sequences and v heads:
// convolution, normalisation of q and k, and the delta rule. The convolution and normalisation may
// have been done before. The bits are those of the separate ops (docs/numerics.md).
//
// A block handles some columns of the state of one v head of one sequence. Columns are independent,
// so even one sequence keeps a GPU busy. Thread (p, c) holds rows p * kRows .. of column c in
// registers from the first row to the last, so the state is read once, and written once for each
// row that stores it. Chains over a column pass through its parts in order. Every block convolves
// and normalises the q and k heads itself.
//
// Bytes per row: 2 * 4 * n_v_heads * head_dim² of state, and the convolution's inputs.
#include "kernels/cuda/dot_device.h"
#include "kernels/cuda/gdn_device.h"
#include "kernels/cuda/ptx/dependent_launch.h"

namespace chimere::kernels::cuda {
namespace {

inline constexpr int kMaxDim = 256;     ///< GdnShape::head_dim
inline constexpr int kMaxColumns = 32;  ///< per block

/// Shared memory of a block, for one row at a time.
struct alignas(16) DecodeShared {
  float raw[3 * kMaxDim];  ///< q, k, v after the convolution
  float q[kMaxDim];        ///< normalised and scaled
  float k[kMaxDim];
  float kept[kMaxColumns];  ///< chains over a column, passed from part to part
  float read[kMaxColumns];
  float kq;
  int last_reader;
};

/// First channels of the block's q, k and v heads.
struct Channels {
  int n;
  int q;
  int k;
  int v;
  __device__ int operator[](int i) const {
    return i < n ? q + i : i < 2 * n ? k + i - n : v + i - 2 * n;
  }
};

/// Input of the convolution `row` rows after the run's first row, `row` >= 1 - taps.
__device__ __forceinline__ float conv_input(const GdnDecodeArgs& args, const float* before,
                                            int first_row, int channel, int row) {
  if (row >= 0) return args.scan.qkv.data[(first_row + row) * args.scan.qkv.stride + channel];
  const int past = args.scan.dims.taps - 1;
  return before[static_cast<int64_t>(row + past) * conv_dim(args.scan.dims) + channel];
}

/// Calls f(i, channel) for each channel that the block needs, i being its index in shared.raw: the
/// q and k heads, and columns begin .. of the v head.
template <class F>
__device__ __forceinline__ void for_channels(const Channels& channels, int begin, int columns,
                                             F f) {
  const int heads = 2 * channels.n;
  for (auto j = static_cast<int>(threadIdx.x); j < heads + columns;
       j += static_cast<int>(blockDim.x)) {
    const int i = j < heads ? j : j + begin;
    f(i, channels[i]);
  }
}

/// The common number of taps, and the channels of a thread with it: 2 head_dim + columns channels
/// on at least head_dim threads, with columns <= head_dim.
inline constexpr int kUsualTaps = 4;
inline constexpr int kOwnChannels = 3;

/// The first row of a convolution with kUsualTaps, in registers: the work that does not need the
/// previous kernel's outputs, and the state after the row if it is the only one.
struct FirstRow {
  float sum[kOwnChannels];     ///< without the row's own input
  float weight[kOwnChannels];  ///< of the row's own input
  float old[kOwnChannels][kUsualTaps - 1];
  float input[kOwnChannels];

  /// Calls f(j, i, channel) for this thread's channels, like for_channels().
  template <class F>
  static __device__ __forceinline__ void each(const Channels& channels, int begin, int columns,
                                              F f) {
    const int heads = 2 * channels.n;
#pragma unroll
    for (int j = 0; j < kOwnChannels; ++j) {
      const int at = static_cast<int>(threadIdx.x) + j * static_cast<int>(blockDim.x);
      const int i = at < heads ? at : at + begin;
      if (at < heads + columns) f(j, i, channels[i]);
    }
  }

  __device__ __forceinline__ void begin_row(const GdnDecodeArgs& args, const float* before,
                                            const Channels& channels, int begin, int columns) {
    const int64_t width = conv_dim(args.scan.dims);
    float weights[kOwnChannels][kUsualTaps];
    each(channels, begin, columns, [&](int j, int /*i*/, int c) {
#pragma unroll
      for (int t = 0; t < kUsualTaps; ++t) {
        weights[j][t] = args.conv_weight[static_cast<int64_t>(c) * kUsualTaps + t];
      }
#pragma unroll
      for (int t = 0; t + 1 < kUsualTaps; ++t) old[j][t] = before[t * width + c];
    });
    each(channels, begin, columns, [&](int j, int /*i*/, int /*c*/) {
      sum[j] = 0;
#pragma unroll
      for (int t = 0; t + 1 < kUsualTaps; ++t) sum[j] = fmaf(weights[j][t], old[j][t], sum[j]);
      weight[j] = weights[j][kUsualTaps - 1];
    });
  }

  __device__ __forceinline__ void read(const GdnDecodeArgs& args, int row, const Channels& channels,
                                       int begin, int columns, DecodeShared& shared) {
    const float* qkv = args.scan.qkv.data + row * args.scan.qkv.stride;
    each(channels, begin, columns, [&](int j, int /*i*/, int c) { input[j] = qkv[c]; });
    each(channels, begin, columns,
         [&](int j, int i, int /*c*/) { shared.raw[i] = silu(fmaf(weight[j], input[j], sum[j])); });
  }

  /// Writes the state after the row, for the heads' channels or the columns'.
  __device__ __forceinline__ void write_state(const GdnDecodeArgs& args, int row, bool heads,
                                              const Channels& channels, int begin,
                                              int columns) const {
    const int slot = args.scan.batch.write_slot[row];
    if (slot < 0) return;
    const int64_t width = conv_dim(args.scan.dims);
    float* const after = args.conv_state.base + slot * args.conv_state.stride;
    each(channels, begin, columns, [&](int j, int i, int c) {
      if ((i < 2 * channels.n) != heads) return;
#pragma unroll
      for (int t = 0; t + 2 < kUsualTaps; ++t) after[t * width + c] = old[j][t + 1];
      after[(kUsualTaps - 2) * width + c] = input[j];
    });
  }
};

/// Reads q, k and v of a row into shared.raw.
__device__ __forceinline__ void read_row(const GdnDecodeArgs& args, const float* before,
                                         int first_row, int row, const Channels& channels,
                                         int begin, int columns, DecodeShared& shared) {
  const int taps = args.scan.dims.taps;
  for_channels(channels, begin, columns, [&](int i, int c) {
    const float own = args.scan.qkv.data[(first_row + row) * args.scan.qkv.stride + c];
    if (args.conv_weight == nullptr) {
      shared.raw[i] = own;
      return;
    }
    float sum = 0;
    for (int t = 0; t + 1 < taps; ++t) {
      sum = fmaf(args.conv_weight[static_cast<int64_t>(c) * taps + t],
                 conv_input(args, before, first_row, c, row - taps + 1 + t), sum);
    }
    shared.raw[i] =
        silu(fmaf(args.conv_weight[static_cast<int64_t>(c) * taps + taps - 1], own, sum));
  });
}

/// Keeps the convolution's inputs of a row, if this kernel includes the convolution: the block's
/// columns of the v head, and, with `heads`, the q and k heads.
__device__ __forceinline__ void keep_inputs(const GdnDecodeArgs& args, int row,
                                            const Channels& channels, int begin, int columns,
                                            bool heads) {
  if (args.conv_weight == nullptr) return;
  float* kept = kept_row(args.scan.batch, args.conv_state, row);
  for_channels(channels, begin, columns, [&](int i, int c) {
    if (i < 2 * channels.n && !heads) return;
    kept[c] = args.scan.qkv.data[row * args.scan.qkv.stride + c];
  });
}

/// The normalised q and k heads, and their product.
__device__ __forceinline__ void normalise_row(const GdnDecodeArgs& args, int n,
                                              DecodeShared& shared) {
  const auto thread = static_cast<int>(threadIdx.x);
  const auto threads = static_cast<int>(blockDim.x);
  float q_scale = 1;
  float k_scale = 1;
  if (args.conv_weight != nullptr) {
    // Each warp computes both: its first half q, its second half k.
    const float* head = shared.raw + (thread % kWarp / 16) * n;
    const float scale = 1.0F / sqrtf(half_warp_dot16(head, head, n) + args.eps);
    q_scale = __shfl_sync(kFullWarp, scale, 0);
    k_scale = __shfl_sync(kFullWarp, scale, 16);
  }
  const float read_scale = 1.0F / sqrtf(static_cast<float>(n));
  for (int i = thread; i < n; i += threads) {
    const float q = args.conv_weight != nullptr ? shared.raw[i] * q_scale : shared.raw[i];
    const float k = args.conv_weight != nullptr ? shared.raw[n + i] * k_scale : shared.raw[n + i];
    shared.q[i] = q * read_scale;
    shared.k[i] = k;
  }
  __syncthreads();
  if (thread / kWarp == (threads - 1) / kWarp) {
    const float kq = half_warp_dot16(shared.k, shared.q, n);
    if (thread % kWarp == 0) shared.kq = kq;
  }
}

/// Writes the convolution states of channels first .. first + n - 1 after the rows that store one.
__device__ __forceinline__ void write_conv_states(const GdnDecodeArgs& args, const float* before,
                                                  int first_row, int rows, int first, int n) {
  const int past = args.scan.dims.taps - 1;
  const int64_t channels = conv_dim(args.scan.dims);
  for (auto i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) {
    const int c = first + i;
    float old[kMaxTaps - 1];  // copied, because `before` may be a state that is written
#pragma unroll
    for (int t = 0; t < kMaxTaps - 1; ++t) old[t] = t < past ? before[t * channels + c] : 0;
    for (int row = 0; row < rows; ++row) {
      const int slot = args.scan.batch.write_slot[first_row + row];
      if (slot < 0) continue;
      float* after = args.conv_state.base + slot * args.conv_state.stride + c;
      // Inputs that remain from the old state move by row + 1 entries.
#pragma unroll
      for (int t = 0; t < kMaxTaps - 1; ++t) {
        const int to = t - row - 1;
        if (t < past && to >= 0) after[to * channels] = old[t];
      }
      for (int t = max(0, past - 1 - row); t < past; ++t) {
        after[t * channels] = conv_input(args, before, first_row, c, row - past + 1 + t);
      }
    }
  }
}

/// Blocks per head.
__device__ __forceinline__ int column_tiles(const GdnDims& dims, int columns) {
  return (dims.head_dim + columns - 1) / columns;
}

/// True in the last block that reads this k head of the sequence: all others have read it by then.
__device__ __forceinline__ bool last_reader(const GdnDecodeArgs& args, int sequence, int k_head,
                                            DecodeShared& shared) {
  __syncthreads();
  if (threadIdx.x == 0) {
    const GdnDims& dims = args.scan.dims;
    const auto readers =
        static_cast<uint32_t>(dims.n_v_heads / dims.n_k_heads * column_tiles(dims, args.columns));
    uint32_t* barrier_counters =
        args.barrier_counters + static_cast<int64_t>(sequence) * args.scan.dims.n_k_heads + k_head;
    __threadfence();
    shared.last_reader = atomicAdd(barrier_counters, 1U) + 1 == readers ? 1 : 0;
    if (shared.last_reader != 0) *barrier_counters = 0;
  }
  __syncthreads();
  return shared.last_reader != 0;
}

template <int kRows>
__device__ void decode_rows(const GdnDecodeArgs& args, DecodeShared& shared) {
  const GdnScanArgs& scan = args.scan;
  // With the convolution included, no kernel of this step has written this state, and a step begins
  // with a copy that waits for the whole previous step. So the state may be loaded while the
  // previous kernel still computes q, k and v, unless that one has folded rows.
  const bool state_is_there = args.conv_weight != nullptr && scan.run == 0 && args.folded == 0;
  if (!state_is_there) wait_for_previous_kernel();
  let_next_kernel_start();
  const int n = scan.dims.head_dim;
  const int tiles = column_tiles(scan.dims, args.columns);
  const int h = static_cast<int>(blockIdx.x) / tiles;
  const int begin = static_cast<int>(blockIdx.x) % tiles * args.columns;
  const int columns = min(args.columns, n - begin);
  const auto sequence = static_cast<int>(blockIdx.y);
  const Run run = find_run(scan.batch, sequence, scan.run);
  if (run.slice_begin == run.slice_end || run.row_class != kDecodeRows) return;
  const int first_row = scan.batch.slices[run.slice_begin].row_begin;
  const SliceArgs last_slice = scan.batch.slices[run.slice_end - 1];
  const int rows = last_slice.row_begin + last_slice.row_count - first_row;
  const int k_head = k_head_of(scan.dims, h);
  const bool leads = first_of_k_head(scan.dims, h);
  const int key_dim = scan.dims.n_k_heads * n;
  const Channels channels = {n, k_head * n, key_dim + k_head * n, 2 * key_dim + h * n};
  const float* conv_before =
      args.conv_state.base + scan.batch.read_slot[sequence] * args.conv_state.stride;

  const auto thread = static_cast<int>(threadIdx.x);
  const int part = thread / args.columns;
  const int parts = n / kRows;
  const int column = thread % args.columns;
  const bool works = column < columns && part < parts;
  const int c = begin + column;
  const int64_t at = static_cast<int64_t>(part) * kRows * n + c;
  float s[kRows] = {};
  if (works) {
    const float* before = state_before(scan, sequence, h) + at;
#pragma unroll
    for (int i = 0; i < kRows; ++i) s[i] = before[static_cast<int64_t>(i) * n];
  }
  const bool usual = state_is_there && scan.dims.taps == kUsualTaps;
  FirstRow first;
  if (usual) first.begin_row(args, conv_before, channels, begin, columns);
  if (state_is_there) wait_for_previous_kernel();
  for (int row = 0; row < rows; ++row) {
    const Gates gates = gates_of(scan, first_row + row, h);
    if (usual && row == 0) {
      first.read(args, first_row, channels, begin, columns, shared);
    } else {
      read_row(args, conv_before, first_row, row, channels, begin, columns, shared);
    }
    const float decay = exp_f32(gates.log_decay);
    float* const kept_state = kept_row(scan.batch, scan.state, first_row + row);
    if (kept_state != nullptr && begin == 0 && thread == 0) {
      kept_state[kept_decay(scan.dims, h)] = decay;
    }
    __syncthreads();
    normalise_row(args, n, shared);
    if (kept_state != nullptr) {
      keep_inputs(args, first_row + row, channels, begin, columns, begin == 0 && leads);
      for (int i = thread; begin == 0 && leads && i < n; i += static_cast<int>(blockDim.x)) {
        kept_state[kept_k(scan.dims, k_head) + i] = shared.k[i];
      }
    }
    const auto* k = reinterpret_cast<const float4*>(shared.k + part * kRows);
    const auto* q = reinterpret_cast<const float4*>(shared.q + part * kRows);
    float kept = 0;
    float read = 0;
    for (int turn = 0; turn < parts; ++turn) {
      if (turn == part && works) {
        if (turn > 0) {
          kept = shared.kept[column];
          read = shared.read[column];
        }
#pragma unroll
        for (int i = 0; i < kRows; i += 4) {
          const float4 k4 = k[i / 4];
          const float4 q4 = q[i / 4];
          kept = fmaf(k4.x, s[i], kept);
          read = fmaf(q4.x, s[i], read);
          kept = fmaf(k4.y, s[i + 1], kept);
          read = fmaf(q4.y, s[i + 1], read);
          kept = fmaf(k4.z, s[i + 2], kept);
          read = fmaf(q4.z, s[i + 2], read);
          kept = fmaf(k4.w, s[i + 3], kept);
          read = fmaf(q4.w, s[i + 3], read);
        }
        shared.kept[column] = kept;
        shared.read[column] = read;
      }
      __syncthreads();
    }
    if (works) {
      kept = shared.kept[column];
      read = shared.read[column];
      const float delta = gates.beta * fmaf(-decay, kept, shared.raw[2 * n + c]);
      if (part == 0) {
        if (kept_state != nullptr) kept_state[kept_corrections(scan.dims, h) + c] = delta;
        scan.out.data[(first_row + row) * scan.out.stride + static_cast<int64_t>(h) * n + c] =
            fmaf(shared.kq, delta, decay * read);
      }
#pragma unroll
      for (int i = 0; i < kRows; i += 4) {
        const float4 k4 = k[i / 4];
        s[i] = fmaf(k4.x, delta, decay * s[i]);
        s[i + 1] = fmaf(k4.y, delta, decay * s[i + 1]);
        s[i + 2] = fmaf(k4.z, delta, decay * s[i + 2]);
        s[i + 3] = fmaf(k4.w, delta, decay * s[i + 3]);
      }
      float* after = state_after(scan, first_row + row, h);
      if (after != nullptr) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) after[at + static_cast<int64_t>(i) * n] = s[i];
      }
      if (row == rows - 1 && !run.last) {
        float* carry = state_carried(scan, sequence, h) + at;
#pragma unroll
        for (int i = 0; i < kRows; ++i) carry[static_cast<int64_t>(i) * n] = s[i];
      }
    }
    __syncthreads();
  }
  if (args.conv_weight == nullptr) return;
  const bool writes_keys = last_reader(args, sequence, k_head, shared);
  if (usual && rows == 1) {
    first.write_state(args, first_row, /*heads=*/false, channels, begin, columns);
    if (writes_keys) first.write_state(args, first_row, /*heads=*/true, channels, begin, columns);
    return;
  }
  write_conv_states(args, conv_before, first_row, rows, channels.v + begin, columns);
  if (!writes_keys) return;
  write_conv_states(args, conv_before, first_row, rows, channels.q, n);
  write_conv_states(args, conv_before, first_row, rows, channels.k, n);
}

}  // namespace

// Grid: [v heads * tiles of columns, sequences]. Threads: columns * (head_dim / rows of a part), in
// whole warps.

CHIMERE_KERNEL_OF_BLOCKS(gdn_decode_32, kMaxDim, 2, GdnDecodeArgs, args) {
  __shared__ DecodeShared shared;
  decode_rows<32>(args, shared);
}

CHIMERE_KERNEL(gdn_decode_16, kMaxDim, GdnDecodeArgs, args) {
  __shared__ DecodeShared shared;
  decode_rows<16>(args, shared);
}

}  // namespace chimere::kernels::cuda
