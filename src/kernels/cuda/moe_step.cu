// Experts of step rows: two launches, whatever the number of rows and experts. Bytes: the weights
// of every slot's expert once (gate and up of two rows that share an expert once for both; what
// more rows share they find in the L2 cache), h as integers.
//
// A thread looks up a codebook eight times for 32 weights, so that its lookups, which meet in the
// banks of shared memory, would take longer than everything else: there are copies of it.
#include "kernels/cuda/any_codec.h"
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

/// The partial sums of a half warp's rows of gate and up, for one pass after the other: the loads
/// of what comes next are under way while a group is computed. done(pass, acc) takes a pass's sums.
template <DType kType, int kRows, class Rows, class Done>
__device__ __forceinline__ void stream_partials(PackedRow gate, PackedRow up, int64_t gate_step,
                                                int64_t up_step, int passes, int lane,
                                                const Rows& x, const uint32_t* codebook,
                                                const Done& done) {
  using C = Codec<kType>;
  const int groups = gate.blocks * (32 / C::kGroup);
  typename C::Raw next[2] = {};
  if (lane < groups) {
    next[0] = C::load(gate, lane);
    next[1] = C::load(up, lane);
  }
  for (int pass = 0; pass < passes; ++pass) {
    float acc[2][kRows];
#pragma unroll
    for (int i = 0; i < 2 * kRows; ++i) acc[i / kRows][i % kRows] = 0;
    for (int g = lane; g < groups; g += 16) {
      const typename C::Raw now[2] = {next[0], next[1]};
      int following = g + 16;
      if (following >= groups) {
        following = lane;
        gate.at += gate_step;
        up.at += up_step;
      }
      if (following != lane || pass + 1 < passes) {
        next[0] = C::load(gate, following);
        next[1] = C::load(up, following);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        Group<C::kGroup> group;
        expand_copies<kType>(now[i], codebook, group);
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          const RoundedRow row = x(i, r);
          acc[i][r] = add_group<C::kGroup, has_minimum(kType)>(
              group, row.q + g * C::kGroup, row.blocks[g * C::kGroup / 32], g, acc[i][r]);
        }
      }
    }
    done(pass, acc);
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

/// h of the tiles of one block, behind one barrier each.
using HiddenTiles = float[2][kMoeSharedRows][kMoeHiddenTile];

/// What a block of gate and up works on.
struct GateUpBlock {
  const ExpertShape& shape;
  SharedSlots slots;
  int rows[kMoeSharedRows];
  int first_tile;
  int passes;  ///< tiles, one behind the other
  const uint32_t* gate_codebook;
  const uint32_t* up_codebook;
};

/// Tile `pass` of h from its products: rounded where `down` wants that. All threads of the block.
template <int kRows>
__device__ __forceinline__ void put_hidden(const MoeStepArgs& args, const GateUpBlock& block,
                                           int pass, const float (&acc)[2][kRows],
                                           HiddenTiles& tiles) {
  const int thread = static_cast<int>(threadIdx.x);
  auto& h = tiles[pass % 2];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float g = tree_of_16(acc[0][r]);
    const float u = tree_of_16(acc[1][r]);
    if (thread % 16 == 0) h[r][thread / 16] = silu(g) * u;
  }
  __syncthreads();
  const int r = thread / kWarp;
  if (r >= kRows) return;
  const int in_tile = thread % kWarp;
  const int64_t slot = r == 0 ? block.slots.slot[0] : block.slots.slot[1];
  const int64_t begin = slot * args.h_width +
                        static_cast<int64_t>(block.first_tile + pass) * kMoeHiddenTile;
  if (is_float(static_cast<DType>(block.shape.down_type))) {
    args.h[begin + in_tile] = h[r][in_tile];
  } else {
    round_block(h[r][in_tile], in_tile, begin / kWarp, args.h_rounded);
  }
}

/// The products of a block's tiles with kRows rows of x; `gate` and `up` are the half warp's first
/// rows.
template <int kRows, bool kStreams>
__device__ __forceinline__ void gate_up(const MoeStepArgs& args, const GateUpBlock& block,
                                        const ExpertPointers& w, HiddenTiles& tiles) {
  const ExpertShape& shape = block.shape;
  const auto gate_type = static_cast<DType>(shape.gate_type);
  const auto up_type = static_cast<DType>(shape.up_type);
  const int lane = static_cast<int>(threadIdx.x) % 16;
  const int own = static_cast<int>(threadIdx.x) / 16;
  const int blocks = args.n_embd / 32;
  auto x = [&](int /*i*/, int r) { return rounded_row(args.x_rounded, block.rows[r], blocks); };
  // Whole tiles but for the last one of an n_ff that is no multiple of 32.
  const bool whole = shape.n_ff % kMoeHiddenTile == 0;
  if (kStreams && whole && gate_type == up_type && !is_float(gate_type)) {
    const int64_t o = static_cast<int64_t>(block.first_tile) * kMoeHiddenTile + own;
    with_integer_type(gate_type, [&]<DType kType>() CHIMERE_INLINED {
      stream_partials<kType, kRows>(
          {w.gate + o * shape.gate_row_bytes, blocks}, {w.up + o * shape.up_row_bytes, blocks},
          kMoeHiddenTile * shape.gate_row_bytes, kMoeHiddenTile * shape.up_row_bytes, block.passes,
          lane, x, block.gate_codebook, [&](int pass, const float(&acc)[2][kRows]) CHIMERE_INLINED {
            put_hidden<kRows>(args, block, pass, acc, tiles);
          });
    });
    return;
  }
  for (int pass = 0; pass < block.passes; ++pass) {
    const int o = min((block.first_tile + pass) * kMoeHiddenTile + own, shape.n_ff - 1);
    const uint8_t* gate = w.gate + o * shape.gate_row_bytes;
    const uint8_t* up = w.up + o * shape.up_row_bytes;
    float acc[2][kRows];
    if (!kStreams && gate_type == up_type && !is_float(gate_type)) {
      const PackedRow both[2] = {{gate, blocks}, {up, blocks}};
      with_integer_type(gate_type, [&]<DType kType>() CHIMERE_INLINED {
        partials<kType, 2, kRows>(both, lane, x, block.gate_codebook, acc);
      });
    } else {
      auto product = [&](DType type, const uint8_t* row, const uint32_t* codebook,
                         float(&sums)[kRows]) {
        if (is_float(type)) {
          for (int r = 0; r < kRows; ++r) {
            sums[r] =
                float_partial(type, row, args.n_embd, lane, args.x + block.rows[r] * args.x_stride);
          }
          return;
        }
        const PackedRow one[1] = {{row, blocks}};
        float some[1][kRows] = {};
        with_integer_type(type, [&]<DType kType>() CHIMERE_INLINED {
          partials<kType, 1, kRows>(one, lane, x, codebook, some);
        });
#pragma unroll
        for (int r = 0; r < kRows; ++r) sums[r] = some[0][r];
      };
#pragma unroll
      for (int r = 0; r < kRows; ++r) acc[0][r] = acc[1][r] = 0;
#pragma unroll 1
      for (int i = 0; i < 2; ++i) {
        float sums[kRows] = {};
        product(i == 0 ? gate_type : up_type, i == 0 ? gate : up,
                i == 0 ? block.gate_codebook : block.up_codebook, sums);
#pragma unroll
        for (int r = 0; r < kRows; ++r) (i == 0 ? acc[0][r] : acc[1][r]) = sums[r];
      }
    }
    put_hidden<kRows>(args, block, pass, acc, tiles);
  }
}

/// kSeveral: there is more than one row.
template <bool kSeveral>
__device__ __forceinline__ void gate_up_of_slot(const MoeStepArgs& args, uint32_t* codebooks,
                                                HiddenTiles& tiles, int (&meeting)[2]) {
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
  const int first_tile = static_cast<int>(blockIdx.x) * args.gate_passes;
  const int tiles_of_all = (shape.n_ff + kMoeHiddenTile - 1) / kMoeHiddenTile;
  if (first_tile >= tiles_of_all) return;  // the other kind is wider
  const int row = row_id(args, slot / ranks);
  const int expert =
      is_shared ? args.table.n_experts : args.ids[static_cast<int64_t>(row) * args.n_used + rank];
  SharedSlots slots = {1, {slot, slot}};
  if constexpr (kSeveral) slots = slots_of_block(args, slot, expert, meeting);
  if (slots.count == 0) return;
  const GateUpBlock block = {shape,
                             slots,
                             {row, row_id(args, slots.slot[1] / ranks)},
                             first_tile,
                             min(args.gate_passes, tiles_of_all - first_tile),
                             codebooks,
                             up_codebook};
  const ExpertPointers w = args.table.experts[expert];
  __syncthreads();  // the codebooks
  if (!kSeveral || slots.count == 1) {
    gate_up<1, kSeveral>(args, block, w, tiles);
  } else if constexpr (kSeveral) {
    gate_up<kMoeSharedRows, kSeveral>(args, block, w, tiles);
  }
}

}  // namespace

CHIMERE_KERNEL_OF_BLOCKS(moe_step_gate_up_1, kMoeGateUpThreads, 2, MoeStepArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint32_t, codebooks);
  __shared__ HiddenTiles tiles;
  __shared__ int meeting[2];
  gate_up_of_slot<false>(args, codebooks, tiles, meeting);
}

CHIMERE_KERNEL_OF_BLOCKS(moe_step_gate_up, kMoeGateUpThreads, 2, MoeStepArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint32_t, codebooks);
  __shared__ HiddenTiles tiles;
  __shared__ int meeting[2];
  gate_up_of_slot<true>(args, codebooks, tiles, meeting);
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

/// add_group() of a type that is known at run time, from +0.
__device__ __forceinline__ float add_any_group(DType type, const Group<32>& decoded,
                                               const RoundedRow& x, int g) {
  const int size = scale_group(type);
  const RoundedBlock& block = x.blocks[g * size / 32];
  const int8_t* q = x.q + g * size;
  if (size == 32) {
    return has_minimum(type) ? add_group<32, true>(decoded, q, block, g, 0)
                             : add_group<32, false>(decoded, q, block, g, 0);
  }
  Group<16> half;
#pragma unroll
  for (int j = 0; j < 4; ++j) half.q[j] = decoded.q[j];
  half.scale = decoded.scale;
  half.minimum = decoded.minimum;
  return has_minimum(type) ? add_group<16, true>(half, q, block, g, 0)
                           : add_group<16, false>(half, q, block, g, 0);
}

/// Whether a lane has at most one group of every rank, and a half warp all of its ranks at a time.
__device__ __forceinline__ bool is_narrow(const MoeStepArgs& args) {
  auto narrow = [](const ExpertShape& shape) {
    const int group = scale_group(static_cast<DType>(shape.down_type));
    return group != 0 && shape.n_ff <= 16 * group;
  };
  return args.n_used <= 2 * kMoeDownRanks && args.n_embd % kMoeDownOutputs == 0 &&
         narrow(args.table.routed) && (args.table.has_shared == 0 || narrow(args.table.shared));
}

/// The passes of a warp's outputs where is_narrow(): the loads of what comes next are under way
/// while an output is computed.
template <DType kType>
__device__ __forceinline__ void stream_down(const MoeStepArgs& args, int row_index, int row,
                                            int first_output, int passes, int step,
                                            const uint32_t* codebook,
                                            const uint32_t* shared_codebook) {
  using C = Codec<kType>;
  const ExpertShape& shape = args.table.routed;
  const ExpertShape& shared = args.table.shared;
  const auto shared_type = static_cast<DType>(shared.down_type);
  const bool has_shared = args.table.has_shared != 0;
  const int lane = static_cast<int>(threadIdx.x) % 16;
  const int half = static_cast<int>(threadIdx.x) % kWarp / 16;
  const int ranks = args.n_used + args.table.has_shared;
  const int blocks = shape.n_ff / 32;
  const int h_blocks = args.h_width / 32;
  const bool has_group = lane < blocks * (32 / C::kGroup);
  PackedRow w[kMoeDownRanks];
  RoundedRow h[kMoeDownRanks];
#pragma unroll
  for (int i = 0; i < kMoeDownRanks; ++i) {
    const int rank = min(half * kMoeDownRanks + i, args.n_used - 1);
    const int expert = args.ids[static_cast<int64_t>(row) * args.n_used + rank];
    w[i] = {args.table.experts[expert].down + first_output * shape.down_row_bytes, blocks};
    h[i] = rounded_row(args.h_rounded, static_cast<int64_t>(row_index) * ranks + rank, h_blocks);
  }
  PackedRow shared_w = {nullptr, shared.n_ff / 32};
  const int shared_groups = has_shared ? shared.n_ff / scale_group(shared_type) : 0;
  if (has_shared) {
    shared_w.at = args.table.experts[args.table.n_experts].down +
                  (first_output + half) * shared.down_row_bytes;
  }
  const RoundedRow shared_h =
      rounded_row(args.h_rounded, static_cast<int64_t>(row_index) * ranks + args.n_used, h_blocks);

  auto load = [&](typename C::Raw(&raw)[kMoeDownRanks], int64_t bytes) CHIMERE_INLINED {
    if (!has_group) return;
#pragma unroll
    for (int i = 0; i < kMoeDownRanks; ++i)
      raw[i] = C::load(PackedRow{w[i].at + bytes, blocks}, lane);
  };
  auto dots_of = [&](const typename C::Raw(&raw)[kMoeDownRanks],
                     float(&dots)[kMoeDownRanks]) CHIMERE_INLINED {
#pragma unroll
    for (int i = 0; i < kMoeDownRanks; ++i) {
      dots[i] = 0;
      if (!has_group) continue;
      Group<C::kGroup> group;
      expand_copies<kType>(raw[i], codebook, group);
      dots[i] = add_group<C::kGroup, has_minimum(kType)>(
          group, h[i].q + lane * C::kGroup, h[i].blocks[lane * C::kGroup / 32], lane, 0);
    }
#pragma unroll
    for (int i = 0; i < kMoeDownRanks; ++i) dots[i] = tree_of_16(dots[i]);
  };
  typename C::Raw raw[2][kMoeDownRanks] = {};
  AnyRaw shared_raw = {};
  load(raw[0], 0);
  load(raw[1], shape.down_row_bytes);
  if (lane < shared_groups) shared_raw = load_any(shared_type, shared_w, lane);
  wait_for_previous_kernel();

  float weights[2 * kMoeDownRanks];
#pragma unroll
  for (int i = 0; i < 2 * kMoeDownRanks; ++i) {
    weights[i] = i < args.n_used ? args.weights[static_cast<int64_t>(row) * args.n_used + i] : 0;
  }
  const float shared_weight = has_shared ? sigmoid(args.shared_gate[row]) : 0;
  float* y = args.y + row * args.y_stride + first_output + half;
  for (int pass = 0; pass < passes; ++pass) {
    const bool more = pass + 1 < passes;
    const float before = lane == 0 ? *y : 0;
    float own = 0;
#pragma unroll
    for (int output = 0; output < kMoeDownOutputs; ++output) {
      float dots[kMoeDownRanks];
      dots_of(raw[output], dots);
      if (more) load(raw[output], (step + output) * shape.down_row_bytes);
      float t = 0;
#pragma unroll
      for (int i = 0; i < 2 * kMoeDownRanks; ++i) {
        const float dot = __shfl_sync(kFullWarp, dots[i % kMoeDownRanks], i / kMoeDownRanks * 16);
        if (i < args.n_used) t = fmaf(weights[i], dot, t);
      }
      if (output == half) own = t;
    }
    if (has_shared) {
      float acc = 0;
      if (lane < shared_groups) {
        Group<32> decoded;
        expand_any(shared_type, shared_raw, shared_codebook, decoded);
        if (more) {
          shared_raw = load_any(
              shared_type, {shared_w.at + step * shared.down_row_bytes, shared_w.blocks}, lane);
        }
        acc = add_any_group(shared_type, decoded, shared_h, lane);
      }
      own = fmaf(shared_weight, tree_of_16(acc), own);
    }
    if (lane == 0) *y = before + own;
    y += step;
    shared_w.at += step * shared.down_row_bytes;
#pragma unroll
    for (int i = 0; i < kMoeDownRanks; ++i) w[i].at += step * shape.down_row_bytes;
  }
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
  constexpr int kStep = kWarps * kMoeDownOutputs;
  const int first_output =
      static_cast<int>(blockIdx.x) * args.passes * kStep + warp * kMoeDownOutputs;
  if (is_narrow(args)) {
    const int rest = (args.n_embd - first_output + kStep - 1) / kStep;
    if (first_output < args.n_embd) {
      with_integer_type(routed_type, [&]<DType kType>() CHIMERE_INLINED {
        stream_down<kType>(args, row_index, row, first_output, min(args.passes, rest), kStep,
                           codebooks, shared_codebook);
      });
    }
    wait_for_previous_kernel();
    return;
  }
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
