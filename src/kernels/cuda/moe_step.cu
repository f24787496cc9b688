// Experts of step rows: two launches, whatever the number of rows and experts. Bytes: the weights
// of every slot's expert once (gate and up of two rows that share an expert once for both; what
// more rows share they find in the L2 cache), h as integers.
//
// A thread looks up a codebook eight times for 32 weights, so that its lookups, which meet in the
// banks of shared memory, would take longer than everything else: there are copies of it.
#include "kernels/cuda/language.h"
#include "kernels/cuda/moe_args.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/cuda/rounding.h"
#include "kernels/cuda/step_dot.h"
#include "kernels/math.h"

namespace chimere::kernels::cuda {
namespace {

__device__ __forceinline__ int row_id(const MoeStepArgs& args, int index) {
  return args.row_ids == nullptr ? index : args.row_ids[index];
}

__device__ __forceinline__ float float_partial(DType type, const uint8_t* w, int n, int lane,
                                               const float* row) {
  const float* const x[1] = {row};
  float acc[1] = {0};
  with_float_type(
      type, [&]<DType kType>() CHIMERE_INLINED { float_partials<kType, 1>(w, n, lane, x, acc); });
  return acc[0];
}

/// The partial sums of kWeights packed rows, all as long, with kRows rounded ones each:
/// x(i, r) is the row that w[i] meets.
template <DType kType, int kWeights, int kRows, class Rows>
__device__ __forceinline__ void partials(const PackedRow (&w)[kWeights], int lane, const Rows& x,
                                         const uint32_t* codebook, float (&acc)[kWeights][kRows]) {
  using C = Codec<kType>;
  // Groups whose loads are under way together: what the registers hold.
  constexpr int kFit = kRows > 1 ? 1 : sizeof(typename C::Raw) <= 24 ? 4 : 2;
  constexpr int kAtOnce = kWeights >= kFit ? 1 : kFit / kWeights;
  const int groups = w[0].blocks * (32 / C::kGroup);
#pragma unroll
  for (int i = 0; i < kWeights * kRows; ++i) acc[i / kRows][i % kRows] = 0;
  for (int first = lane; first < groups; first += 16 * kAtOnce) {
    typename C::Raw raw[kAtOnce][kWeights];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
#pragma unroll
      for (int i = 0; i < kWeights; ++i) {
        if (first + 16 * u < groups) raw[u][i] = C::load(w[i], first + 16 * u);
      }
    }
    if (first == lane) wait_for_previous_kernel();
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      const int g = first + 16 * u;
      if (g >= groups) break;
#pragma unroll
      for (int i = 0; i < kWeights; ++i) {
        Group<C::kGroup> group;
        expand_copies<kType>(raw[u][i], codebook, group);
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          const RoundedRow row = x(i, r);
          acc[i][r] = add_group<C::kGroup, has_minimum(kType)>(
              group, row.q + g * C::kGroup, row.blocks[g * C::kGroup / 32], g, acc[i][r]);
        }
      }
    }
  }
}

/// Slots that a block of gate and up computes: those of one expert in so many rows.
struct SharedSlots {
  int count;
  int slot[kMoeSharedRows];
};

/// What the block of `slot` computes: nothing, if the block of an earlier row has this one too.
/// `meeting` is shared memory.
__device__ __forceinline__ SharedSlots slots_of_block(const MoeStepArgs& args, int slot, int expert,
                                                      int (&meeting)[2]) {
  const int ranks = args.n_used + args.table.has_shared;
  const int own = slot / ranks;
  int earlier = own;                                   // rows that have the expert
  int next = own + 1 < args.rows ? slot + ranks : -1;  // slot of the first later one
  if (expert != args.table.n_experts) {
    if (threadIdx.x < 2) meeting[threadIdx.x] = 0;
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < args.rows * args.n_used;
         i += kMoeGateUpThreads) {
      const int index = i / args.n_used;
      const int rank = i % args.n_used;
      if (index == own ||
          args.ids[static_cast<int64_t>(row_id(args, index)) * args.n_used + rank] != expert) {
        continue;
      }
      if (index < own) {
        atomicAdd(&meeting[0], 1);
      } else {
        atomicMax(&meeting[1], (args.rows - index) * ranks - rank);
      }
    }
    __syncthreads();
    earlier = meeting[0];
    next = meeting[1] == 0 ? -1 : args.rows * ranks - meeting[1];
  }
  if (earlier % kMoeSharedRows != 0) return {0, {slot, slot}};
  return {next < 0 ? 1 : 2, {slot, next < 0 ? slot : next}};
}

/// The products of a half warp's rows of gate and up with kRows rows of x.
template <int kRows>
__device__ __forceinline__ void gate_up(const MoeStepArgs& args, const ExpertShape& shape,
                                        const uint8_t* gate, const uint8_t* up,
                                        const int (&rows)[kMoeSharedRows], int lane,
                                        const uint32_t* gate_codebook, const uint32_t* up_codebook,
                                        float (&h)[kMoeSharedRows][kMoeHiddenTile], int o) {
  const auto gate_type = static_cast<DType>(shape.gate_type);
  const auto up_type = static_cast<DType>(shape.up_type);
  const int blocks = args.n_embd / 32;
  auto x = [&](int /*i*/, int r) { return rounded_row(args.x_rounded, rows[r], blocks); };
  float acc[2][kRows];
  if (gate_type == up_type && !is_float(gate_type)) {
    const PackedRow both[2] = {{gate, blocks}, {up, blocks}};
    with_integer_type(gate_type, [&]<DType kType>() CHIMERE_INLINED {
      partials<kType, 2, kRows>(both, lane, x, gate_codebook, acc);
    });
  } else {
    auto product = [&](DType type, const uint8_t* w, const uint32_t* codebook,
                       float(&sums)[kRows]) {
      if (is_float(type)) {
        for (int r = 0; r < kRows; ++r) {
          sums[r] = float_partial(type, w, args.n_embd, lane, args.x + rows[r] * args.x_stride);
        }
        return;
      }
      const PackedRow one[1] = {{w, blocks}};
      float some[1][kRows];
      with_integer_type(type, [&]<DType kType>() CHIMERE_INLINED {
        partials<kType, 1, kRows>(one, lane, x, codebook, some);
      });
#pragma unroll
      for (int r = 0; r < kRows; ++r) sums[r] = some[0][r];
    };
    product(gate_type, gate, gate_codebook, acc[0]);
    product(up_type, up, up_codebook, acc[1]);
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float g = tree_of_16(acc[0][r]);
    const float u = tree_of_16(acc[1][r]);
    if (lane == 0) h[r][o] = silu(g) * u;
  }
}

/// kSeveral: there is more than one row.
template <bool kSeveral>
__device__ __forceinline__ void gate_up_of_slot(const MoeStepArgs& args, uint32_t* codebooks,
                                                float (&h)[kMoeSharedRows][kMoeHiddenTile],
                                                int (&meeting)[2]) {
  const int ranks = args.n_used + args.table.has_shared;
  const int slot = static_cast<int>(blockIdx.y);
  const int rank = slot % ranks;
  const bool is_shared = rank == args.n_used;
  const ExpertShape& shape = is_shared ? args.table.shared : args.table.routed;
  const auto gate_type = static_cast<DType>(shape.gate_type);
  const auto up_type = static_cast<DType>(shape.up_type);
  uint32_t* const up_codebook =
      gate_type == up_type ? codebooks : codebooks + codebook_copies_bytes(gate_type) / 4;
  load_codebook_copies(gate_type, args.codebook, codebooks);
  if (up_type != gate_type) load_codebook_copies(up_type, args.codebook, up_codebook);
  // Waits before it lets the next kernel start, so that the ids are there when that one begins.
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int tile = static_cast<int>(blockIdx.x) * kMoeHiddenTile;
  if (tile >= shape.n_ff) return;  // the other kind is wider
  const int row = row_id(args, slot / ranks);
  const int expert =
      is_shared ? args.table.n_experts : args.ids[static_cast<int64_t>(row) * args.n_used + rank];
  const ExpertPointers& w = args.table.experts[expert];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 16;
  const int o = min(tile + thread / 16, shape.n_ff - 1);
  const uint8_t* gate = w.gate + o * shape.gate_row_bytes;
  const uint8_t* up = w.up + o * shape.up_row_bytes;
  SharedSlots slots = {1, {slot, slot}};
  if constexpr (kSeveral) slots = slots_of_block(args, slot, expert, meeting);
  if (slots.count == 0) return;
  const int rows[kMoeSharedRows] = {row, row_id(args, slots.slot[1] / ranks)};
  __syncthreads();  // the codebooks
  if (!kSeveral || slots.count == 1) {
    gate_up<1>(args, shape, gate, up, rows, lane, codebooks, up_codebook, h, thread / 16);
  } else if constexpr (kSeveral) {
    gate_up<kMoeSharedRows>(args, shape, gate, up, rows, lane, codebooks, up_codebook, h,
                            thread / 16);
  }
  __syncthreads();
  const int r = thread / kWarp;
  if (r >= slots.count) return;
  const int in_tile = thread % kWarp;
  const int64_t begin = static_cast<int64_t>(slots.slot[r]) * args.h_width + tile;
  if (is_float(static_cast<DType>(shape.down_type))) {
    args.h[begin + in_tile] = h[r][in_tile];
  } else {
    round_block(h[r][in_tile], in_tile, begin / kWarp, args.h_rounded);
  }
}

}  // namespace

CHIMERE_KERNEL_OF_BLOCKS(moe_step_gate_up_1, kMoeGateUpThreads, 2, MoeStepArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint32_t, codebooks);
  __shared__ float h[kMoeSharedRows][kMoeHiddenTile];
  __shared__ int meeting[2];
  gate_up_of_slot<false>(args, codebooks, h, meeting);
}

CHIMERE_KERNEL_OF_BLOCKS(moe_step_gate_up, kMoeGateUpThreads, 2, MoeStepArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint32_t, codebooks);
  __shared__ float h[kMoeSharedRows][kMoeHiddenTile];
  __shared__ int meeting[2];
  gate_up_of_slot<true>(args, codebooks, h, meeting);
}

namespace {

/// The dot products of outputs o and o + 1 of `down` with h of ranks first_rank ..; beyond `last`
/// the last one again. Half warps may have different ranks.
__device__ __forceinline__ void down_dots(const MoeStepArgs& args, const ExpertShape& shape,
                                          int row_index, int row, int first_rank, int last, int o,
                                          int lane, const uint32_t* codebook,
                                          float (&dots)[kMoeDownOutputs][kMoeDownRanks]) {
  const auto type = static_cast<DType>(shape.down_type);
  const int ranks = args.n_used + args.table.has_shared;
  const int64_t stride = o + 1 < args.n_embd ? shape.down_row_bytes : 0;
  const uint8_t* w[kMoeDownRanks];
  int64_t slot[kMoeDownRanks];
#pragma unroll
  for (int i = 0; i < kMoeDownRanks; ++i) {
    const int rank = min(first_rank + i, last);
    const int expert = rank == args.n_used
                           ? args.table.n_experts
                           : args.ids[static_cast<int64_t>(row) * args.n_used + rank];
    w[i] = args.table.experts[expert].down + o * shape.down_row_bytes;
    slot[i] = static_cast<int64_t>(row_index) * ranks + rank;
  }
  if (is_float(type)) {
#pragma unroll
    for (int i = 0; i < kMoeDownRanks; ++i) {
      const float* h = args.h + slot[i] * args.h_width;
      dots[0][i] = float_partial(type, w[i], shape.n_ff, lane, h);
      dots[1][i] = float_partial(type, w[i] + stride, shape.n_ff, lane, h);
    }
  } else {
    const int blocks = shape.n_ff / 32;
    const int h_blocks = args.h_width / 32;
    with_integer_type(type, [&]<DType kType>() CHIMERE_INLINED {
      // As many weight rows at a time as the registers hold.
      if constexpr (sizeof(typename Codec<kType>::Raw) <= 24) {
        PackedRow rows[2 * kMoeDownRanks];
        float acc[2 * kMoeDownRanks][1];
#pragma unroll
        for (int i = 0; i < 2 * kMoeDownRanks; ++i) {
          rows[i] = {w[i / 2] + i % 2 * stride, blocks};
        }
        partials<kType, 2 * kMoeDownRanks, 1>(
            rows, lane,
            [&](int i, int /*r*/) { return rounded_row(args.h_rounded, slot[i / 2], h_blocks); },
            codebook, acc);
#pragma unroll
        for (int i = 0; i < 2 * kMoeDownRanks; ++i) dots[i % 2][i / 2] = acc[i][0];
      } else {
#pragma unroll 1
        for (int output = 0; output < 2; ++output) {
          PackedRow rows[kMoeDownRanks];
          float acc[kMoeDownRanks][1];
#pragma unroll
          for (int i = 0; i < kMoeDownRanks; ++i) rows[i] = {w[i] + output * stride, blocks};
          partials<kType, kMoeDownRanks, 1>(
              rows, lane,
              [&](int i, int /*r*/) { return rounded_row(args.h_rounded, slot[i], h_blocks); },
              codebook, acc);
#pragma unroll
          for (int i = 0; i < kMoeDownRanks; ++i) {
            if (output == 0) dots[0][i] = acc[i][0];
            if (output == 1) dots[1][i] = acc[i][0];
          }
        }
      }
    });
  }
#pragma unroll
  for (int i = 0; i < kMoeDownRanks; ++i) {
    dots[0][i] = tree_of_16(dots[0][i]);
    dots[1][i] = tree_of_16(dots[1][i]);
  }
}

/// Of the shared expert: half warp `half` computes output o + half.
__device__ __forceinline__ float shared_dot(const MoeStepArgs& args, int row_index, int o, int half,
                                            int lane, const uint32_t* codebook) {
  const ExpertShape& shape = args.table.shared;
  const auto type = static_cast<DType>(shape.down_type);
  const int own = min(o + half, args.n_embd - 1);
  const uint8_t* w = args.table.experts[args.table.n_experts].down + own * shape.down_row_bytes;
  const int64_t slot = static_cast<int64_t>(row_index) * (args.n_used + 1) + args.n_used;
  if (is_float(type)) {
    return tree_of_16(float_partial(type, w, shape.n_ff, lane, args.h + slot * args.h_width));
  }
  const PackedRow rows[1] = {{w, shape.n_ff / 32}};
  float acc[1][1];
  with_integer_type(type, [&]<DType kType>() CHIMERE_INLINED {
    partials<kType, 1, 1>(
        rows, lane,
        [&](int /*i*/, int /*r*/) { return rounded_row(args.h_rounded, slot, args.h_width / 32); },
        codebook, acc);
  });
  return tree_of_16(acc[0][0]);
}

}  // namespace

/// A warp computes two neighbouring elements of y at a time, its half warps four ranks each.
CHIMERE_KERNEL_OF_BLOCKS(moe_step_down, kMoeDownThreads, 2, MoeStepArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint32_t, codebooks);
  let_next_kernel_start();
  const auto routed_type = static_cast<DType>(args.table.routed.down_type);
  const auto shared_type = static_cast<DType>(args.table.shared.down_type);
  uint32_t* const shared_codebook = codebooks + codebook_copies_bytes(routed_type) / 4;
  load_codebook_copies(routed_type, args.codebook, codebooks);
  if (args.table.has_shared != 0) {
    load_codebook_copies(shared_type, args.codebook, shared_codebook);
  }
  __syncthreads();
  constexpr int kWarps = kMoeDownThreads / kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % 16;
  const int half = static_cast<int>(threadIdx.x) % kWarp / 16;
  const int row_index = static_cast<int>(blockIdx.y);
  const int row = row_id(args, row_index);
  const float* weights = args.weights + static_cast<int64_t>(row) * args.n_used;
  for (int pass = 0; pass < args.passes; ++pass) {
    const int o =
        ((static_cast<int>(blockIdx.x) * args.passes + pass) * kWarps + warp) * kMoeDownOutputs;
    if (o >= args.n_embd) break;
    float t[kMoeDownOutputs] = {0, 0};
    for (int first = 0; first < args.n_used; first += 2 * kMoeDownRanks) {
      float dots[kMoeDownOutputs][kMoeDownRanks];
      down_dots(args, args.table.routed, row_index, row, first + half * kMoeDownRanks,
                args.n_used - 1, o, lane, codebooks, dots);
#pragma unroll
      for (int i = 0; i < 2 * kMoeDownRanks; ++i) {
        const float a = __shfl_sync(kFullWarp, dots[0][i % kMoeDownRanks], i / kMoeDownRanks * 16);
        const float b = __shfl_sync(kFullWarp, dots[1][i % kMoeDownRanks], i / kMoeDownRanks * 16);
        if (first + i >= args.n_used) continue;
        const float weight = weights[first + i];
        t[0] = fmaf(weight, a, t[0]);
        t[1] = fmaf(weight, b, t[1]);
      }
    }
    float own = half == 0 ? t[0] : t[1];
    if (args.table.has_shared != 0) {
      const float dot = shared_dot(args, row_index, o, half, lane, shared_codebook);
      own = fmaf(sigmoid(args.shared_gate[row]), dot, own);
    }
    if (lane == 0 && o + half < args.n_embd) {
      float* y = args.y + row * args.y_stride + o + half;
      *y = *y + own;
    }
  }
  wait_for_previous_kernel();  // also lanes without a group, and warps without an output
}

}  // namespace chimere::kernels::cuda
