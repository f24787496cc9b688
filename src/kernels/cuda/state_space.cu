// Convolutions over time and state-space recurrences, with the bits of ref, except that ssd_scan
// computes chunks as decode rows (most shapes have ssd_prefill.cu for them). A thread owns a
// channel, or a column of a state, from the first row to the last, so blocks exchange nothing; rows
// follow each other. A convolution of many rows is two launches, like that of gdn_conv.cu: the
// first saves the inputs before each tile of rows, the second convolves tiles in parallel.
//
// Bytes: a step with one row for each sequence reads and writes each state once. Prompts are
// limited by the recurrence: state_dim dependent additions a row.
#include "kernels/cuda/batch_device.h"
#include "kernels/cuda/language.h"
#include "kernels/cuda/ptx/async_copy.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/cuda/slice_runs.h"
#include "kernels/cuda/state_space_args.h"
#include "kernels/math.h"

namespace chimere::kernels::cuda {
namespace {

constexpr int kUnit = 16;  // kChannelUnit

/// The slot that holds a sequence's state before its unfolded rows.
__device__ __forceinline__ const float* state_before_rows(const BatchArgs& batch,
                                                          const SlotArgs& state, int sequence,
                                                          const UnfoldedRows& unfolded) {
  const int slot = unfolded.count > 0 ? batch.fold_from[sequence] : batch.read_slot[sequence];
  return state.base + slot * state.stride;
}

/// Copies a column of n elements, whose neighbours lie `from_stride` and `to_stride` apart.
__device__ __forceinline__ void copy_column(const float* from, int from_stride, float* to,
                                            int to_stride, int n) {
#pragma unroll 8
  for (int i = 0; i < n; ++i) {
    to[static_cast<int64_t>(i) * to_stride] = from[static_cast<int64_t>(i) * from_stride];
  }
}

/// The last inputs of a channel, newest at the end, so that indices are fixed.
struct Window {
  float v[kMaxConvTaps];

  __device__ __forceinline__ void push(float x) {
#pragma unroll
    for (int t = 0; t < kMaxConvTaps - 1; ++t) v[t] = v[t + 1];
    v[kMaxConvTaps - 1] = x;
  }
  /// Stores the newest taps - 1 inputs, oldest first.
  __device__ __forceinline__ void store(float* to, int channels, int taps) const {
#pragma unroll
    for (int t = 1; t < kMaxConvTaps; ++t) {
      const int at = t - (kMaxConvTaps - taps) - 1;
      if (at >= 0) to[static_cast<int64_t>(at) * channels] = v[t];
    }
  }
};

}  // namespace

namespace {

/// The weights of a channel, the newest input's last, so that indices are fixed.
__device__ __forceinline__ void load_taps(const CausalConvArgs& args, int c,
                                          float (&weight)[kMaxConvTaps]) {
#pragma unroll
  for (int t = 0; t < kMaxConvTaps; ++t) {
    const int tap = t - (kMaxConvTaps - args.taps);
    weight[t] = tap >= 0 ? args.weight[static_cast<int64_t>(c) * args.taps + tap] : 0;
  }
}

/// Fills a window with the taps - 1 inputs at `from`, oldest first.
__device__ __forceinline__ Window load_window(const CausalConvArgs& args, const float* from) {
  Window window;
#pragma unroll
  for (int t = 0; t < kMaxConvTaps; ++t) {
    const int tap = t - (kMaxConvTaps - args.taps);
    window.v[t] = tap >= 1 ? from[static_cast<int64_t>(tap - 1) * args.channels] : 0;
  }
  return window;
}

/// The state of channel c before the rows of a sequence. Earlier steps have written it, so it may
/// be read before the previous kernel has ended: a step begins with a copy, which no kernel
/// overtakes.
__device__ __forceinline__ Window old_window(const CausalConvArgs& args, int sequence,
                                             const UnfoldedRows& unfolded, int c) {
  return load_window(args, state_before_rows(args.batch, args.state, sequence, unfolded) + c);
}

/// The inputs of channel c before the rows of a sequence: `window` after folding, which stores them
/// too.
__device__ __forceinline__ Window window_before_rows(const CausalConvArgs& args, int sequence,
                                                     const UnfoldedRows& unfolded, int c,
                                                     Window window) {
  for (int i = 0; i < unfolded.count; ++i) {
    window.push(args.state.rows[unfolded.row_blocks[i] * args.state.row_stride + c]);
  }
  if (unfolded.count > 0) {
    float* to = args.state.base + args.batch.read_slot[sequence] * args.state.stride + c;
    window.store(to, args.channels, args.taps);
  }
  return window;
}

/// Convolves channel c of `rows`, in place; keeps rows and stores states where the batch asks.
__device__ __forceinline__ void convolve(const CausalConvArgs& args, int c, SequenceRange rows,
                                         const float (&weight)[kMaxConvTaps], Window window) {
  constexpr int kAhead = 8;  // rows that are read before they are needed
  const float bias = args.bias == nullptr ? 0 : args.bias[c];
  float* column = args.x.data + rows.begin * args.x.stride + c;
  for (int first = 0; first < rows.count; first += kAhead) {
    float x[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      x[j] = first + j < rows.count ? column[(first + j) * args.x.stride] : 0;
    }
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      if (first + j >= rows.count) break;
      const int r = rows.begin + first + j;
      window.push(x[j]);
      const int slot = args.batch.write_slot[r];
      if (slot >= 0) {
        window.store(args.state.base + slot * args.state.stride + c, args.channels, args.taps);
      }
      float* kept = kept_row(args.batch, args.state, r);
      if (kept != nullptr) kept[c] = x[j];
      float sum = bias;
#pragma unroll
      for (int t = 0; t < kMaxConvTaps; ++t) {
        if (t >= kMaxConvTaps - args.taps) sum = fmaf(weight[t], window.v[t], sum);
      }
      column[(first + j) * args.x.stride] = args.silu != 0 ? silu(sum) : sum;
    }
  }
}

/// The edge of tile `tile` of a sequence whose rows begin at `row_begin`: its index is below
/// n_rows / kCausalConvTile + n_sequences.
__device__ __forceinline__ float* edge_of(const CausalConvArgs& args, int sequence, int row_begin,
                                          int tile) {
  const int64_t index = static_cast<int64_t>(row_begin) / kCausalConvTile + tile + sequence;
  return args.edges + index * (args.taps - 1) * args.channels;
}

}  // namespace

/// Grid: [channels / kConvThreads; sequences].
CHIMERE_KERNEL(causal_conv, kConvThreads, CausalConvArgs, args) {
  const int c = static_cast<int>(blockIdx.x) * kConvThreads + static_cast<int>(threadIdx.x);
  const auto sequence = static_cast<int>(blockIdx.y);
  const SequenceRange rows = rows_of(args.batch, sequence);
  const UnfoldedRows unfolded = unfolded_rows(args.batch, sequence);
  const bool works = c < args.channels && (rows.count > 0 || unfolded.count > 0);
  float weight[kMaxConvTaps] = {};
  Window window = {};
  if (works) {
    load_taps(args, c, weight);
    window = old_window(args, sequence, unfolded, c);
  }
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (!works) return;
  convolve(args, c, rows, weight, window_before_rows(args, sequence, unfolded, c, window));
}

/// Saves the inputs before each tile of rows, and folds. Grid: [channels / kConvThreads; tiles;
/// sequences].
CHIMERE_KERNEL(causal_conv_edges, kConvThreads, CausalConvArgs, args) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int c = static_cast<int>(blockIdx.x) * kConvThreads + static_cast<int>(threadIdx.x);
  const auto tile = static_cast<int>(blockIdx.y);
  const auto sequence = static_cast<int>(blockIdx.z);
  const SequenceRange rows = rows_of(args.batch, sequence);
  if (c >= args.channels) return;
  if (tile == 0) {
    const UnfoldedRows unfolded = unfolded_rows(args.batch, sequence);
    if (rows.count == 0 && unfolded.count == 0) return;
    const Window window =
        window_before_rows(args, sequence, unfolded, c, old_window(args, sequence, unfolded, c));
    if (rows.count == 0) return;
    window.store(edge_of(args, sequence, rows.begin, tile) + c, args.channels, args.taps);
    return;
  }
  if (tile * kCausalConvTile >= rows.count) return;
  float* edge = edge_of(args, sequence, rows.begin, tile) + c;
  const int first = rows.begin + tile * kCausalConvTile - (args.taps - 1);
  for (int t = 0; t < args.taps - 1; ++t) {
    edge[static_cast<int64_t>(t) * args.channels] = args.x.data[(first + t) * args.x.stride + c];
  }
}

/// Convolves the rows of each tile. Grid: as causal_conv_edges.
CHIMERE_KERNEL(causal_conv_tiles, kConvThreads, CausalConvArgs, args) {
  const int c = static_cast<int>(blockIdx.x) * kConvThreads + static_cast<int>(threadIdx.x);
  float weight[kMaxConvTaps] = {};
  if (c < args.channels) load_taps(args, c, weight);
  wait_for_previous_kernel();
  let_next_kernel_start();
  const auto sequence = static_cast<int>(blockIdx.z);
  const SequenceRange rows = rows_of(args.batch, sequence);
  const int begin = static_cast<int>(blockIdx.y) * kCausalConvTile;
  if (c >= args.channels || begin >= rows.count) return;
  const float* edge = edge_of(args, sequence, rows.begin, static_cast<int>(blockIdx.y)) + c;
  convolve(args, c, {rows.begin + begin, min(kCausalConvTile, rows.count - begin)}, weight,
           load_window(args, edge));
}

namespace {

/// Copies `columns` columns of n rows between memories whose rows are `from_stride` and `to_stride`
/// apart, 16 bytes at a time, by a block of `columns` threads.
template <class Copy>
__device__ __forceinline__ void each_quad(const float* from, int from_stride, float* to,
                                          int to_stride, int columns, int n, Copy copy) {
  const int quads = columns / 4;
  const int quad = static_cast<int>(threadIdx.x) % quads * 4;
#pragma unroll 8
  for (int j = static_cast<int>(threadIdx.x) / quads; j < n; j += 4) {
    copy(to + static_cast<int64_t>(j) * to_stride + quad,
         from + static_cast<int64_t>(j) * from_stride + quad);
  }
}

}  // namespace

/// Grid: [heads, parts of their columns; sequences]; a thread for each column. Dynamic shared
/// memory: the state [state_dim, columns], then a row's B and C, each of scan_row_floats().
///
/// All of the state is on its way at once, and before the previous kernel has ended (old_window()).
CHIMERE_KERNEL(ssd_scan, kScanColumns, SsdArgs, args) {
  CHIMERE_DYNAMIC_SHARED(float, shared);
  const int dim = args.head_dim;
  const int n = args.state_dim;
  const int columns = args.columns;
  const int parts = dim / columns;
  const int head = static_cast<int>(blockIdx.x) / parts;
  const int part = static_cast<int>(blockIdx.x) % parts;
  const auto thread = static_cast<int>(threadIdx.x);
  const auto sequence = static_cast<int>(blockIdx.y);
  SequenceRange rows = rows_of(args.batch, sequence);
  UnfoldedRows unfolded = unfolded_rows(args.batch, sequence);
  bool carries = false;
  if (args.run != kAllRuns) {
    const Run run = find_run(args.batch, sequence, args.run);
    const bool computes = run.slice_begin < run.slice_end && run.row_class == kDecodeRows;
    rows = computes ? rows_of_slices(args.batch, run.slice_begin, run.slice_end)
                    : SequenceRange{rows.begin, 0};
    carries = computes && !run.last;
    if (args.run > 0) unfolded.count = 0;
    wait_for_previous_kernel();
  }
  const bool idle = rows.count == 0 && unfolded.count == 0;
  const int inner = args.n_heads * dim;
  const int bc_dim = args.n_groups * n;
  const int heads_of_group = args.n_heads / args.n_groups;
  const int p = head * dim + part * columns + thread;
  const int in_group = head / heads_of_group * n;
  const int64_t at = static_cast<int64_t>(head) * dim * n + part * columns;
  float* const s = shared + thread;
  float* const row_b = shared + n * columns;
  float* const row_c = row_b + scan_row_floats(n);
  float* const carried = args.carry + static_cast<int64_t>(sequence) * inner * n + at;
  const auto store_state = [&](float* to) {
    __syncthreads();
    each_quad(shared, columns, to, dim, columns, n, [](float* quad, const float* from) {
      *reinterpret_cast<float4*>(quad) = *reinterpret_cast<const float4*>(from);
    });
  };
  if (!idle) {
    each_quad(
        args.run > 0 ? carried : state_before_rows(args.batch, args.state, sequence, unfolded) + at,
        dim, shared, columns, columns, n,
        [](float* quad, const float* from) { start_copy(quad, from, true); });
  }
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (idle) return;
  wait_for_copies();
  __syncthreads();
  for (int i = 0; i < unfolded.count; ++i) {
    const float* kept = args.state.rows + unfolded.row_blocks[i] * args.state.row_stride;
    const float* b = kept + inner + in_group;
    const float u = kept[p];
    const float g = kept[inner + bc_dim + head];
#pragma unroll 8
    for (int j = 0; j < n; ++j) s[j * columns] = fmaf(b[j], u, g * s[j * columns]);
  }
  if (unfolded.count > 0) {
    store_state(args.state.base + args.batch.read_slot[sequence] * args.state.stride + at);
  }
  for (int r = rows.begin; r < rows.begin + rows.count; ++r) {
    const float* row = args.xbc.data + r * args.xbc.stride;
    const float* b = row + inner + in_group;
    const float* c = b + bc_dim;
    __syncthreads();
#pragma unroll 4
    for (int j = thread; j < n; j += columns) {
      row_b[j] = b[j];
      row_c[j] = c[j];
    }
    const float x = row[p];
    const float dt = softplus(args.dt.data[r * args.dt.stride + head] + args.dt_bias[head]);
    const float g = exp_f32(dt * args.a[head]);
    const float u = dt * x;
    __syncthreads();
    float* kept = kept_row(args.batch, args.state, r);
    if (kept != nullptr) {
      kept[p] = u;
      if (part == 0 && head % heads_of_group == 0) {
        for (int j = thread; j < n; j += columns) kept[inner + in_group + j] = row_b[j];
      }
      if (part == 0 && thread == 0) kept[inner + bc_dim + head] = g;
    }
    float y = 0;
    const auto advance = [&](int j, float of_b, float of_c) {
      const float v = fmaf(of_b, u, g * s[j * columns]);
      s[j * columns] = v;
      y = fmaf(of_c, v, y);
    };
    int j = 0;
#pragma unroll 4
    for (; j + 4 <= n; j += 4) {
      const float4 of_b = *reinterpret_cast<const float4*>(row_b + j);
      const float4 of_c = *reinterpret_cast<const float4*>(row_c + j);
      advance(j, of_b.x, of_c.x);
      advance(j + 1, of_b.y, of_c.y);
      advance(j + 2, of_b.z, of_c.z);
      advance(j + 3, of_b.w, of_c.w);
    }
    for (; j < n; ++j) advance(j, row_b[j], row_c[j]);
    args.out.data[r * args.out.stride + p] = fmaf(args.d[head], x, y);
    const int slot = args.batch.write_slot[r];
    if (slot >= 0) store_state(args.state.base + slot * args.state.stride + at);
  }
  if (carries) store_state(carried);
}

/// Grid: [channels / kScanColumns; sequences]. Dynamic shared memory: [state_dim, kScanColumns].
CHIMERE_KERNEL(selective_scan, kScanColumns, SelectiveArgs, args) {
  CHIMERE_DYNAMIC_SHARED(float, shared);
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int n = args.state_dim;
  const auto thread = static_cast<int>(threadIdx.x);
  const int channel = static_cast<int>(blockIdx.x) * kScanColumns + thread;
  const auto sequence = static_cast<int>(blockIdx.y);
  const SequenceRange rows = rows_of(args.batch, sequence);
  const UnfoldedRows unfolded = unfolded_rows(args.batch, sequence);
  if (channel >= args.channels || (rows.count == 0 && unfolded.count == 0)) return;
  const int64_t at = static_cast<int64_t>(channel / kUnit) * n * kUnit + channel % kUnit;
  const float* a = args.a + at;
  float* s = shared + thread;
  copy_column(state_before_rows(args.batch, args.state, sequence, unfolded) + at, kUnit, s,
              kScanColumns, n);
  for (int i = 0; i < unfolded.count; ++i) {
    const float* kept = args.state.rows + unfolded.row_blocks[i] * args.state.row_stride;
    const float dt = kept[channel];
    const float u = kept[args.channels + channel];
    const float* b = kept + 2 * static_cast<int64_t>(args.channels);
#pragma unroll 4
    for (int j = 0; j < n; ++j) {
      s[j * kScanColumns] = fmaf(b[j], u, exp_f32(dt * a[j * kUnit]) * s[j * kScanColumns]);
    }
  }
  if (unfolded.count > 0) {
    float* to = args.state.base + args.batch.read_slot[sequence] * args.state.stride + at;
    copy_column(s, kScanColumns, to, kUnit, n);
  }
  for (int r = rows.begin; r < rows.begin + rows.count; ++r) {
    const float* b = args.b.data + r * args.b.stride;
    const float* c = args.c.data + r * args.c.stride;
    const float x = args.x.data[r * args.x.stride + channel];
    const float dt = softplus(args.dt.data[r * args.dt.stride + channel] + args.dt_bias[channel]);
    const float u = dt * x;
    float* kept = kept_row(args.batch, args.state, r);
    if (kept != nullptr) {
      kept[channel] = dt;
      kept[args.channels + channel] = u;
      if (blockIdx.x == 0) {
        const int threads = min(kScanColumns, args.channels);
        for (int j = thread; j < n; j += threads) {
          kept[2 * static_cast<int64_t>(args.channels) + j] = b[j];
        }
      }
    }
    float y = 0;
#pragma unroll 4
    for (int j = 0; j < n; ++j) {
      const float v = fmaf(b[j], u, exp_f32(dt * a[j * kUnit]) * s[j * kScanColumns]);
      s[j * kScanColumns] = v;
      y = fmaf(c[j], v, y);
    }
    args.out.data[r * args.out.stride + channel] = fmaf(args.d[channel], x, y);
    const int slot = args.batch.write_slot[r];
    if (slot >= 0) {
      copy_column(s, kScanColumns, args.state.base + slot * args.state.stride + at, kUnit, n);
    }
  }
}

/// A column of a state of kSmallStates in registers.
struct SmallColumn {
  float v[kSmallStates];

  __device__ __forceinline__ void load(const float* from) {
#pragma unroll
    for (int j = 0; j < kSmallStates; ++j) v[j] = from[j * kUnit];
  }
  __device__ __forceinline__ void store(float* to) const {
#pragma unroll
    for (int j = 0; j < kSmallStates; ++j) to[j * kUnit] = v[j];
  }
};

/// Inputs of a row: b and c lie side by side in the lanes of a warp.
struct SelectiveRow {
  float x;
  float dt;
  float bc;
};

/// selective_scan with states of kSmallStates, Mamba's: a column stays in registers, and rows are
/// read kRowsAhead rows before they are needed. Grid: [channels / kScanColumns; sequences].
CHIMERE_KERNEL(selective_scan_16, kScanColumns, SelectiveArgs, args) {
  constexpr int kRowsAhead = 4;
  wait_for_previous_kernel();
  let_next_kernel_start();
  const auto lane = static_cast<int>(threadIdx.x);
  const auto sequence = static_cast<int>(blockIdx.y);
  const SequenceRange rows = rows_of(args.batch, sequence);
  const UnfoldedRows unfolded = unfolded_rows(args.batch, sequence);
  if (rows.count == 0 && unfolded.count == 0) return;
  // Lanes past the last channel compute it again and store nothing.
  const int wanted = static_cast<int>(blockIdx.x) * kScanColumns + lane;
  const bool stores = wanted < args.channels;
  const int channel = stores ? wanted : args.channels - 1;
  const int64_t at = static_cast<int64_t>(channel / kUnit) * kSmallStates * kUnit + channel % kUnit;
  SmallColumn a;
  a.load(args.a + at);
  SmallColumn s;
  s.load(state_before_rows(args.batch, args.state, sequence, unfolded) + at);
  for (int i = 0; i < unfolded.count; ++i) {
    const float* kept = args.state.rows + unfolded.row_blocks[i] * args.state.row_stride;
    const float dt = kept[channel];
    const float u = kept[args.channels + channel];
    const float* b = kept + 2 * static_cast<int64_t>(args.channels);
#pragma unroll
    for (int j = 0; j < kSmallStates; ++j) s.v[j] = fmaf(b[j], u, exp_f32(dt * a.v[j]) * s.v[j]);
  }
  if (unfolded.count > 0 && stores) {
    s.store(args.state.base + args.batch.read_slot[sequence] * args.state.stride + at);
  }
  const float dt_bias = args.dt_bias[channel];
  const float d = args.d[channel];
  auto load_rows = [&](int first, SelectiveRow(&to)[kRowsAhead]) {
#pragma unroll
    for (int i = 0; i < kRowsAhead; ++i) {
      if (first + i >= rows.count) break;
      const int r = rows.begin + first + i;
      to[i].x = args.x.data[r * args.x.stride + channel];
      to[i].dt = args.dt.data[r * args.dt.stride + channel];
      to[i].bc = lane < kSmallStates ? args.b.data[r * args.b.stride + lane]
                                     : args.c.data[r * args.c.stride + lane - kSmallStates];
    }
  };
  SelectiveRow next[kRowsAhead] = {};
  load_rows(0, next);
  for (int first = 0; first < rows.count; first += kRowsAhead) {
    SelectiveRow now[kRowsAhead];
#pragma unroll
    for (int i = 0; i < kRowsAhead; ++i) now[i] = next[i];
    load_rows(first + kRowsAhead, next);
#pragma unroll
    for (int i = 0; i < kRowsAhead; ++i) {
      if (first + i >= rows.count) break;
      const int r = rows.begin + first + i;
      const float dt = softplus(now[i].dt + dt_bias);
      const float u = dt * now[i].x;
      float* kept = kept_row(args.batch, args.state, r);
      if (kept != nullptr && stores) {
        kept[channel] = dt;
        kept[args.channels + channel] = u;
        // The first block's lanes of B: at least as many channels as states.
        if (blockIdx.x == 0 && lane < kSmallStates) {
          kept[2 * static_cast<int64_t>(args.channels) + lane] = now[i].bc;
        }
      }
      float y = 0;
#pragma unroll
      for (int j = 0; j < kSmallStates; ++j) {
        const float b = __shfl_sync(kFullWarp, now[i].bc, j);
        const float c = __shfl_sync(kFullWarp, now[i].bc, j + kSmallStates);
        s.v[j] = fmaf(b, u, exp_f32(dt * a.v[j]) * s.v[j]);
        y = fmaf(c, s.v[j], y);
      }
      if (stores) args.out.data[r * args.out.stride + channel] = fmaf(d, now[i].x, y);
      const int slot = args.batch.write_slot[r];
      if (slot >= 0 && stores) s.store(args.state.base + slot * args.state.stride + at);
    }
  }
}

}  // namespace chimere::kernels::cuda
