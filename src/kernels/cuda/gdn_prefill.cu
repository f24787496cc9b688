// The prefill rows of a gated delta-net layer (docs/numerics.md, "gdn_scan, a chunk"), in two
// launches. First the products of the rows of each chunk with each other, which need no state, for
// all chunks in parallel; then the recurrence, chunk by chunk, in parallel over sequences, v heads
// and blocks of columns. Every sum is a chain in the order of ref, so the bits are ref's: blocks of
// 4 x 4 sums in registers reach the GPU's full f32 rate without reordering any of them.
//
// Work of a chunk of 64 rows for one v head of 128: 2 * 64 * 128² products with the state, 64² *
// 128 of rows with each other and with corrections, 64 * 128² for the new state: 4.2 million fused
// multiply-adds, against 64 KiB of rows from memory.
#include "kernels/cuda/gdn_device.h"
#include "kernels/cuda/ptx/dependent_launch.h"

namespace chimere::kernels::cuda {
namespace {

inline constexpr int kTile = 4;
/// Elements of a head that are staged at a time.
inline constexpr int kSlab = 16;
/// Floats per element of a staged slab: element d of all k rows, then of all q rows.
inline constexpr int kSlabStride = 2 * kChunkRows + 4;

struct alignas(16) ProductsShared {
  float rows[kSlab * kSlabStride];
};

/// Stages elements d0 .. of the chunk's k and q rows of one head, transposed; missing rows are 0.
__device__ __forceinline__ void stage_slab(const GdnScanArgs& args, const SliceArgs& slice,
                                           int k_head, int d0, float* slab) {
  const int n = args.dims.head_dim;
  const int64_t key_dim = static_cast<int64_t>(args.dims.n_k_heads) * n;
  const float scale = 1.0F / sqrtf(static_cast<float>(n));
  for (auto i = static_cast<int>(threadIdx.x); i < 2 * kChunkRows * kSlab;
       i += kGdnPrefillThreads) {
    const int d = i % kSlab;
    const int row = i / kSlab % kChunkRows;
    const bool is_q = i >= kChunkRows * kSlab;
    float x = 0;
    if (row < slice.row_count) {
      const float* q = args.qkv.data + (slice.row_begin + row) * args.qkv.stride +
                       static_cast<int64_t>(k_head) * n + d0 + d;
      x = is_q ? q[0] * scale : q[key_dim];
    }
    slab[d * kSlabStride + (is_q ? kChunkRows : 0) + row] = x;
  }
}

/// acc[i][j] += a[i] * b[j]
__device__ __forceinline__ void add_outer(const float4& a, const float4& b,
                                          float (&acc)[kTile][kTile]) {
  const float as[kTile] = {a.x, a.y, a.z, a.w};
  const float bs[kTile] = {b.x, b.y, b.z, b.w};
#pragma unroll
  for (int i = 0; i < kTile; ++i) {
#pragma unroll
    for (int j = 0; j < kTile; ++j) acc[i][j] = fmaf(as[i], bs[j], acc[i][j]);
  }
}

__device__ __forceinline__ const float4& four(const float* p) {
  return *reinterpret_cast<const float4*>(p);
}

/// Shared memory for one chunk and the block's columns.
struct alignas(16) ScanShared {
  float slab[kSlab * kSlabStride];          ///< multiplied with the state in tiles of 4 x 4
  float u[kChunkRows * kPrefillColumns];    ///< corrections
  float out[kChunkRows * kPrefillColumns];  ///< outputs, without the corrections' part
  float kk[kChunkRows * (kChunkRows + 1)];  ///< A_ij by row i, then 0 where j >= i
  float qk[kChunkRows * (kChunkRows + 1)];  ///< B_ij
  float decay[kChunkRows];                  ///< Γ_i
  float rest[kChunkRows];                   ///< γ from row i to the last row
  float log_decay[kChunkRows];
  float beta[kChunkRows];
};
static_assert(sizeof(ScanShared) == kGdnPrefillSharedBytes);

/// Computes gates, decays between rows, A and B.
__device__ __forceinline__ void prepare_decays(const GdnPrefillArgs& args, const SliceArgs& slice,
                                               int h, int k_head, ScanShared& shared) {
  const auto thread = static_cast<int>(threadIdx.x);
  const int rows = slice.row_count;
  if (thread < rows) {
    const Gates gates = gates_of(args.scan, slice.row_begin + thread, h);
    shared.log_decay[thread] = gates.log_decay;
    shared.beta[thread] = gates.beta;
  }
  __syncthreads();
  // Sums of the log decays between two rows, each from its own start.
  if (thread < rows) {
    float between = 0;
    shared.kk[thread * (kChunkRows + 1) + thread] = between;
    for (int i = thread + 1; i < rows; ++i) {
      between = between + shared.log_decay[i];
      shared.kk[i * (kChunkRows + 1) + thread] = between;
    }
    shared.rest[thread] = exp_f32(between);
  } else if (thread == kChunkRows) {
    float total = 0;
    for (int i = 0; i < rows; ++i) {
      total = total + shared.log_decay[i];
      shared.decay[i] = exp_f32(total);
    }
  }
  __syncthreads();
  for (int at = thread; at < rows * kChunkRows; at += kGdnPrefillThreads) {
    const int i = at / kChunkRows;
    const int j = at % kChunkRows;
    if (j > i) continue;
    const float* products =
        args.products +
        ((slice.row_begin + i) * static_cast<int64_t>(args.scan.dims.n_k_heads) + k_head) *
            (2 * kChunkRows);
    float& a = shared.kk[i * (kChunkRows + 1) + j];
    const float decay = exp_f32(a);
    shared.qk[i * (kChunkRows + 1) + j] = decay * products[kChunkRows + j];
    a = decay * products[j];
  }
}

/// chain(k_i, S_c) and chain(q_i, S_c) for all rows and columns, and from them the initial values
/// of the corrections and the outputs.
__device__ __forceinline__ void read_state(const GdnPrefillArgs& args, const SliceArgs& slice,
                                           int h, int k_head, int column, const float* state,
                                           ScanShared& shared) {
  const int n = args.scan.dims.head_dim;
  const auto thread = static_cast<int>(threadIdx.x);
  constexpr int kColumnTiles = kPrefillColumns / kTile;
  const int c0 = thread % kColumnTiles * kTile;
  const int r0 = thread / kColumnTiles * kTile;  // first k rows, then q rows
  float acc[kTile][kTile] = {};
  for (int d0 = 0; d0 < n; d0 += kSlab) {
    __syncthreads();
    stage_slab(args.scan, slice, k_head, d0, shared.slab);
    __syncthreads();
#pragma unroll 8
    for (int d = 0; d < kSlab; ++d) {
      add_outer(four(shared.slab + d * kSlabStride + r0),
                four(state + (d0 + d) * kPrefillColumns + c0), acc);
    }
  }
  const bool is_q = r0 >= kChunkRows;
  const float* v =
      args.scan.qkv.data + static_cast<int64_t>(2 * args.scan.dims.n_k_heads + h) * n + column + c0;
  for (int i = 0; i < kTile; ++i) {
    const int row = r0 % kChunkRows + i;
    if (row >= slice.row_count) break;
    const float decay = shared.decay[row];
    for (int j = 0; j < kTile; ++j) {
      const int at = row * kPrefillColumns + c0 + j;
      if (is_q) {
        shared.out[at] = decay * acc[i][j];
      } else if (column + c0 + j < n) {
        const float value = v[(slice.row_begin + row) * args.scan.qkv.stride + j];
        shared.u[at] = fmaf(-decay, acc[i][j], value);
      }
    }
  }
}

inline constexpr int kSolveRows = kChunkRows / (kGdnPrefillThreads / kWarp);
static_assert(kPrefillColumns == kWarp);

/// Forward substitution: each row minus the contributions of the rows before it, times β. A warp
/// has 8 rows and a lane one column; each row adds the earlier rows in rising order.
__device__ __forceinline__ void solve(int rows, ScanShared& shared) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int c = static_cast<int>(threadIdx.x) % kWarp;
  const int first = warp * kSolveRows;
  float x[kSolveRows];
#pragma unroll
  for (int i = 0; i < kSolveRows; ++i) {
    x[i] = first + i < rows ? shared.u[(first + i) * kPrefillColumns + c] : 0;
  }
  for (int turn = 0; turn * kSolveRows < rows; ++turn) {
    if (turn == warp) {
#pragma unroll
      for (int j = 0; j < kSolveRows; ++j) {
        if (first + j < rows) {
          x[j] = shared.beta[first + j] * x[j];
          shared.u[(first + j) * kPrefillColumns + c] = x[j];
        }
#pragma unroll
        for (int i = j + 1; i < kSolveRows; ++i) {
          if (first + i < rows) {
            x[i] = fmaf(-shared.kk[(first + i) * (kChunkRows + 1) + first + j], x[j], x[i]);
          }
        }
      }
    }
    __syncthreads();
    if (turn < warp && first < rows) {
#pragma unroll
      for (int j = 0; j < kSolveRows; ++j) {
        const int from = turn * kSolveRows + j;
        const float u = shared.u[from * kPrefillColumns + c];
#pragma unroll
        for (int i = 0; i < kSolveRows; ++i) {
          const int row = min(first + i, rows - 1);
          x[i] = fmaf(-shared.kk[row * (kChunkRows + 1) + from], u, x[i]);
        }
      }
    }
  }
}

/// Continues the chain of out_ic with B_ij and u_jc.
__device__ __forceinline__ void write_outputs(const GdnPrefillArgs& args, const SliceArgs& slice,
                                              int h, int column, const ScanShared& shared) {
  const int n = args.scan.dims.head_dim;
  const int c = static_cast<int>(threadIdx.x) % kPrefillColumns;
  const int warp = static_cast<int>(threadIdx.x) / kPrefillColumns;
  constexpr int kWarps = kGdnPrefillThreads / kPrefillColumns;
  constexpr int kOwn = kChunkRows / kWarps;
  // Rows warp, warp + 8, ...: distributes the triangle's work evenly.
  float o[kOwn];
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const int row = i * kWarps + warp;
    o[i] = row < slice.row_count ? shared.out[row * kPrefillColumns + c] : 0;
  }
  for (int j = 0; j < slice.row_count; ++j) {
    const float u = shared.u[j * kPrefillColumns + c];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int row = i * kWarps + warp;
      if (row >= j && row < slice.row_count) {
        o[i] = fmaf(shared.qk[row * (kChunkRows + 1) + j], u, o[i]);
      }
    }
  }
  if (column + c >= n) return;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const int row = i * kWarps + warp;
    if (row >= slice.row_count) break;
    args.scan.out.data[(slice.row_begin + row) * args.scan.out.stride +
                       static_cast<int64_t>(h) * n + column + c] = o[i];
  }
}

/// S_dc = Γ S_dc + Σ_j γ_j k_jd u_jc.
__device__ __forceinline__ void advance_state(const GdnPrefillArgs& args, const SliceArgs& slice,
                                              int k_head, float* state, ScanShared& shared) {
  const int n = args.scan.dims.head_dim;
  const auto thread = static_cast<int>(threadIdx.x);
  constexpr int kColumnTiles = kPrefillColumns / kTile;
  const int c0 = thread % kColumnTiles * kTile;
  const float total = shared.decay[slice.row_count - 1];
  // Here slabs consist of rows: kRowSlab rows of up to kWide elements.
  constexpr int kWide = kGdnPrefillThreads / kColumnTiles * kTile;
  constexpr int kRowSlab = kSlab * kSlabStride / kWide;
  const float* keys = args.scan.qkv.data + slice.row_begin * args.scan.qkv.stride +
                      static_cast<int64_t>(args.scan.dims.n_k_heads + k_head) * n;
  for (int wide = 0; wide < n; wide += kWide) {
    const int d0 = wide + thread / kColumnTiles * kTile;
    const bool works = d0 < n;
    float acc[kTile][kTile] = {};
    if (works) {
      for (int i = 0; i < kTile; ++i) {
        for (int j = 0; j < kTile; ++j) {
          acc[i][j] = total * state[(d0 + i) * kPrefillColumns + c0 + j];
        }
      }
    }
    for (int j0 = 0; j0 < slice.row_count; j0 += kRowSlab) {
      const int count = min(kRowSlab, slice.row_count - j0);
      __syncthreads();
      for (int i = thread; i < count * kWide; i += kGdnPrefillThreads) {
        const int j = j0 + i / kWide;
        const int d = wide + i % kWide;
        shared.slab[i] = d < n ? shared.rest[j] * keys[j * args.scan.qkv.stride + d] : 0;
      }
      __syncthreads();
      for (int j = 0; j < count && works; ++j) {
        add_outer(four(shared.slab + j * kWide + d0 - wide),
                  four(shared.u + (j0 + j) * kPrefillColumns + c0), acc);
      }
    }
    if (works) {
      for (int i = 0; i < kTile; ++i) {
        for (int j = 0; j < kTile; ++j) state[(d0 + i) * kPrefillColumns + c0 + j] = acc[i][j];
      }
    }
  }
}

/// Loads columns of a state into the block's copy (and stores them back); missing columns are 0.
__device__ __forceinline__ void load_state(const float* from, int n, int column, float* state) {
  for (auto i = static_cast<int>(threadIdx.x); i < n * kPrefillColumns; i += kGdnPrefillThreads) {
    const int c = column + i % kPrefillColumns;
    state[i] = c < n ? from[static_cast<int64_t>(i / kPrefillColumns) * n + c] : 0;
  }
}

__device__ __forceinline__ void store_state(const float* state, int n, int column, float* to) {
  for (auto i = static_cast<int>(threadIdx.x); i < n * kPrefillColumns; i += kGdnPrefillThreads) {
    const int c = column + i % kPrefillColumns;
    if (c < n) to[static_cast<int64_t>(i / kPrefillColumns) * n + c] = state[i];
  }
}

}  // namespace

/// Grid: [k heads, slices]. kGdnPrefillThreads threads.
CHIMERE_KERNEL(gdn_prefill_products, kGdnPrefillThreads, GdnPrefillArgs, args) {
  __shared__ ProductsShared shared;
  wait_for_previous_kernel();
  let_next_kernel_start();
  const SliceArgs slice = args.scan.batch.slices[blockIdx.y];
  if (slice.row_class != kPrefillRows || slice.row_count == 0) return;
  const auto k_head = static_cast<int>(blockIdx.x);
  const auto thread = static_cast<int>(threadIdx.x);
  constexpr int kTiles = kChunkRows / kTile;
  const int j0 = thread % kTiles * kTile;
  const int i0 = thread / kTiles * kTile;
  float kk[kTile][kTile] = {};
  float qk[kTile][kTile] = {};
  for (int d0 = 0; d0 < args.scan.dims.head_dim; d0 += kSlab) {
    __syncthreads();
    stage_slab(args.scan, slice, k_head, d0, shared.rows);
    __syncthreads();
    if (j0 > i0) continue;
#pragma unroll 8
    for (int d = 0; d < kSlab; ++d) {
      const float* slab = shared.rows + d * kSlabStride;
      add_outer(four(slab + i0), four(slab + j0), kk);
      add_outer(four(slab + kChunkRows + i0), four(slab + j0), qk);
    }
  }
  for (int i = 0; i < kTile && i0 + i < slice.row_count; ++i) {
    float* products =
        args.products +
        ((slice.row_begin + i0 + i) * static_cast<int64_t>(args.scan.dims.n_k_heads) + k_head) *
            (2 * kChunkRows);
    for (int j = 0; j < kTile && j0 + j <= i0 + i; ++j) {
      products[j0 + j] = kk[i][j];
      products[kChunkRows + j0 + j] = qk[i][j];
    }
  }
}

/// Grid: [blocks of kPrefillColumns columns, v heads, sequences]. kGdnPrefillThreads threads.
/// Dynamic shared memory: kGdnPrefillSharedBytes, then head_dim * kPrefillColumns floats.
CHIMERE_KERNEL(gdn_prefill_scan, kGdnPrefillThreads, GdnPrefillArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, memory);
  ScanShared& shared = *reinterpret_cast<ScanShared*>(memory);
  float* state = reinterpret_cast<float*>(memory + sizeof(ScanShared));
  wait_for_previous_kernel();
  let_next_kernel_start();
  const GdnScanArgs& scan = args.scan;
  const int n = scan.dims.head_dim;
  const int column = static_cast<int>(blockIdx.x) * kPrefillColumns;
  const auto h = static_cast<int>(blockIdx.y);
  const auto sequence = static_cast<int>(blockIdx.z);
  const Run run = find_run(scan.batch, sequence, scan.run);
  if (run.slice_begin == run.slice_end || run.row_class != kPrefillRows) return;
  const int k_head = k_head_of(scan.dims, h);
  load_state(state_before(scan, sequence, h), n, column, state);
  for (int i = run.slice_begin; i < run.slice_end; ++i) {
    const SliceArgs slice = scan.batch.slices[i];
    prepare_decays(args, slice, h, k_head, shared);
    read_state(args, slice, h, k_head, column, state, shared);
    __syncthreads();
    solve(slice.row_count, shared);
    __syncthreads();
    write_outputs(args, slice, h, column, shared);
    advance_state(args, slice, k_head, state, shared);
    __syncthreads();
    float* after = state_after(scan, slice.row_begin + slice.row_count - 1, h);
    if (after != nullptr) store_state(state, n, column, after);
  }
  if (!run.last) store_state(state, n, column, state_carried(scan, sequence, h));
}

}  // namespace chimere::kernels::cuda
