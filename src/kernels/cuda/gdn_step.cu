// The step rows of a gated delta-net layer in one launch: all sequences, all v heads; convolution,
// normalisation of q and k, delta rule and the gated norm of the output, of which the first and the
// last may be left out. The bits are those of the ops one by one (docs/numerics.md).
//
// A block has one v head of one sequence. The state's columns lie over threads: thread (p, c) holds
// rows p * kRows .. of column c in registers from the first row to the last, so the state is read
// once and written once for each row that keeps it. The chains over a column go through its parts
// one after the other.
//
// Bytes of a row: 2 * 4 * n_v_heads * head_dim² of state, and what the convolution reads.
#include "kernels/cuda/dot_device.h"
#include "kernels/cuda/gdn_device.h"
#include "kernels/cuda/ptx/dependent_launch.h"

namespace chimere::kernels::cuda {
namespace {

inline constexpr int kMaxDim = 256;  ///< GdnShape::head_dim

/// What the threads of a block share; one row at a time.
struct StepShared {
  float raw[3 * kMaxDim];  ///< q, k, v as the convolution leaves them
  float q[kMaxDim];        ///< normalised and scaled
  float k[kMaxDim];
  float kept[kMaxDim];  ///< chains over a column, from part to part
  float read[kMaxDim];
  float out[kMaxDim];
  float kq;
  int last_reader;
};

/// Channels of the block's q head, k head and v head.
struct Channels {
  int n;
  int q;
  int k;
  int v;
  __device__ int operator[](int i) const {
    return i < n ? q + i : i < 2 * n ? k + i - n : v + i - 2 * n;
  }
};

/// Input of the convolution at `row` rows after the first one of the run, from 1 - taps.
__device__ __forceinline__ float conv_input(const GdnStepArgs& args, const float* before,
                                            int first_row, int channel, int row) {
  if (row >= 0) return args.scan.qkv.data[(first_row + row) * args.scan.qkv.stride + channel];
  const int past = args.scan.dims.taps - 1;
  return before[static_cast<int64_t>(row + past) * conv_dim(args.scan.dims) + channel];
}

/// q, k and v of a row into shared.raw.
__device__ __forceinline__ void read_row(const GdnStepArgs& args, const float* before,
                                         int first_row, int row, const Channels& channels,
                                         StepShared& shared) {
  const int taps = args.scan.dims.taps;
  for (auto i = static_cast<int>(threadIdx.x); i < 3 * channels.n;
       i += static_cast<int>(blockDim.x)) {
    const int c = channels[i];
    if (args.conv_weight == nullptr) {
      shared.raw[i] = args.scan.qkv.data[(first_row + row) * args.scan.qkv.stride + c];
      continue;
    }
    float sum = 0;
    for (int t = 0; t < taps; ++t) {
      sum = fmaf(args.conv_weight[static_cast<int64_t>(c) * taps + t],
                 conv_input(args, before, first_row, c, row - taps + 1 + t), sum);
    }
    shared.raw[i] = silu(sum);
  }
}

/// The normalised q and k heads and their product.
__device__ __forceinline__ void normalise_row(const GdnStepArgs& args, int n, StepShared& shared) {
  const auto thread = static_cast<int>(threadIdx.x);
  const auto threads = static_cast<int>(blockDim.x);
  float q_scale = 1;
  float k_scale = 1;
  if (args.conv_weight != nullptr) {
    // Each warp for itself: its first half takes q, its second half k.
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

/// Output of the row, n elements, to `out`: as it is or through the gated norm.
__device__ __forceinline__ void write_out(const GdnStepArgs& args, const float* values, int n,
                                          int row, int h) {
  const auto thread = static_cast<int>(threadIdx.x);
  const int64_t at = static_cast<int64_t>(h) * n;
  float* out = args.scan.out.data + row * args.scan.out.stride + at;
  float scale = 0;
  if (args.norm != nullptr) {
    const float mean = half_warp_dot16(values, values, n) / static_cast<float>(n);
    scale = 1.0F / sqrtf(mean + args.eps);
  }
  for (int i = thread; i < n; i += static_cast<int>(blockDim.x)) {
    out[i] = args.norm == nullptr ? values[i]
                                  : values[i] * scale * args.norm[i] *
                                        silu(args.z.data[row * args.z.stride + at + i]);
  }
}

/// The convolution's states of channels first .. first + n - 1 after the rows that keep one.
__device__ __forceinline__ void write_conv_states(const GdnStepArgs& args, const float* before,
                                                  int first_row, int rows, int first, int n) {
  const int past = args.scan.dims.taps - 1;
  const int64_t channels = conv_dim(args.scan.dims);
  for (auto i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) {
    const int c = first + i;
    float old[kMaxTaps - 1];  // `before` may be one of the states that are written
    for (int t = 0; t < past; ++t) old[t] = before[t * channels + c];
    for (int row = 0; row < rows; ++row) {
      const int slot = args.scan.batch.write_slot[first_row + row];
      if (slot < 0) continue;
      float* after = args.conv_state.base + slot * args.conv_state.stride + c;
      for (int t = 0; t < past; ++t) {
        const int from = row - past + 1 + t;
        after[t * channels] =
            from < 0 ? old[from + past] : conv_input(args, before, first_row, c, from);
      }
    }
  }
}

/// True in the last of the blocks that read the k head of this sequence: then all have read it.
__device__ __forceinline__ bool last_reader(const GdnStepArgs& args, int sequence, int k_head,
                                            StepShared& shared) {
  __syncthreads();
  if (threadIdx.x == 0) {
    const auto readers = static_cast<uint32_t>(args.scan.dims.n_v_heads / args.scan.dims.n_k_heads);
    uint32_t* arrivals =
        args.arrivals + static_cast<int64_t>(sequence) * args.scan.dims.n_k_heads + k_head;
    __threadfence();
    shared.last_reader = atomicAdd(arrivals, 1U) + 1 == readers ? 1 : 0;
    if (shared.last_reader != 0) *arrivals = 0;
  }
  __syncthreads();
  return shared.last_reader != 0;
}

template <int kRows>
__device__ void step_rows(const GdnStepArgs& args, StepShared& shared) {
  const GdnScanArgs& scan = args.scan;
  // With the convolution, nobody has written this state in this step, and a step begins with a copy
  // that waits for all of the step before: the state can be on its way while the previous kernel
  // still computes q, k and v.
  const bool state_is_there = args.conv_weight != nullptr && scan.run == 0;
  if (!state_is_there) wait_for_previous_kernel();
  const int n = scan.dims.head_dim;
  const auto h = static_cast<int>(blockIdx.x);
  const auto sequence = static_cast<int>(blockIdx.y);
  const Run run = find_run(scan.batch, sequence, scan.run);
  if (run.slice_begin == run.slice_end || run.row_class != kStepRows) return;
  const int first_row = scan.batch.slices[run.slice_begin].row_begin;
  const SliceArgs last_slice = scan.batch.slices[run.slice_end - 1];
  const int rows = last_slice.row_begin + last_slice.row_count - first_row;
  const int k_head = k_head_of(scan.dims, h);
  const int key_dim = scan.dims.n_k_heads * n;
  const Channels channels = {n, k_head * n, key_dim + k_head * n, 2 * key_dim + h * n};
  const float* conv_before =
      args.conv_state.base + scan.batch.read_slot[sequence] * args.conv_state.stride;

  const auto thread = static_cast<int>(threadIdx.x);
  const int part = thread / args.columns;
  const int parts = n / kRows;
  for (int begin = 0; begin < n; begin += args.columns) {
    const int c = begin + thread % args.columns;
    const bool works = c < n && part < parts;
    const int column = thread % args.columns;
    const int64_t at = static_cast<int64_t>(part) * kRows * n + c;
    float s[kRows] = {};
    if (works) {
      const float* before = state_before(scan, sequence, h) + at;
#pragma unroll
      for (int i = 0; i < kRows; ++i) s[i] = before[static_cast<int64_t>(i) * n];
    }
    if (begin == 0) {
      if (state_is_there) wait_for_previous_kernel();
      let_next_kernel_start();
    }
    for (int row = 0; row < rows; ++row) {
      read_row(args, conv_before, first_row, row, channels, shared);
      const Gates gates = gates_of(scan, first_row + row, h);
      const float decay = exp_f32(gates.log_decay);
      __syncthreads();
      normalise_row(args, n, shared);
      const float* k = shared.k + part * kRows;
      const float* q = shared.q + part * kRows;
      float kept = 0;
      float read = 0;
      for (int turn = 0; turn < parts; ++turn) {
        if (turn == part && works) {
          if (turn > 0) {
            kept = shared.kept[column];
            read = shared.read[column];
          }
#pragma unroll
          for (int i = 0; i < kRows; ++i) {
            kept = fmaf(k[i], s[i], kept);
            read = fmaf(q[i], s[i], read);
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
        if (part == 0) shared.out[c] = fmaf(shared.kq, delta, decay * read);
#pragma unroll
        for (int i = 0; i < kRows; ++i) s[i] = fmaf(k[i], delta, decay * s[i]);
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
      // With several passes over the columns, the outputs wait in memory for the last one.
      if (args.columns >= n) {
        write_out(args, shared.out, n, first_row + row, h);
      } else if (works && part == 0) {
        scan.out.data[(first_row + row) * scan.out.stride + static_cast<int64_t>(h) * n + c] =
            shared.out[c];
      }
    }
    __syncthreads();
  }
  if (args.columns < n && args.norm != nullptr) {
    for (int row = 0; row < rows; ++row) {
      const float* out =
          scan.out.data + (first_row + row) * scan.out.stride + static_cast<int64_t>(h) * n;
      for (int i = thread; i < n; i += static_cast<int>(blockDim.x)) shared.out[i] = out[i];
      __syncthreads();
      write_out(args, shared.out, n, first_row + row, h);
      __syncthreads();
    }
  }
  if (args.conv_weight == nullptr) return;
  const bool writes_keys = last_reader(args, sequence, k_head, shared);
  write_conv_states(args, conv_before, first_row, rows, channels.v, n);
  if (!writes_keys) return;
  write_conv_states(args, conv_before, first_row, rows, channels.q, n);
  write_conv_states(args, conv_before, first_row, rows, channels.k, n);
}

}  // namespace

// Grid: [v heads, sequences]. Threads: columns * (head_dim / rows of a part), whole warps.
// Three of the same, for the registers that their blocks leave to a thread.

CHIMERE_KERNEL(gdn_step_32, 512, GdnStepArgs, args) {
  __shared__ StepShared shared;
  step_rows<32>(args, shared);
}

CHIMERE_KERNEL(gdn_step_32_wide, 1024, GdnStepArgs, args) {
  __shared__ StepShared shared;
  step_rows<32>(args, shared);
}

CHIMERE_KERNEL(gdn_step_16_wide, 1024, GdnStepArgs, args) {
  __shared__ StepShared shared;
  step_rows<16>(args, shared);
}

}  // namespace chimere::kernels::cuda
