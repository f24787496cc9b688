// The chunks of Ops::ssd_scan with states of 128 (docs/numerics.md, "ssd_scan, a chunk on GPUs"),
// in two launches. ssd_prefill_products computes what needs no state, for all chunks in parallel:
// the products of each group's B and C rows, and the sums of the heads' log decays.
// ssd_prefill_advance then goes from chunk to chunk, in parallel over sequences, heads and blocks
// of columns.
//
// Work of a chunk of 64 rows for one head of 64: 64 * 128 * 64 products with the state, as many for
// the new state, half of 64 * 64 * 64 of rows with each other, each as three tf32 products: 3.5
// million, against 96 KiB of rows, of which heads of a group share 64 in L2.
#include "kernels/cuda/batch_device.h"
#include "kernels/cuda/language.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/cuda/slice_runs.h"
#include "kernels/cuda/split_product.h"
#include "kernels/cuda/state_space_args.h"
#include "kernels/math.h"

namespace chimere::kernels::cuda {
namespace {

inline constexpr int kStates = kSsdPrefillStates;
inline constexpr int kRows = kSsdChunkRows;
inline constexpr int kColumns = kSsdPrefillColumns;
inline constexpr int kThreads = kSsdPrefillThreads;
static_assert(kThreads / kWarp * 16 == kStates && kRows == 64 && kColumns == 32);

/// Floats between rows in shared memory: rows 4 apart lie 8 banks apart.
inline constexpr int kStride = kColumns + 2;
inline constexpr int kProductStride = kRows + 2;

__device__ __forceinline__ int bc_dim(const SsdArgs& args) { return args.n_groups * kStates; }
/// B of a group in row `row` of the step.
__device__ __forceinline__ const float* b_of(const SsdArgs& args, int row, int group) {
  return args.xbc.data + row * args.xbc.stride + args.n_heads * args.head_dim + group * kStates;
}
__device__ __forceinline__ float* products_of(const SsdArgs& args, int row, int group) {
  return args.products + (static_cast<int64_t>(row) * args.n_groups + group) * kRows;
}
__device__ __forceinline__ int64_t gate_at(const SsdArgs& args, int row, int head) {
  return static_cast<int64_t>(row) * args.n_heads + head;
}

union ProductsShared {
  float bt[kStates * kProductStride];  ///< B, transposed
  double log_decay[kSsdDecayHeads][kRows];
};

/// The products of C_i and B_j for one group.
__device__ __forceinline__ void multiply_group(const SsdArgs& args, const SliceArgs& slice,
                                               int group, ProductsShared& shared) {
  for (auto i = static_cast<int>(threadIdx.x); i < kRows * kStates; i += kThreads) {
    const int j = i / kStates;
    const int n = i % kStates;
    shared.bt[n * kProductStride + j] =
        j < slice.row_count ? b_of(args, slice.row_begin + j, group)[n] : 0;
  }
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int first_row = warp % 4 * 16;
  const int column = warp / 4 * 32;
  if (column >= first_row + 16) return;  // above the diagonal
  float c[4][4] = {};
  const float* rows[2];
  bool there[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int r = first_row + lane / 4 + 8 * i;
    there[i] = r < slice.row_count;
    rows[i] = b_of(args, slice.row_begin + (there[i] ? r : 0), group) + bc_dim(args);
  }
#pragma unroll
  for (int s = 0; s < kStates / 16; ++s) {
    float4 a[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      a[i] = there[i] ? *reinterpret_cast<const float4*>(rows[i] + 16 * s + lane % 4 * 4)
                      : make_float4(0, 0, 0, 0);
    }
    add_product<kProductStride>(a[0], a[1], shared.bt + 16 * s * kProductStride + column, c);
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (!there[i]) break;
    float* to = products_of(args, slice.row_begin + first_row + lane / 4 + 8 * i, group) + column +
                lane % 4 * 2;
#pragma unroll
    for (int f = 0; f < 4; ++f) {
      *reinterpret_cast<float2*>(to + 8 * f) = make_float2(c[f][2 * i], c[f][2 * i + 1]);
    }
  }
}

/// dt and the sums of log decays of kSsdDecayHeads heads; a thread for each row and head.
__device__ __forceinline__ void sum_decays(const SsdArgs& args, const SliceArgs& slice,
                                           int first_head, ProductsShared& shared) {
  const int of = static_cast<int>(threadIdx.x) / kRows;
  const int r = static_cast<int>(threadIdx.x) % kRows;
  const int head = first_head + of;
  const bool there = head < args.n_heads && r < slice.row_count;
  if (there) {
    const int row = slice.row_begin + r;
    const float dt = softplus(args.dt.data[row * args.dt.stride + head] + args.dt_bias[head]);
    args.steps[gate_at(args, row, head)] = dt;
    shared.log_decay[of][r] = static_cast<double>(dt) * static_cast<double>(args.a[head]);
  }
  __syncthreads();
  if (!there) return;
  double sum = 0;
  for (int i = 0; i <= r; ++i) sum = sum + shared.log_decay[of][i];
  args.decays[gate_at(args, slice.row_begin + r, head)] = sum;
}

/// exp of the log decay between two sums.
__device__ __forceinline__ float decay_between(double from, double to) {
  return exp_f32(static_cast<float>(to - from));
}

struct alignas(16) AdvanceShared {
  float state[kStates * kStride];
  float x[kRows * kStride];
  float kept[kRows * kStride];  ///< dt x, decayed to the end of the chunk
  double decay[kRows];          ///< sums of log decays
  float dt[kRows];
};

/// 16 rows of C of a chunk.
using Queries = float4[kStates / 16][2];

__device__ __forceinline__ void load_queries(const SsdArgs& args, const SliceArgs& slice, int group,
                                             Queries& to) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int r = warp % 4 * 16 + lane / 4 + 8 * i;
    const bool there = r < slice.row_count;
    const float* from = b_of(args, slice.row_begin + (there ? r : 0), group) + bc_dim(args);
#pragma unroll
    for (int s = 0; s < kStates / 16; ++s) {
      to[s][i] = there ? *reinterpret_cast<const float4*>(from + 16 * s + lane % 4 * 4)
                       : make_float4(0, 0, 0, 0);
    }
  }
}

/// What the products after those with the state need: 16 elements of all rows of B, and the
/// products of 16 rows of C with B.
struct RowOperands {
  float4 bt[kRows / 16][2];
  float4 cb[kRows / 16][2];
};

__device__ __forceinline__ void load_rows(const SsdArgs& args, const SliceArgs& slice, int group,
                                          RowOperands& to) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const float* b = b_of(args, slice.row_begin, group) + warp * 16 + lane / 4;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int r = warp % 4 * 16 + lane / 4 + 8 * i;
    const bool there = r < slice.row_count;
    const float* cb = products_of(args, slice.row_begin + (there ? r : 0), group);
#pragma unroll
    for (int s = 0; s < kRows / 16; ++s) {
      const int j = 16 * s + lane % 4 * 4;
      auto of_row = [&](int of) {
        return j + of < slice.row_count ? b[(j + of) * args.xbc.stride + 8 * i] : 0.0F;
      };
      to.bt[s][i] = make_float4(of_row(0), of_row(1), of_row(2), of_row(3));
      to.cb[s][i] = there && s <= warp % 4 ? *reinterpret_cast<const float4*>(cb + j)
                                           : make_float4(0, 0, 0, 0);
    }
  }
}

/// Stages the chunk's x and gates of the block's columns; missing rows are 0.
__device__ __forceinline__ void stage_rows(const SsdArgs& args, const SliceArgs& slice, int head,
                                           int column, AdvanceShared& shared) {
  const int r = static_cast<int>(threadIdx.x) / 4;
  const int c = static_cast<int>(threadIdx.x) % 4 * 8;
  const bool there = r < slice.row_count;
  float x[8] = {};
  float factor = 0;
  if (there) {
    const int row = slice.row_begin + r;
    const float* from = args.xbc.data + row * args.xbc.stride + head * args.head_dim + column + c;
#pragma unroll
    for (int i = 0; i < 8; i += 4) {
      const auto four = *reinterpret_cast<const float4*>(from + i);
      x[i] = four.x;
      x[i + 1] = four.y;
      x[i + 2] = four.z;
      x[i + 3] = four.w;
    }
    const double decay = args.decays[gate_at(args, row, head)];
    const double end = args.decays[gate_at(args, slice.row_begin + slice.row_count - 1, head)];
    const float dt = args.steps[gate_at(args, row, head)];
    factor = dt * decay_between(decay, end);
    if (c == 0) {
      shared.decay[r] = decay;
      shared.dt[r] = dt;
    }
  } else if (c == 0) {
    shared.decay[r] = 0;
    shared.dt[r] = 0;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    shared.x[r * kStride + c + i] = x[i];
    shared.kept[r * kStride + c + i] = factor * x[i];
  }
}

/// cb as factors of x: γ_ij C_i B_j dt_j for j <= i, else 0.
__device__ __forceinline__ float4 factors_of(const float4& cb, int i, int j, bool there,
                                             const AdvanceShared& shared) {
  const double to = shared.decay[i];
  auto factor = [&](float product, int at) {
    return there && at <= i ? decay_between(shared.decay[at], to) * product * shared.dt[at] : 0.0F;
  };
  return make_float4(factor(cb.x, j), factor(cb.y, j + 1), factor(cb.z, j + 2),
                     factor(cb.w, j + 3));
}

}  // namespace

/// Grid: [groups, then blocks of kSsdDecayHeads heads; slices].
CHIMERE_KERNEL(ssd_prefill_products, kThreads, SsdArgs, args) {
  __shared__ ProductsShared shared;
  wait_for_previous_kernel();
  let_next_kernel_start();
  const SliceArgs slice = args.batch.slices[blockIdx.y];
  if (slice.row_class != kPrefillRows || slice.row_count == 0) return;
  const auto block = static_cast<int>(blockIdx.x);
  if (block < args.n_groups) {
    multiply_group(args, slice, block, shared);
  } else {
    sum_decays(args, slice, (block - args.n_groups) * kSsdDecayHeads, shared);
  }
}

/// Grid: [blocks of kColumns columns, heads, sequences].
CHIMERE_KERNEL(ssd_prefill_advance, kThreads, SsdArgs, args) {
  __shared__ AdvanceShared shared;
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int column = static_cast<int>(blockIdx.x) * kColumns;
  const auto head = static_cast<int>(blockIdx.y);
  const auto sequence = static_cast<int>(blockIdx.z);
  const Run run = find_run(args.batch, sequence, args.run);
  if (run.slice_begin == run.slice_end || run.row_class != kPrefillRows) return;
  const int group = head / (args.n_heads / args.n_groups);
  const int dim = args.head_dim;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int half = warp / 4 * (kColumns / 2);  // the warp's columns of products with rows
  const int64_t of_head = static_cast<int64_t>(head) * dim * kStates + column;
  float* const carried =
      args.carry + static_cast<int64_t>(sequence) * args.n_heads * dim * kStates + of_head;
  // A lane's elements of a state, from its first column on.
  auto state_at = [&](int f, int i) {
    return static_cast<int64_t>(warp * 16 + lane / 4 + 8 * i) * dim + 8 * f + lane % 4 * 2;
  };

  float state[kColumns / 8][4];
  const float* before =
      args.run > 0 ? carried
                   : args.state.base + args.batch.read_slot[sequence] * args.state.stride + of_head;
#pragma unroll
  for (int f = 0; f < kColumns / 8; ++f) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      state[f][2 * i] = before[state_at(f, i)];
      state[f][2 * i + 1] = before[state_at(f, i) + 1];
    }
  }
  put_rows<kStride>(state, warp * 16, 1, 1, shared.state);
  Queries queries;
  load_queries(args, args.batch.slices[run.slice_begin], group, queries);
  for (int i = run.slice_begin; i < run.slice_end; ++i) {
    const SliceArgs slice = args.batch.slices[i];
    RowOperands rows;
    load_rows(args, slice, group, rows);
    stage_rows(args, slice, head, column, shared);
    __syncthreads();
    float y[kColumns / 16][4] = {};
#pragma unroll
    for (int s = 0; s < kStates / 16; ++s) {
      add_product<kStride>(queries[s][0], queries[s][1], shared.state + 16 * s * kStride + half, y);
    }
    const int r0 = warp % 4 * 16 + lane / 4;
    const bool there[2] = {r0 < slice.row_count, r0 + 8 < slice.row_count};
    const float total[2] = {decay_between(0, shared.decay[r0]),
                            decay_between(0, shared.decay[r0 + 8])};
#pragma unroll
    for (int f = 0; f < kColumns / 16; ++f) {
#pragma unroll
      for (int e = 0; e < 4; ++e) y[f][e] = total[e / 2] * y[f][e];
    }
#pragma unroll
    for (int s = 0; s < kRows / 16; ++s) {
      if (s > warp % 4) break;
      const int j = 16 * s + lane % 4 * 4;
      const float4 first = factors_of(rows.cb[s][0], r0, j, there[0], shared);
      const float4 second = factors_of(rows.cb[s][1], r0 + 8, j, there[1], shared);
      add_product<kStride>(first, second, shared.x + 16 * s * kStride + half, y);
    }
    const float d = args.d[head];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      if (!there[e]) break;
      const float* x = shared.x + (r0 + 8 * e) * kStride + half + lane % 4 * 2;
      float* out = args.out.data + (slice.row_begin + r0 + 8 * e) * args.out.stride + head * dim +
                   column + half + lane % 4 * 2;
#pragma unroll
      for (int f = 0; f < kColumns / 16; ++f) {
        *reinterpret_cast<float2*>(out + 8 * f) =
            make_float2(fmaf(d, x[8 * f], y[f][2 * e]), fmaf(d, x[8 * f + 1], y[f][2 * e + 1]));
      }
    }
    if (i + 1 < run.slice_end) {
      load_queries(args, args.batch.slices[i + 1], group, queries);
    }
    const float all = decay_between(0, shared.decay[slice.row_count - 1]);
#pragma unroll
    for (int f = 0; f < kColumns / 8; ++f) {
#pragma unroll
      for (int e = 0; e < 4; ++e) state[f][e] = all * state[f][e];
    }
#pragma unroll
    for (int s = 0; s < kRows / 16; ++s) {
      if (16 * s >= slice.row_count) break;
      add_product<kStride>(rows.bt[s][0], rows.bt[s][1], shared.kept + 16 * s * kStride, state);
    }
    __syncthreads();
    put_rows<kStride>(state, warp * 16, 1, 1, shared.state);
    const int slot = args.batch.write_slot[slice.row_begin + slice.row_count - 1];
    const bool carries = i + 1 == run.slice_end && !run.last;
    float* const after = slot >= 0 ? args.state.base + slot * args.state.stride + of_head : nullptr;
#pragma unroll
    for (int f = 0; f < kColumns / 8; ++f) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int64_t at = state_at(f, k);
        if (after != nullptr) {
          after[at] = state[f][2 * k];
          after[at + 1] = state[f][2 * k + 1];
        }
        if (carries) {
          carried[at] = state[f][2 * k];
          carried[at + 1] = state[f][2 * k + 1];
        }
      }
    }
  }
}

}  // namespace chimere::kernels::cuda
