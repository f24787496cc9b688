// Experts of several decode rows that share few experts: one launch, whatever the number of rows
// and experts. Bytes: the weights of each slot's expert once (rows that share an expert and run at
// the same time find them in L2).
//
// moe_decode.cu has a block for every tile: all its warps wait for the weights, then all multiply,
// and nothing is copied for them in the meantime. Here a block stays on its multiprocessor for the
// whole launch. Every warp has a ring of stages: while it multiplies the rows of one, the copy
// engine brings those of the next, also across tiles, experts, rows, and from gate and up to down.
// So the weights of down, which depend on the routing only, arrive while other blocks still compute
// h.
//
// Blocks claim items, tiles of h, through a counter, as soon as the copies of the next one can
// start. When no item is left, a block waits for h of the rows of its part of y. Items never wait,
// and whoever claimed one is running: whatever the order of blocks, and however few are resident,
// the launch ends.
//
// y is divided evenly. A warp computes a few elements of a row with all of its experts and adds
// these in their order without help from other warps.
//
// The products take as long as the bytes only if few instructions surround them: a block handles
// the experts of one kind, routed or shared, together, so that it chooses its code by type once,
// and that code is short enough for the instruction cache. By count, a half warp's product of 32
// weights takes 30 instructions, and a unit (8,192 weights) some 100 more.
//
// Blocks warm the instruction cache before the previous kernel has ended: they multiply arbitrary
// contents of shared memory once. Meanwhile the shared expert's weights move to L2.
#include "kernels/cuda/moe_rows_device.h"
#include "kernels/cuda/ptx/bulk_copy.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/cuda/ptx/global_counter.h"
#include "kernels/cuda/rounding.h"
#include "kernels/math.h"

namespace chimere::kernels::cuda {
namespace {

static_assert(kMoeRowsHidden == 2, "an element of h for each half warp");
static_assert(kMoeRowsOutputs == 4, "two elements of y for each half warp");
/// Experts that a half warp multiplies side by side, each with its rows of down.
inline constexpr int kRanksTogether = 2;
inline constexpr int kRowsOfHalf = kMoeRowsOutputs / 2;

/// An item: a tile of a slot's h.
struct Item {
  const uint8_t* gate;  ///< of the tile
  const uint8_t* up;
  int expert;  ///< in the table; negative: no item is left
  int slot;
  int row_index;  ///< in the row set
  int row;
  int tile;
};

/// Items whose copies have started, the one that is multiplied and the one that is rounded.
inline constexpr int kItems = 4;

struct Shared {
  uint64_t arrived[kMoeRowsMostWarps * kMoeRowsMostStages];
  /// Of an item with gate (without a gate, with up) and with up, while the one before is rounded.
  float products[2][2][kMoeHiddenTile];
  Item items[kItems];
  int used[kMoeRowsMostWarps];  ///< slots in use that each warp has found
  int slots_used;
  // The block's elements of y, kMoeRowsOutputs together.
  int groups;
  int first_row;    ///< in the row set
  int first_group;  ///< in that row
  int rows;
};
static_assert(sizeof(Shared) <= kMoeRowsDeclaredBytes);

/// A block of the launch.
class Block {
 public:
  __device__ __forceinline__ Block(const MoeRowsArgs& args, uint8_t* memory, Shared& shared)
      : args_(args),
        layout_(args.layout),
        memory_(memory),
        shared_(shared),
        thread_(static_cast<int>(threadIdx.x)),
        warp_(thread_ / kWarp),
        warps_(static_cast<int>(blockDim.x) / kWarp),
        half_(thread_ / 16 % 2),
        lane_(thread_ % 16),
        units_(kMoeHiddenTile / kMoeRowsHidden / warps_),
        ring_(shared.arrived + warp_ * kMoeRowsMostStages, args.layout.stages,
              args.layout.bulk != 0),
        stages_(memory + args.layout.stages_at +
                warp_ * args.layout.stages * args.layout.stage_bytes),
        ahead_group_(warp_) {
    if (thread_ == 0) share_groups();
  }

  __device__ __forceinline__ void run() {
    prefetch_shared_expert();
    for (const MoeRowsKind* kind : {&layout_.routed, &layout_.shared}) {
      for (const MoeRowsCodebook* c : {&kind->gate_codebook, &kind->down_codebook}) {
        copy_codebook(c->place, args_.codebook, reinterpret_cast<uint32_t*>(memory_ + c->at));
      }
    }
    const int kinds = 1 + args_.table.has_shared;
    uint32_t done = 0;
#pragma unroll 1
    for (int pass = 0; pass < 2; ++pass) {
      const bool warm_icache = pass == 0;
      if (!warm_icache) begin();
#pragma unroll 1
      for (int k = 0; k < kinds; ++k) {
        const bool is_shared = k + 1 < kinds;
        with_integer_type(static_cast<DType>(shape_of(is_shared).gate_type),
                          [&]<DType kType>()
                              CHIMERE_INLINED { gate_up<kType>(is_shared, warm_icache); });
      }
      if (!warm_icache) {
        take_h();
        // No thread of this block reads a counter from here on.
        if (thread_ == 0) done = atomicAdd(args_.counters + kMoeRowsBlocksDone, 1U) + 1;
      }
      const int end = warm_icache ? 1 : shared_.groups;
#pragma unroll 1
      for (int first = 0; first < end; first += kMoeRowsGroups * warps_) {
#pragma unroll 1
        for (int k = 0; k < kinds; ++k) {
          const bool is_shared = k == 1;
          with_integer_type(static_cast<DType>(shape_of(is_shared).down_type),
                            [&]<DType kType>()
                                CHIMERE_INLINED { down<kType>(is_shared, first, warm_icache); });
        }
      }
    }
    if (warp_ == 0 && __shfl_sync(kFullWarp, done, 0) == gridDim.x) {
#pragma unroll 1
      for (int i = thread_; i < kMoeRowsFinished + args_.rows; i += kWarp) args_.counters[i] = 0;
    }
  }

 private:
  __device__ __forceinline__ const ExpertShape& shape_of(bool is_shared) const {
    return is_shared ? args_.table.shared : args_.table.routed;
  }
  __device__ __forceinline__ const MoeRowsKind& kind_of(bool is_shared) const {
    return is_shared ? layout_.shared : layout_.routed;
  }
  __device__ __forceinline__ bool is_shared(int expert) const {
    return expert == args_.table.n_experts;
  }
  /// Slots of a row.
  __device__ __forceinline__ int ranks() const { return args_.n_used + args_.table.has_shared; }
  __device__ __forceinline__ int groups_of_row() const { return args_.n_embd / kMoeRowsOutputs; }
  __device__ __forceinline__ int row_at(int index) const {
    return args_.row_ids == nullptr ? index : args_.row_ids[index];
  }
  __device__ __forceinline__ MoeRowsSlot* slots() const {
    return reinterpret_cast<MoeRowsSlot*>(memory_ + layout_.slots_at);
  }
  /// The experts of a row of the block's y.
  __device__ __forceinline__ MoeRowsRank* ranks_of(int row) const {
    return reinterpret_cast<MoeRowsRank*>(memory_ + layout_.ranks_at) + row * (args_.n_used + 1);
  }
  __device__ __forceinline__ int* used() const {
    return reinterpret_cast<int*>(memory_ + layout_.used_at);
  }
  __device__ __forceinline__ const uint8_t* stage() const {
    return stages_ + stage_ * layout_.stage_bytes;
  }

  /// Finds the block's part of y.
  __device__ __forceinline__ void share_groups() {
    const int of_row = groups_of_row();
    const int per_row = layout_.blocks_per_row;
    const auto block = static_cast<int>(blockIdx.x);
    const int row = per_row > 0 ? block / per_row : 0;
    const int rows = per_row > 0 ? (row < args_.rows ? 1 : 0) : args_.rows;
    const int parts = per_row > 0 ? per_row : static_cast<int>(gridDim.x);
    const auto begin_of = [&](int part) CHIMERE_INLINED {
      const uint64_t all = static_cast<uint64_t>(rows) * static_cast<uint32_t>(of_row);
      return static_cast<int>(all * static_cast<uint32_t>(part) / static_cast<uint32_t>(parts));
    };
    const int part = block - row * per_row;
    const int begin = begin_of(part);
    const int groups = begin_of(part + 1) - begin;
    const int first_row = begin / of_row;
    shared_.groups = groups;
    shared_.first_row = row + first_row;
    shared_.first_group = begin - first_row * of_row;
    shared_.rows = groups > 0 ? (shared_.first_group + groups - 1) / of_row + 1 : 0;
  }

  /// Every row reads the shared expert, and its weights do not depend on the previous kernel.
  __device__ __forceinline__ void prefetch_shared_expert() const {
    if (args_.table.has_shared == 0 || args_.table.regular == 0) return;
    constexpr int64_t kLine = 128;
    const int64_t threads = int64_t{gridDim.x} * blockDim.x;
    const ExpertShape& shape = args_.table.shared;
    const auto fetch = [&](const uint8_t* matrix, int64_t bytes) CHIMERE_INLINED {
#pragma unroll 1
      for (int64_t line = int64_t{blockIdx.x} * blockDim.x + thread_; line * kLine < bytes;
           line += threads) {
        prefetch(matrix + line * kLine);
      }
    };
    fetch(args_.table.last.gate, shape.n_ff * shape.gate_row_bytes);
    if (shape.gated != 0) fetch(args_.table.last.up, shape.n_ff * shape.up_row_bytes);
    fetch(args_.table.last.down, args_.n_embd * shape.down_row_bytes);
  }

  /// Lists the slots in use in order. All threads of the block.
  __device__ __forceinline__ void list_slots() {
    const int all = args_.rows * args_.n_used;
    int listed = 0;
#pragma unroll 1
    for (int base = 0; base < all; base += warps_ * kWarp) {
      const int i = base + thread_;
      const int row_index = i / args_.n_used;
      const int rank = i - row_index * args_.n_used;
      int expert = -1;
      if (i < all) {
        expert = args_.ids[static_cast<int64_t>(row_at(row_index)) * args_.n_used + rank];
      }
      const uint32_t votes = __ballot_sync(kFullWarp, expert >= 0);
      if (thread_ % kWarp == 0) shared_.used[warp_] = __popc(votes);
      __syncthreads();
      const int of_warp = thread_ % kWarp < warps_ ? shared_.used[thread_ % kWarp] : 0;
      const int before = __reduce_add_sync(kFullWarp, thread_ % kWarp < warp_ ? of_warp : 0);
      if (expert >= 0) {
        const uint32_t lower = (1U << (thread_ % kWarp)) - 1;
        slots()[listed + before + __popc(votes & lower)] = {
            static_cast<uint16_t>(row_index * ranks() + rank), static_cast<uint16_t>(expert)};
      }
      listed += __reduce_add_sync(kFullWarp, of_warp);
      if (thread_ == 0) shared_.slots_used = listed;
      __syncthreads();
    }
  }

  /// Lists the experts of the rows of the block's y. All threads of the block.
  __device__ __forceinline__ void list_ranks() {
    const int of_row = args_.n_used + 1;
#pragma unroll 1
    for (int i = thread_; i < shared_.rows * of_row; i += warps_ * kWarp) {
      const int r = i / of_row;
      const int rank = i - r * of_row;
      const int row = row_at(shared_.first_row + r);
      MoeRowsRank listed = {nullptr, 0, -1};
      if (rank < args_.n_used) {
        const int64_t at = static_cast<int64_t>(row) * args_.n_used;
        listed.expert = args_.ids[at + rank];
        listed.weight = args_.weights[at + rank];
        if (listed.expert < 0 && (rank == 0 || args_.ids[at + rank - 1] >= 0)) used()[r] = rank;
        if (listed.expert >= 0 && rank + 1 == args_.n_used) used()[r] = args_.n_used;
      } else if (args_.table.has_shared != 0) {
        listed.expert = args_.table.n_experts;
        listed.weight = args_.shared_gate != nullptr ? sigmoid(args_.shared_gate[row]) : 1.0F;
      }
      if (listed.expert >= 0) {
        listed.down =
            matrix_of<&ExpertPointers::down>(args_.table, listed.expert, args_.table.down_step);
      }
      ranks_of(r)[rank] = listed;
    }
  }

  /// The item that has been claimed as number `claimed`.
  __device__ __forceinline__ Item item_of(uint32_t claimed) const {
    Item item = {};
    item.expert = -1;
    auto index = static_cast<int>(claimed);
    const int of_shared = args_.rows * layout_.shared.tiles;
    const bool of_shared_expert = index < of_shared;
    if (!of_shared_expert) index -= of_shared;
    const int tiles = kind_of(of_shared_expert).tiles;
    const int i = index / tiles;
    if (!of_shared_expert && i >= shared_.slots_used) return item;
    if (of_shared_expert) {
      item.expert = args_.table.n_experts;
      item.slot = i * ranks() + args_.n_used;
    } else {
      item.expert = slots()[i].expert;
      item.slot = slots()[i].slot;
    }
    item.row_index = item.slot / ranks();
    item.row = row_at(item.row_index);
    item.tile = index - i * tiles;
    const int64_t at = item.tile * kMoeHiddenTile * shape_of(of_shared_expert).gate_row_bytes;
    item.gate =
        matrix_of<&ExpertPointers::gate>(args_.table, item.expert, args_.table.gate_step) + at;
    item.up = matrix_of<&ExpertPointers::up>(args_.table, item.expert, args_.table.up_step) + at;
    return item;
  }

  /// Starts copying the row of x of item number `n` of the block, if there is one.
  __device__ __forceinline__ void copy_x(int n) const {
    const Item& item = shared_.items[n % kItems];
    if (item.expert < 0) return;
    const int blocks = args_.n_embd / 32;
    copy_halved_row(rows_from(args_.x, item.row, blocks), blocks, thread_, warps_ * kWarp,
                    memory_ + layout_.x_at + n % 2 * layout_.x_bytes);
  }

  /// Waits for the previous kernel, claims the first items and starts the first copies.
  __device__ __forceinline__ void begin() {
    wait_for_previous_kernel();
    let_next_kernel_start();
    uint32_t claimed = 0;
    if (thread_ == 0) claimed = atomicAdd(args_.counters + kMoeRowsClaimed, 2U);
    list_slots();
    if (warp_ == 0) {
      claimed = __shfl_sync(kFullWarp, claimed, 0);
      if (thread_ < 2) shared_.items[thread_] = item_of(claimed + static_cast<uint32_t>(thread_));
    }
    __syncthreads();
    // The copies for items do not wait for the list of ranks.
    int started = 0;
#pragma unroll 1
    for (int part = 0; part < 2; ++part) {
#pragma unroll 1
      while (started < layout_.stages &&
             (part == 1 || shared_.items[ahead_item_ % kItems].expert >= 0)) {
        copy_next();
        ++started;
      }
      if (part == 1) return;
      copy_x(0);
      copy_x(1);
      list_ranks();
      wait_for_copies();
      __syncthreads();
    }
  }

  /// Starts the copies of the warp's next unit, if any, to the stage of the ring that has been
  /// multiplied last, and moves on to the next stage. The lanes have read that stage.
  __device__ __forceinline__ void copy_next() {
    const int stage = stage_;
    uint8_t* const to = stages_ + stage * layout_.stage_bytes;
    stage_ = stage + 1 == layout_.stages ? 0 : stage + 1;
    const int lane = thread_ % kWarp;
    if (!ahead_down_) {
      const Item& item = shared_.items[ahead_item_ % kItems];
      if (item.expert >= 0) {
        const int bytes =
            kMoeRowsHidden * static_cast<int>(shape_of(is_shared(item.expert)).gate_row_bytes);
        const uint8_t* const matrix = lane == 0 ? item.gate : item.up;
        ring_.begin(stage, 2 * bytes);
        ring_.copy_each(stage, to, matrix + (warp_ * units_ + ahead_unit_) * bytes, bytes, 2);
        if (++ahead_unit_ == units_) {
          ahead_unit_ = 0;
          ++ahead_item_;
        }
        return;
      }
      ahead_down_ = true;
    }
    if (ahead_group_ >= shared_.groups) return;
    const Group group = group_at(ahead_group_);
    const int of_row = ahead_shared_ ? 1 : used()[group.row];
    const int count = min(layout_.ranks_of_unit, of_row - ahead_rank_);
    const int64_t row_bytes = shape_of(ahead_shared_).down_row_bytes;
    const uint8_t* from = nullptr;
    if (lane < count) {
      const int rank = ahead_shared_ ? args_.n_used : ahead_rank_ + lane;
      from = ranks_of(group.row)[rank].down + group.first * row_bytes;
    }
    const int bytes = kMoeRowsOutputs * static_cast<int>(row_bytes);
    ring_.begin(stage, count * bytes);
    ring_.copy_each(stage, to, from, bytes, count);
    ahead_rank_ += layout_.ranks_of_unit;
    if (ahead_rank_ < of_row) return;
    ahead_rank_ = 0;
    ahead_group_ += warps_;
    if (args_.table.has_shared == 0) return;
    const int end = min(ahead_first_ + kMoeRowsGroups * warps_, shared_.groups);
    if (ahead_group_ < end) return;
    if (ahead_shared_) {
      ahead_first_ = end;
    } else {
      ahead_group_ = ahead_first_ + warp_;
    }
    ahead_shared_ = !ahead_shared_;
  }

  /// The block's items of one kind of expert, as long as they come; warm_icache: one, of arbitrary
  /// contents.
  template <DType kType>
  __device__ __forceinline__ void gate_up(bool of_shared, bool warm_icache) {
    const ExpertShape& shape = shape_of(of_shared);
    const auto row_bytes = static_cast<int>(shape.gate_row_bytes);
    const auto* const codebook =
        reinterpret_cast<const uint32_t*>(memory_ + kind_of(of_shared).gate_codebook.at);
    const int blocks = args_.n_embd / 32;
#pragma unroll 1
    while (true) {
      const Item& next = shared_.items[item_ % kItems];
      const int expert = next.expert;
      if (!warm_icache && (expert < 0 || is_shared(expert) != of_shared)) return;
      // Other warps claim and round each time. Their number is a power of two.
      uint32_t claimed = 0;
      const bool claims = !warm_icache && thread_ == ((item_ + warps_ / 2) & (warps_ - 1)) * kWarp;
      if (claims) claimed = atomicAdd(args_.counters + kMoeRowsClaimed, 1U);
      const bool rounds = warp_ == (item_ & (warps_ - 1));
      ExpertPointers biases = {};
      if (rounds && !warm_icache) biases = args_.table.experts[expert];
      const HalvedRow x[1] = {
          halved_row_in(memory_ + layout_.x_at + item_ % 2 * layout_.x_bytes, blocks)};
      float(&products)[2][kMoeHiddenTile] = shared_.products[item_ % 2];
#pragma unroll 1
      for (int unit = 0; unit < (warm_icache ? 1 : units_); ++unit) {
        if (unit > 0) {
          __syncwarp();
          copy_next();
        }
        const uint8_t* const own = stage() + half_ * row_bytes;
        const uint8_t* const rows[2] = {own, own + kMoeRowsHidden * row_bytes};
        if (!warm_icache) ring_.wait(stage_);
        float acc[2] = {};
        add_partials<kType, 4>(rows, x, blocks, warm_icache, lane_, codebook, acc);
        const float v = trees_of_16(acc, lane_);
        const int element = (warp_ * units_ + unit) * kMoeRowsHidden + half_;
        if (lane_ % 8 == 0) products[lane_ / 8][element] = v;
      }
      if (claims) shared_.items[(item_ + 2) % kItems] = item_of(claimed);
      wait_for_copies();  // of the next item's x
      __syncthreads();
      if (!warm_icache) {
        copy_next();
        copy_x(item_ + 2);
      }
      if (rounds) {
        const Item item = shared_.items[item_ % kItems];
        const int i = thread_ % kWarp;
        const float h = hidden(args_.activation, shape, biases, item.tile * kMoeHiddenTile + i,
                               products[0][i], products[1][i]);
        RoundedLane rounded[1];
        round_lanes({h}, rounded);
        if (!warm_icache) {
          const int64_t at = static_cast<int64_t>(item.slot) * (args_.h_width / kWarp) + item.tile;
          args_.h.q[at * kWarp + i] = rounded[0].q;
          if (i == 0) args_.h.blocks[at] = rounded[0].block;
          __syncwarp();
          if (i == 0) add_release(args_.counters + kMoeRowsFinished + item.row_index, 1);
        }
      }
      if (warm_icache) return;
      ++item_;
    }
  }

  /// Waits for h of the rows of the block's y, and copies it to shared memory.
  __device__ __forceinline__ void take_h() {
    // The block has counted its own items, and reads x no more.
    __syncthreads();
#pragma unroll 1
    for (int r = thread_; r < shared_.rows; r += warps_ * kWarp) {
      const auto items =
          static_cast<uint32_t>(used()[r] * layout_.routed.tiles + layout_.shared.tiles);
      const uint32_t* const finished = args_.counters + kMoeRowsFinished + shared_.first_row + r;
      while (load_acquire(finished) < items) {
      }
    }
    __syncthreads();
    const int blocks = args_.h_width / 32;
    const int64_t first_slot = static_cast<int64_t>(shared_.first_row) * ranks();
#pragma unroll 1
    for (int s = warp_; s < shared_.rows * ranks(); s += warps_) {
      copy_halved_row(rows_from(args_.h, first_slot + s, blocks), blocks, thread_ % kWarp, kWarp,
                      memory_ + layout_.x_at + s * layout_.h_bytes);
    }
    wait_for_copies();
    __syncthreads();
  }

  /// kMoeRowsOutputs elements of y.
  struct Group {
    int row;    ///< among the rows of the block's y
    int first;  ///< element
  };

  __device__ __forceinline__ Group group_at(int i) const {
    int row = 0;
    int group = shared_.first_group + i;
#pragma unroll 1
    while (group >= groups_of_row()) {
      group -= groups_of_row();
      ++row;
    }
    return {row, group * kMoeRowsOutputs};
  }

  /// Adds the products with one kind of expert to kMoeRowsGroups of the warp's groups, of those of
  /// the block from `first` on; warm_icache: one product of arbitrary contents.
  template <DType kType>
  __device__ __forceinline__ void down(bool of_shared, int first, bool warm_icache) {
    const ExpertShape& shape = shape_of(of_shared);
    const auto row_bytes = static_cast<int>(shape.down_row_bytes);
    const auto* const codebook =
        reinterpret_cast<const uint32_t*>(memory_ + kind_of(of_shared).down_codebook.at);
    const int blocks = args_.h_width / 32;
    const bool is_last = of_shared || args_.table.has_shared == 0;
    // This lane's element of its group.
    const int element = half_ * kRowsOfHalf + lane_ / 4 % kRowsOfHalf;
    const bool writes = lane_ == 0 || lane_ == 4;
    if (of_shared) __syncwarp();
#pragma unroll 1
    for (int n = 0; n < kMoeRowsGroups; ++n) {
      const int i = first + n * warps_ + warp_;
      if (!warm_icache && i >= shared_.groups) return;
      const Group group = warm_icache ? Group{0, 0} : group_at(i);
      const MoeRowsRank* const experts = ranks_of(group.row);
      const int all = of_shared ? 1 : warm_icache ? kRanksTogether : used()[group.row];
      float* const out = reinterpret_cast<float*>(memory_ + layout_.outs_at) +
                         (warp_ * kMoeRowsGroups + n) * kMoeRowsOutputs + element;
      float* y = nullptr;
      float old = 0;
      if (is_last && !warm_icache) {
        y = args_.y + row_at(shared_.first_row + group.row) * args_.y_stride + group.first +
            element;
        old = *y;
      }
      float t = of_shared && !warm_icache ? *out : 0;
      int k = 0;
      do {
        const uint8_t* own = stage() + half_ * kRowsOfHalf * row_bytes;
        if (!warm_icache) ring_.wait(stage_);
        const int end = min(k + layout_.ranks_of_unit, all);
#pragma unroll 1
        for (; k < end; k += kRanksTogether) {
          const bool both = k + 1 < all;
          const int rank = of_shared ? args_.n_used : k;
          const int slot = warm_icache ? 0 : group.row * ranks() + rank;
          const uint8_t* const h = memory_ + layout_.x_at + slot * layout_.h_bytes;
          const HalvedRow x[kRanksTogether] = {
              halved_row_in(h, blocks), halved_row_in(both ? h + layout_.h_bytes : h, blocks)};
          const uint8_t* const other = both ? own + kMoeRowsOutputs * row_bytes : own;
          const uint8_t* const rows[kRanksTogether * kRowsOfHalf] = {own, own + row_bytes, other,
                                                                     other + row_bytes};
          own += kRanksTogether * kMoeRowsOutputs * row_bytes;
          float acc[kRanksTogether * kRowsOfHalf] = {};
          add_partials<kType, 1>(rows, x, shape.n_ff / 32, warm_icache, lane_, codebook, acc);
          const float v = trees_of_16(acc, lane_);
          const float from_other = __shfl_xor_sync(kFullWarp, v, 8);
          const auto add = [&](int of, float o) CHIMERE_INLINED {
            if (args_.biased != 0 && !of_shared && !warm_icache) {
              o = biased(o, args_.table.experts[experts[of].expert].down_bias,
                         group.first + element);
            }
            t = fmaf(experts[of].weight, o, t);
          };
          add(rank, lane_ < 8 ? v : from_other);
          if (both) add(rank + 1, lane_ < 8 ? from_other : v);
        }
        if (warm_icache) return;
        __syncwarp();
        copy_next();
      } while (k < all);
      if (!writes) continue;
      if (is_last) {
        *y = old + t * args_.scale;
      } else {
        *out = t;
      }
    }
  }

  const MoeRowsArgs& args_;
  const MoeRowsLayout& layout_;
  uint8_t* const memory_;
  Shared& shared_;
  const int thread_;
  const int warp_;
  const int warps_;
  const int half_;
  const int lane_;   ///< of the half warp
  const int units_;  ///< of a warp in an item

  BulkRing ring_;
  uint8_t* const stages_;
  int stage_ = 0;  ///< the next to wait for
  int item_ = 0;   ///< of the block, the next to multiply
  // The unit whose copies start next.
  int ahead_item_ = 0;
  int ahead_unit_ = 0;
  bool ahead_down_ = false;
  bool ahead_shared_ = false;
  int ahead_first_ = 0;  ///< of the block's groups that are computed together
  int ahead_group_;
  int ahead_rank_ = 0;
};

}  // namespace

CHIMERE_KERNEL_OF_BLOCKS(moe_rows, kMoeRowsMostThreads, 1, MoeRowsArgs, args) {
  CHIMERE_DYNAMIC_SHARED(uint8_t, memory);
  __shared__ Shared shared;
  Block(args, memory, shared).run();
}

}  // namespace chimere::kernels::cuda
