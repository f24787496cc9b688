// Device code: how a block of attend_N finds its row, lays out its shared memory, and copies keys
// and values into it asynchronously.
#ifndef CHIMERE_KERNELS_CUDA_KV_PIPELINE_H_
#define CHIMERE_KERNELS_CUDA_KV_PIPELINE_H_

#include "kernels/cuda/kv_device.h"
#include "kernels/cuda/ptx/async_copy.h"

namespace chimere::kernels::cuda {

/// The row that a block works on.
struct Query {
  int row;
  int sequence;
  int first;    ///< first position that it attends to
  int visible;  ///< end of the positions that it attends to; 0: there is no row

  __device__ __forceinline__ int first_split() const { return first / kSplit; }
  __device__ __forceinline__ int splits() const {
    return (visible + kSplit - 1) / kSplit - first_split();
  }
};

/// The positions of a split that a row's block reads: whole pages up to the last visible one.
struct Span {
  int first;   ///< first position, the beginning of a page
  int hidden;  ///< how many positions from there on are before the window
  int count;   ///< how many positions there are, with the hidden ones

  __device__ __forceinline__ Span(const Query& query, int split)
      : first(max(split * kSplit, query.first / kPage * kPage)),
        hidden(max(query.first - first, 0)),
        count(min((split + 1) * kSplit, query.visible) - first) {}
};

__device__ __forceinline__ Query query_of(const AttendArgs& args, int index) {
  int slice_index = index;
  int i = 0;
  if (args.rows_per_slice > 1) {
    slice_index = index / args.rows_per_slice;
    i = index % args.rows_per_slice;
  }
  const SliceArgs slice = args.batch.slices[slice_index];
  if (slice.row_class != args.row_class || i >= slice.row_count) return {0, 0, 0, 0};
  const int row = slice.row_begin + i;
  int first = 0;
  if (args.window > 0) first = max(args.batch.row_position[row] + 1 - args.window, 0);
  return {row, slice.sequence, first, args.batch.row_visible[row]};
}

/// Shared memory of a block that attends for kHeads heads of n elements.
template <int kHeads>
struct Shared {
  uint4* stages;           ///< [stage][unit of a thread][thread]
  float* q;                ///< [head][element]
  float* weights;          ///< [position][head]; -0 beyond the last position
  uint16_t* key_scales;    ///< [page][block][position]; overlaps `weights`, which are written later
  uint16_t* value_scales;  ///< likewise
  float* partial;          ///< [16][head] sums of weights
  float* sum;              ///< [head] total of weights
  float* warp_max;         ///< [warp][head]
  float* o;                ///< [head][element], present only if the block folds splits

  __device__ __forceinline__ Shared(uint8_t* memory, int n) {
    const int scale_floats = kSplit / 32 * n / 2;
    stages = reinterpret_cast<uint4*>(memory);
    q = reinterpret_cast<float*>(stages + kPipelineStages * kStageUnits * kAttendThreads);
    weights = q + kHeads * n;
    key_scales = reinterpret_cast<uint16_t*>(weights);
    float* values = weights + max(kSplit * kHeads, scale_floats);
    value_scales = reinterpret_cast<uint16_t*>(values);
    partial = values + scale_floats;
    sum = partial + 16 * kHeads;  // 4 times what is used, to keep what follows aligned
    warp_max = sum + 4 * kHeads;
    o = warp_max + kAttendThreads / kWarp * kHeads;
  }
};

/// Positions per thread.
inline constexpr int kOwnPositions = kSplit / kAttendThreads;

/// Prefetches part `tile` of `tiles` of a split's keys and values into L2, in the order of their
/// use.
__device__ __forceinline__ void prefetch_split(const AttendArgs& args, const Query& query,
                                               int kv_head, int first, int count, int tile,
                                               int tiles) {
  constexpr int kLine = 128;
  constexpr int kPages = kSplit / kPage;
  const int n = args.dims.head_dim;
  const int* table = args.batch.page_table + args.batch.page_begin[query.sequence] + first / kPage;
  const auto start = static_cast<int>(threadIdx.x) + tile * kAttendThreads;
  auto heads = [&](int offset, int bytes) {
    for (int line = start; line < bytes / kLine * kPages; line += kAttendThreads * tiles) {
      const int page = line % kPages;
      if (page * kPage >= count) continue;
      prefetch(args.kv.base + table[page] * args.kv.page_bytes + offset + line / kPages * kLine);
    }
  };
  const int key_bytes = head_bytes(args.kv.k_type, n);
  const int value_bytes = head_bytes(args.kv.v_type, n);
  heads(kv_head * key_bytes, key_bytes);
  heads(args.dims.n_kv_heads * key_bytes + kv_head * value_bytes, value_bytes);
}

/// Multi-stage pipeline of asynchronous copies of a split's keys, then its values, to shared
/// memory. For each thread a stage holds either units of its positions' keys, [unit of a
/// key][position], or units of its element pairs' values, [group of positions][pair].
class KvPipeline {
 public:
  /// Starts the first stages of `count` positions from `first` on. A thread owns 1 << pairs_log
  /// pairs of elements. The scales, and any copies started earlier, belong to the first stage's
  /// group.
  template <int kHeads>
  __device__ __forceinline__ void begin(const AttendArgs& args, const Query& query, int kv_head,
                                        int first, int count, int pairs_log, bool real,
                                        const Shared<kHeads>& shared) {
    const int n = args.dims.head_dim;
    real_ = real;
    const auto thread = static_cast<int>(threadIdx.x);
    stages_ = shared.stages + thread;
    count_ = count;
    halved_ = count <= kSplit / 2;
    table_ = args.batch.page_table + args.batch.page_begin[query.sequence] + first / kPage;
    base_ = args.kv.base;
    page_bytes_ = args.kv.page_bytes;
    const int key_head = kv_head * head_bytes(args.kv.k_type, n);
    const int value_head = args.dims.n_kv_heads * head_bytes(args.kv.k_type, n) +
                           kv_head * head_bytes(args.kv.v_type, n);
    key_units_ = n * element_bits(args.kv.k_type) / 128;
#pragma unroll
    for (int j = 0; j < kOwnPositions; ++j) {
      const int p = thread + j * kAttendThreads;
      key_there_[j] = p < count;
      keys_[j] = page(key_there_[j] ? p / kPage : 0) + key_head + p % kPage * 16;
    }
    const int half = n / 2;
    group_log_ = args.kv.v_type == KvType::kF32    ? 1
                 : args.kv.v_type == KvType::kQ8_0 ? 3
                 : args.kv.v_type == KvType::kQ4_0 ? 4
                                                   : 2;
    group_bytes_ = half * 16;
    stage_positions_ = min(kStageUnits >> pairs_log << group_log_, kPage);
#pragma unroll
    for (int j = 0; j < kStageUnits; ++j) {
      const int group = j >> pairs_log;
      const int pair = min(thread + (j & ((1 << pairs_log) - 1)) * kAttendThreads, half - 1);
      value_position_[j] = group << group_log_;
      if (value_position_[j] >= stage_positions_) value_position_[j] = kSplit;
      value_offset_[j] = group * group_bytes_ + pair * 16;
    }
    next_values_ = page(0) + value_head;
    value_head_ = value_head;
    if (has_scales(args.kv.k_type)) {
      copy_scales(key_head + element_bytes(args.kv.k_type, n), n, shared.key_scales);
    }
    if (has_scales(args.kv.v_type)) {
      copy_scales(value_head + element_bytes(args.kv.v_type, n), n, shared.value_scales);
    }
    unit_ = 0;
    position_ = 0;
    put_ = 0;
    taken_ = kPipelineStages - 1;
#pragma unroll 1
    for (int i = 0; i + 1 < kPipelineStages; ++i) start_stage();
  }

  /// Whether the split fills at most half of its positions: a stage then holds twice as many units
  /// of half as many keys.
  __device__ __forceinline__ bool halved() const { return halved_; }

  /// Positions per stage of values.
  __device__ __forceinline__ int stage_positions() const { return stage_positions_; }

  /// Waits for the next stage and returns the thread's units in it, kAttendThreads apart. The
  /// previous stage's memory is reused.
  __device__ __forceinline__ const uint4* take() {
    wait();
    start_stage();
    taken_ = taken_ + 1 == kPipelineStages ? 0 : taken_ + 1;
    return stages_ + taken_ * (kStageUnits * kAttendThreads);
  }

  /// Waits for the thread's copies of the next stage.
  __device__ __forceinline__ void wait() const { wait_for_older_groups<kPipelineStages - 2>(); }

 private:
  __device__ __forceinline__ const uint8_t* page(int i) const {
    return base_ + table_[i] * page_bytes_;
  }

  __device__ __forceinline__ void copy_scales(int offset, int n, uint16_t* to) const {
    for (int i = 0; i * kPage < count_; ++i) {
      const uint8_t* from = page(i) + offset;
      for (auto c = static_cast<int>(threadIdx.x); c < n / 4; c += kAttendThreads) {
        start_copy(reinterpret_cast<uint4*>(to) + i * (n / 4) + c, from + c * 16, real_);
      }
    }
  }

  /// Copies kRows units of each of the thread's first kActive positions.
  template <int kRows, int kActive>
  __device__ __forceinline__ void start_keys(uint4* to) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (unit_ + r >= key_units_) break;
#pragma unroll
      for (int j = 0; j < kActive; ++j) {
        if (key_there_[j]) {
          start_copy(to + (r * kActive + j) * kAttendThreads, keys_[j] + r * kPage * 16, true);
        }
      }
    }
#pragma unroll
    for (int j = 0; j < kActive; ++j) keys_[j] += kRows * kPage * 16;
    unit_ += kRows;
  }

  __device__ __forceinline__ void start_stage() {
    uint4* to = stages_ + put_ * (kStageUnits * kAttendThreads);
    if (unit_ < key_units_) {
      if (halved_) {
        start_keys<4, kOwnPositions / 2>(to);
      } else {
        start_keys<2, kOwnPositions>(to);
      }
    } else if (position_ < count_) {
      if (position_ % kPage == 0) {
        values_ = next_values_;
        const int next = position_ / kPage + 1;
        if (next * kPage < count_) next_values_ = page(next) + value_head_;
      }
      const uint8_t* values = values_ + (position_ % kPage >> group_log_) * group_bytes_;
#pragma unroll
      for (int j = 0; j < kStageUnits; ++j) {
        if (position_ + value_position_[j] < count_) {
          start_copy(to + j * kAttendThreads, values + value_offset_[j], real_);
        }
      }
      position_ += stage_positions_;
    }
    end_copy_group();
    put_ = put_ + 1 == kPipelineStages ? 0 : put_ + 1;
  }

  uint4* stages_;         ///< first unit of this thread
  const int32_t* table_;  ///< the split's pages
  const uint8_t* base_;
  int64_t page_bytes_;
  int value_head_;
  const uint8_t* values_;       ///< in the current page
  const uint8_t* next_values_;  ///< in the next page
  const uint8_t* keys_[kOwnPositions];
  bool key_there_[kOwnPositions];
  int value_position_[kStageUnits];  ///< first position of each unit in a stage; kSplit: unused
  int value_offset_[kStageUnits];
  int count_;
  bool halved_;
  bool real_;
  int key_units_;
  int group_log_;
  int group_bytes_;
  int stage_positions_;
  int unit_;      ///< next unit of keys to copy
  int position_;  ///< next position of values to copy
  int put_;       ///< stage that is filled next
  int taken_;     ///< stage in use
};

}  // namespace chimere::kernels::cuda

#endif  // CHIMERE_KERNELS_CUDA_KV_PIPELINE_H_
