// The prefill rows of a gated delta-net layer with heads of 128 elements (docs/numerics.md,
// "gdn_scan, a chunk on GPUs"), after gdn_prefill_products. The result of a chunk is linear in the
// state before it: gdn_prefill_solve computes, for all chunks in parallel, the corrections for a
// zero state and their linear dependence on the state; gdn_prefill_advance then processes chunk
// after chunk with four products on tensor cores.
//
// Work of a chunk of 64 rows per head: 2 * 64 * 128² multiply-adds with the state, 64 * 128² for
// the new state, 64² * 128 / 2 of rows with corrections, each as three tf32 products: 11 million. A
// block keeps 32 columns of a state in registers and loads the operands of the next products while
// it computes the current ones.
#include "kernels/cuda/gdn_device.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/cuda/split_product.h"

namespace chimere::kernels::cuda {
namespace {

inline constexpr int kDim = 128;
inline constexpr int kThreads = kGdnPrefillThreads;
static_assert(kThreads == 2 * kDim && kThreads / kWarp * 16 == kDim && kChunkRows == 64);

/// Floats between rows of A.
inline constexpr int kSolveStride = kChunkRows + 4;

struct alignas(16) SolveShared {
  float a[kChunkRows * kSolveStride];  ///< sums of log decays between two rows, then A_ij
  float log_decay[kChunkRows];
  float beta[kChunkRows];
  float decay[kChunkRows];
};

/// The entry of GdnPrefillArgs::solved for row `row` of the step and v head h.
__device__ __forceinline__ float* solved_of(const GdnPrefillArgs& args, int row, int h) {
  return args.solved + (static_cast<int64_t>(row) * args.scan.dims.n_v_heads + h) * (2 * kDim);
}
__device__ __forceinline__ float* mixed_of(const GdnPrefillArgs& args, int row, int h) {
  return args.mixed + (static_cast<int64_t>(row) * args.scan.dims.n_v_heads + h) * kChunkRows;
}
__device__ __forceinline__ float* decays_of(const GdnPrefillArgs& args, int row, int h) {
  return args.decays + (static_cast<int64_t>(row) * args.scan.dims.n_v_heads + h) * 2;
}

/// Computes gates, sums of log decays between two rows (each from its own start), and the rows'
/// `decays`.
__device__ __forceinline__ void sum_decays(const GdnPrefillArgs& args, const SliceArgs& slice,
                                           int h, SolveShared& shared) {
  const auto thread = static_cast<int>(threadIdx.x);
  const int rows = slice.row_count;
  if (thread < rows) {
    const Gates gates = gates_of(args.scan, slice.row_begin + thread, h);
    shared.log_decay[thread] = gates.log_decay;
    shared.beta[thread] = gates.beta;
  }
  __syncthreads();
  if (thread < rows) {
    float between = 0;
    shared.a[thread * kSolveStride + thread] = between;
    for (int i = thread + 1; i < rows; ++i) {
      between = between + shared.log_decay[i];
      shared.a[i * kSolveStride + thread] = between;
    }
    decays_of(args, slice.row_begin + thread, h)[1] = exp_f32(between);
  } else if (thread >= kChunkRows && thread < kChunkRows + rows) {
    float total = 0;
    for (int i = 0; i <= thread - kChunkRows; ++i) total = total + shared.log_decay[i];
    const float decay = exp_f32(total);
    shared.decay[thread - kChunkRows] = decay;
    decays_of(args, slice.row_begin + thread - kChunkRows, h)[0] = decay;
  }
  __syncthreads();
}

/// Computes A_ij into shared and B_ij into device memory, 0 above the diagonal.
__device__ __forceinline__ void decay_products(const GdnPrefillArgs& args, const SliceArgs& slice,
                                               int h, int k_head, SolveShared& shared) {
  for (auto at = static_cast<int>(threadIdx.x); at < slice.row_count * kChunkRows; at += kThreads) {
    const int i = at / kChunkRows;
    const int j = at % kChunkRows;
    const int row = slice.row_begin + i;
    const float* products =
        args.products +
        (static_cast<int64_t>(row) * args.scan.dims.n_k_heads + k_head) * (2 * kChunkRows);
    float& a = shared.a[i * kSolveStride + j];
    float b = 0;
    if (j <= i) {
      const float decay = exp_f32(a);
      b = decay * products[kChunkRows + j];
      a = decay * products[j];
    }
    mixed_of(args, row, h)[j] = b;
  }
}

/// Floats between rows of a matrix in shared memory: rows 4 apart lie 8 banks apart.
inline constexpr int kStride = kPrefillColumns + 2;

/// Sums of 16 rows by the block's columns.
using Fragments = ColumnFragments<kPrefillColumns / 8>;

struct alignas(16) AdvanceShared {
  float state[kDim * kStride];
  float u[kChunkRows * kStride];     ///< corrections
  float kept[kChunkRows * kStride];  ///< corrections, decayed to the end of the chunk
};

/// The lane's rows of a fragment, columns 8 f + 2 part: [f][row group or group + 8].
using Pairs = float2[kPrefillColumns / 8][2];

/// Operands of a warp that do not depend on the chunk's corrections: in warps 0 to 3, 16 rows of
/// the corrections' dependence on the state; in warps 4 to 7, 16 queries.
struct FirstOperands {
  float4 rows[kDim / 16][2];
  Pairs start;     ///< corrections for a zero state
  float decay[2];  ///< Γ of the two rows
  float rest[2];   ///< γ from them to the last row
};

/// Operands needed after the corrections: 16 elements of all rows' keys; in warps 4 to 7 also B_ij
/// of 16 rows.
struct SecondOperands {
  float4 keys[kChunkRows / 16][2];
  float4 mixed[kChunkRows / 16][2];
  float total;  ///< Γ of the last row
};

__device__ __forceinline__ void load_first(const GdnPrefillArgs& args, const SliceArgs& slice,
                                           int h, int k_head, int column, FirstOperands& to) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int r = warp % 4 * 16 + lane / 4 + 8 * i;
    const bool there = r < slice.row_count;
    const int row = slice.row_begin + (there ? r : 0);
    const float* solved = solved_of(args, row, h);
    const float* from = warp < 4 ? solved + kDim
                                 : args.scan.qkv.data + row * args.scan.qkv.stride +
                                       static_cast<int64_t>(k_head) * kDim;
#pragma unroll
    for (int s = 0; s < kDim / 16; ++s) {
      to.rows[s][i] = there ? *reinterpret_cast<const float4*>(from + 16 * s + lane % 4 * 4)
                            : make_float4(0, 0, 0, 0);
    }
#pragma unroll
    for (int f = 0; f < kPrefillColumns / 8; ++f) {
      to.start[f][i] =
          there && warp < 4
              ? *reinterpret_cast<const float2*>(solved + column + 8 * f + lane % 4 * 2)
              : make_float2(0, 0);
    }
    to.decay[i] = there ? decays_of(args, row, h)[0] : 0;
    to.rest[i] = there ? decays_of(args, row, h)[1] : 0;
  }
}

__device__ __forceinline__ void load_second(const GdnPrefillArgs& args, const SliceArgs& slice,
                                            int h, int k_head, SecondOperands& to) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const float* keys = args.scan.qkv.data + slice.row_begin * args.scan.qkv.stride +
                      static_cast<int64_t>(args.scan.dims.n_k_heads + k_head) * kDim + warp * 16 +
                      lane / 4;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int s = 0; s < kChunkRows / 16; ++s) {
      const int j = 16 * s + lane % 4 * 4;
      auto key = [&](int of) {
        return j + of < slice.row_count ? keys[(j + of) * args.scan.qkv.stride + 8 * i] : 0.0F;
      };
      to.keys[s][i] = make_float4(key(0), key(1), key(2), key(3));
    }
    const int r = warp % 4 * 16 + lane / 4 + 8 * i;
    const bool there = warp >= 4 && r < slice.row_count;
    const float* mixed = mixed_of(args, slice.row_begin + (there ? r : 0), h);
#pragma unroll
    for (int s = 0; s < kChunkRows / 16; ++s) {
      to.mixed[s][i] = there && s <= warp % 4
                           ? *reinterpret_cast<const float4*>(mixed + 16 * s + lane % 4 * 4)
                           : make_float4(0, 0, 0, 0);
    }
  }
  to.total = decays_of(args, slice.row_begin + slice.row_count - 1, h)[0];
}

/// Offset of an element of the warp's 16 rows within the block's columns of a state.
__device__ __forceinline__ int64_t state_at(int column, int f, int i) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int row = static_cast<int>(threadIdx.x) / kWarp * 16 + lane / 4 + 8 * i;
  return static_cast<int64_t>(row) * kDim + column + 8 * f + lane % 4 * 2;
}

__device__ __forceinline__ void load_state(const float* from, int column, Fragments& s) {
#pragma unroll
  for (int f = 0; f < kPrefillColumns / 8; ++f) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const auto pair = *reinterpret_cast<const float2*>(from + state_at(column, f, i));
      s[f][2 * i] = pair.x;
      s[f][2 * i + 1] = pair.y;
    }
  }
}

__device__ __forceinline__ void store_state(const Fragments& s, int column, float* to) {
#pragma unroll
  for (int f = 0; f < kPrefillColumns / 8; ++f) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      *reinterpret_cast<float2*>(to + state_at(column, f, i)) =
          make_float2(s[f][2 * i], s[f][2 * i + 1]);
    }
  }
}

}  // namespace

/// Grid: [v heads, slices]. A thread solves for one right-hand side: a column of v, or of k with
/// its decay.
CHIMERE_KERNEL(gdn_prefill_solve, kThreads, GdnPrefillArgs, args) {
  __shared__ SolveShared shared;
  wait_for_previous_kernel();
  let_next_kernel_start();
  const SliceArgs slice = args.scan.batch.slices[blockIdx.y];
  if (slice.row_class != kPrefillRows || slice.row_count == 0) return;
  const GdnDims& dims = args.scan.dims;
  const auto h = static_cast<int>(blockIdx.x);
  const int k_head = k_head_of(dims, h);
  const auto c = static_cast<int>(threadIdx.x);
  const bool is_key = c >= kDim;
  const int64_t at = is_key ? static_cast<int64_t>(dims.n_k_heads + k_head) * kDim + c - kDim
                            : static_cast<int64_t>(2 * dims.n_k_heads + h) * kDim + c;
  const float* right = args.scan.qkv.data + slice.row_begin * args.scan.qkv.stride + at;
  float x[kChunkRows];
#pragma unroll
  for (int i = 0; i < kChunkRows; ++i) {
    x[i] = i < slice.row_count ? right[i * args.scan.qkv.stride] : 0;
  }
  sum_decays(args, slice, h, shared);
  decay_products(args, slice, h, k_head, shared);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kChunkRows; ++i) {
    if (i < slice.row_count) {
      float sum = is_key ? shared.decay[i] * x[i] : x[i];
#pragma unroll
      for (int j = 0; j < i; j += 4) {
        const float4 a = *reinterpret_cast<const float4*>(shared.a + i * kSolveStride + j);
        const float as[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
        for (int of = 0; of < 4; ++of) {
          if (j + of < i) sum = fmaf(-as[of], x[j + of], sum);
        }
      }
      x[i] = shared.beta[i] * sum;
      solved_of(args, slice.row_begin + i, h)[c] = x[i];
    }
  }
}

/// Grid: [blocks of kPrefillColumns columns, v heads, sequences].
CHIMERE_KERNEL(gdn_prefill_advance, kThreads, GdnPrefillArgs, args) {
  __shared__ AdvanceShared shared;
  wait_for_previous_kernel();
  let_next_kernel_start();
  const GdnScanArgs& scan = args.scan;
  const int column = static_cast<int>(blockIdx.x) * kPrefillColumns;
  const auto h = static_cast<int>(blockIdx.y);
  const auto sequence = static_cast<int>(blockIdx.z);
  const Run run = find_run(scan.batch, sequence, scan.run);
  if (run.slice_begin == run.slice_end || run.row_class != kPrefillRows) return;
  const int k_head = k_head_of(scan.dims, h);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const float scale = 1.0F / sqrtf(static_cast<float>(kDim));

  Fragments state;
  load_state(state_before(scan, sequence, h), column, state);
  put_rows<kStride>(state, warp * 16, 1, 1, shared.state);
  FirstOperands first;
  SecondOperands second;
  load_first(args, scan.batch.slices[run.slice_begin], h, k_head, column, first);
  __syncthreads();
  for (int i = run.slice_begin; i < run.slice_end; ++i) {
    const SliceArgs slice = scan.batch.slices[i];
    load_second(args, slice, h, k_head, second);
    Fragments c = {};
#pragma unroll
    for (int s = 0; s < kDim / 16; ++s) {
      add_product<kStride>(first.rows[s][0], first.rows[s][1], shared.state + 16 * s * kStride, c);
    }
    if (warp < 4) {
#pragma unroll
      for (int f = 0; f < kPrefillColumns / 8; ++f) {
        c[f][0] = first.start[f][0].x - c[f][0];
        c[f][1] = first.start[f][0].y - c[f][1];
        c[f][2] = first.start[f][1].x - c[f][2];
        c[f][3] = first.start[f][1].y - c[f][3];
      }
      put_rows<kStride>(c, warp * 16, 1, 1, shared.u);
      put_rows<kStride>(c, warp * 16, first.rest[0], first.rest[1], shared.kept);
    } else {
#pragma unroll
      for (int f = 0; f < kPrefillColumns / 8; ++f) {
#pragma unroll
        for (int e = 0; e < 4; ++e) c[f][e] = first.decay[e / 2] * (scale * c[f][e]);
      }
    }
    if (i + 1 < run.slice_end) {
      load_first(args, scan.batch.slices[i + 1], h, k_head, column, first);
    }
    __syncthreads();
    if (warp >= 4) {
#pragma unroll
      for (int s = 0; s < kChunkRows / 16; ++s) {
        if (s > warp % 4) break;
        add_product<kStride>(second.mixed[s][0], second.mixed[s][1], shared.u + 16 * s * kStride,
                             c);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int r = warp % 4 * 16 + lane / 4 + 8 * half;
        if (r >= slice.row_count) break;
        float* out = scan.out.data + (slice.row_begin + r) * scan.out.stride +
                     static_cast<int64_t>(h) * kDim + column + lane % 4 * 2;
#pragma unroll
        for (int f = 0; f < kPrefillColumns / 8; ++f) {
          *reinterpret_cast<float2*>(out + 8 * f) = make_float2(c[f][2 * half], c[f][2 * half + 1]);
        }
      }
    }
#pragma unroll
    for (int f = 0; f < kPrefillColumns / 8; ++f) {
#pragma unroll
      for (int e = 0; e < 4; ++e) state[f][e] = second.total * state[f][e];
    }
#pragma unroll
    for (int s = 0; s < kChunkRows / 16; ++s) {
      if (16 * s >= slice.row_count) break;
      add_product<kStride>(second.keys[s][0], second.keys[s][1], shared.kept + 16 * s * kStride,
                           state);
    }
    put_rows<kStride>(state, warp * 16, 1, 1, shared.state);
    float* after = state_after(scan, slice.row_begin + slice.row_count - 1, h);
    if (after != nullptr) store_state(state, column, after);
    __syncthreads();
  }
  if (!run.last) store_state(state, column, state_carried(scan, sequence, h));
}

}  // namespace chimere::kernels::cuda
