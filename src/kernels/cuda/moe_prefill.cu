// Experts of prefill rows on tensor cores, with the rows of each expert together. Five launches,
// whatever the routing, which stays on the device: a map of the rows by expert, gate and up, the
// rounding of h (half_rows.cu), down, and the sums in the order of the ranks.
#include "kernels/cuda/decode_dot.h"
#include "kernels/cuda/language.h"
#include "kernels/cuda/moe_args.h"
#include "kernels/cuda/prefill_tile.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/math.h"

namespace chimere::kernels::cuda {
namespace {

__device__ __forceinline__ int ranks_of(const MoePrefillArgs& args) {
  return args.n_used + args.table.has_shared;
}

__device__ __forceinline__ int row_of_slot(const MoePrefillArgs& args, int slot) {
  const int index = slot / ranks_of(args);
  return args.row_ids == nullptr ? index : args.row_ids[index];
}

__device__ __forceinline__ int expert_of_slot(const MoePrefillArgs& args, int slot) {
  const int rank = slot % ranks_of(args);
  if (rank == args.n_used) return args.table.n_experts;
  return args.ids[static_cast<int64_t>(row_of_slot(args, slot)) * args.n_used + rank];
}

/// Prefix sums over the block: thread t passes one value and gets the sum of values 0 .. t.
__device__ __forceinline__ int running_sum(int value, int* values) {
  const int thread = static_cast<int>(threadIdx.x);
  values[thread] = value;
  __syncthreads();
  for (int distance = 1; distance < kMoeMapThreads; distance *= 2) {
    const int left = thread >= distance ? values[thread - distance] : 0;
    __syncthreads();
    values[thread] += left;
    __syncthreads();
  }
  return values[thread];
}

}  // namespace

CHIMERE_KERNEL(moe_prefill_map, kMoeMapThreads, MoePrefillArgs, args) {
  __shared__ int counts[kMoeMapThreads];
  __shared__ int sums[kMoeMapThreads];
  let_next_kernel_start();
  wait_for_previous_kernel();
  const int thread = static_cast<int>(threadIdx.x);
  const int slots = args.rows * ranks_of(args);
  counts[thread] = 0;
  __syncthreads();
  for (int slot = thread; slot < slots; slot += kMoeMapThreads) {
    atomicAdd(&counts[expert_of_slot(args, slot)], 1);
  }
  __syncthreads();
  const int count = counts[thread];
  const int begin = running_sum(count, sums) - count;
  const int tiles = (count + kTileRows - 1) / kTileRows;
  __syncthreads();
  const int tiles_end = running_sum(tiles, sums);
  for (int i = 0; i < tiles; ++i) {
    const int done = i * kTileRows;
    args.tiles[tiles_end - tiles + i] = {thread, begin + done, min(kTileRows, count - done)};
  }
  if (thread == kMoeMapThreads - 1) *args.n_tiles = tiles_end;
  counts[thread] =
      begin;  // the expert's next position; the order of its slots does not affect results
  __syncthreads();
  for (int slot = thread; slot < slots; slot += kMoeMapThreads) {
    args.slot_at[atomicAdd(&counts[expert_of_slot(args, slot)], 1)] = slot;
  }
}

CHIMERE_KERNEL_OF_BLOCKS(moe_prefill_gate_up, kTileThreads, 2, MoePrefillArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, shared);
  __shared__ int ids[kTileRows];
  TileStage* const stages = stages_in(shared);
  auto* codebooks = reinterpret_cast<uint32_t*>(shared + kTileSharedBytes);
  let_next_kernel_start();
  wait_for_previous_kernel();
  if (static_cast<int>(blockIdx.y) >= *args.n_tiles) return;
  const MoeTile tile = args.tiles[blockIdx.y];
  const bool is_shared = tile.expert == args.table.n_experts;
  const ExpertShape& shape = is_shared ? args.table.shared : args.table.routed;
  const bool gated = shape.gated != 0;
  const int first_output =
      static_cast<int>(blockIdx.x) * (gated ? kMoePrefillHidden : kTileOutputs);
  if (first_output >= shape.n_ff) return;
  const auto gate_type = static_cast<DType>(shape.gate_type);
  const auto up_type = static_cast<DType>(shape.up_type);
  uint32_t* const up_codebook =
      gate_type == up_type ? codebooks : codebooks + codebook_place(gate_type).words;
  load_codebook(gate_type, args.codebook, codebooks);
  if (up_type != gate_type) load_codebook(up_type, args.codebook, up_codebook);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < tile.count) ids[thread] = row_of_slot(args, args.slot_at[tile.begin + thread]);
  __syncthreads();

  // With a gate, 8 of 16 weight rows are gate's and 8 up's, so that a thread gets both for an
  // output. Without, all are up's.
  const int row = thread / 2;
  const bool is_up = !gated || row % 16 >= 8;
  const int o = min(first_output + (gated ? row / 16 * 8 + row % 8 : row), shape.n_ff - 1);
  const ExpertPointers expert = args.table.experts[tile.expert];
  const uint8_t* packed =
      is_up ? expert.up + o * shape.up_row_bytes : expert.gate + o * shape.gate_row_bytes;
  const TileWeights w = {
      {packed, args.n_embd / 32}, is_up ? up_type : gate_type, is_up ? up_codebook : codebooks};
  TileSums acc;
  multiply_tile(stages, w, {args.x, args.n_embd, ids, tile.count}, acc);

  // Of four sums, two are of each of two activation rows.
#pragma unroll
  for (int pair = 0; pair < 32; ++pair) {
    const int at = pair / 2 * 4 + pair % 2;
    const int x = tile_row(at);
    if (x >= tile.count) continue;
    const float unit = args.x.unit[ids[x]];
    float* h = args.h + static_cast<int64_t>(tile.begin + x) * args.h_width;
    const int own = tile_output(at);
    const int output = first_output + (gated ? own / 16 * 8 + own % 8 : own);
    const float first = acc[at] * unit;
    const float second = acc[at + 2] * unit;  // 8 outputs behind; up's
    if (output < shape.n_ff) {
      h[output] = hidden(args.activation, shape, expert, output, first, second);
    }
    if (!gated && output + 8 < shape.n_ff) {
      h[output + 8] = hidden(args.activation, shape, expert, output + 8, second, 1.0F);
    }
  }
}

CHIMERE_KERNEL_OF_BLOCKS(moe_prefill_down, kTileThreads, 2, MoePrefillArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, shared);
  __shared__ int ids[kTileRows];
  TileStage* const stages = stages_in(shared);
  auto* codebook = reinterpret_cast<uint32_t*>(shared + kTileSharedBytes);
  let_next_kernel_start();
  wait_for_previous_kernel();
  if (static_cast<int>(blockIdx.y) >= *args.n_tiles) return;
  const MoeTile tile = args.tiles[blockIdx.y];
  const bool is_shared = tile.expert == args.table.n_experts;
  const ExpertShape& shape = is_shared ? args.table.shared : args.table.routed;
  const auto type = static_cast<DType>(shape.down_type);
  load_codebook(type, args.codebook, codebook);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < tile.count) ids[thread] = tile.begin + thread;
  __syncthreads();
  const int first_output = static_cast<int>(blockIdx.x) * kTileOutputs;
  const int mine = min(first_output + thread / 2, args.n_embd - 1);
  const TileWeights w = {
      {args.table.experts[tile.expert].down + mine * shape.down_row_bytes, shape.n_ff / 32},
      type,
      codebook};
  TileSums acc;
  multiply_tile(stages, w, {args.h_halves, args.h_width, ids, tile.count}, acc);

  const float* bias = args.table.experts[tile.expert].down_bias;
  // Of four sums, two are of each of two activation rows.
#pragma unroll
  for (int pair = 0; pair < 32; ++pair) {
    const int at = pair / 2 * 4 + pair % 2;
    if (tile_row(at) >= tile.count) continue;
    const int position = tile.begin + tile_row(at);
    const float unit = args.h_halves.unit[position];
    float* out = args.out + static_cast<int64_t>(args.slot_at[position]) * args.n_embd;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int o = first_output + tile_output(at + 2 * i);
      if (o < args.n_embd) out[o] = biased(acc[at + 2 * i] * unit, bias, o);
    }
  }
}

/// Rule 7 of docs/numerics.md for a row.
CHIMERE_KERNEL(moe_prefill_combine, kMoeCombineThreads, MoePrefillArgs, args) {
  let_next_kernel_start();
  wait_for_previous_kernel();
  const int index = static_cast<int>(blockIdx.x);
  const int ranks = ranks_of(args);
  const int row = row_of_slot(args, index * ranks);
  const float* out = args.out + static_cast<int64_t>(index) * ranks * args.n_embd;
  const float* weights = args.weights + static_cast<int64_t>(row) * args.n_used;
  const bool gates_shared = args.table.has_shared != 0 && args.shared_gate != nullptr;
  const float shared_weight = gates_shared ? sigmoid(args.shared_gate[row]) : 1;
  float* y = args.y + row * args.y_stride;
  const auto thread = static_cast<int>(threadIdx.x);
  if ((args.n_embd | args.y_stride) % 4 == 0 && reinterpret_cast<uintptr_t>(args.y) % 16 == 0) {
    const auto add = [](float weight, const float4& v, float4& t) CHIMERE_INLINED {
      t = make_float4(fmaf(weight, v.x, t.x), fmaf(weight, v.y, t.y), fmaf(weight, v.z, t.z),
                      fmaf(weight, v.w, t.w));
    };
    for (int o = 4 * thread; o < args.n_embd; o += 4 * kMoeCombineThreads) {
      const auto quad = [&](int rank) CHIMERE_INLINED {
        return *reinterpret_cast<const float4*>(out + static_cast<int64_t>(rank) * args.n_embd + o);
      };
      float4 t = make_float4(0, 0, 0, 0);
#pragma unroll 4
      for (int rank = 0; rank < args.n_used; ++rank) add(weights[rank], quad(rank), t);
      if (args.table.has_shared != 0) add(shared_weight, quad(args.n_used), t);
      const float4 old = *reinterpret_cast<const float4*>(y + o);
      *reinterpret_cast<float4*>(y + o) =
          make_float4(old.x + t.x * args.scale, old.y + t.y * args.scale, old.z + t.z * args.scale,
                      old.w + t.w * args.scale);
    }
    return;
  }
  for (int o = thread; o < args.n_embd; o += kMoeCombineThreads) {
    float t = 0;
    for (int rank = 0; rank < args.n_used; ++rank) {
      t = fmaf(weights[rank], out[static_cast<int64_t>(rank) * args.n_embd + o], t);
    }
    if (args.table.has_shared != 0) {
      t = fmaf(shared_weight, out[static_cast<int64_t>(args.n_used) * args.n_embd + o], t);
    }
    y[o] = y[o] + t * args.scale;
  }
}

}  // namespace chimere::kernels::cuda
