// Ops::gdn_mix like gdn_decode_128, for sequences of several decode rows, some of which may be kept
// (verification rows). The bits are those of the separate ops (docs/numerics.md).
//
// A block handles one v head of one sequence. Its warps have two roles, so that only the recurrence
// is computed row after row:
//   - A thread of the column warps holds a column of the state in registers: it is read once, and
//     written once for each row that stores it. The chains of a row are 128 dependent fmaf, at
//     least 512 cycles. They are fused with the update by the row before, so that an element of a
//     row costs four operations and three quarters of a load of 16 bytes. The warp's scheduler
//     issues them in 608 cycles; the block's shared memory needs 768, two for each load, although
//     all lanes read the same.
//   - The row warps compute everything else: before the chains the convolution and the norms of q
//     and k, for kMixBatch rows at once; after them the gated norm and its rounding. They are ahead
//     of the column warps or behind them by up to kMixRows rows.
//
// A launch of few blocks is limited by instruction fetches, because the kernels of a layer evict
// each other's code from the caches. Its blocks warm the instruction cache before the previous
// kernel has ended: they process two rows with weights in place of their inputs, and discard the
// results. The column warps have three cases of straight code, of 5 to 8 KB each: chains alone,
// chains after the update, the update alone.
//
// Bytes: 4 * n_v_heads * head_dim² of state read for a sequence, and written for each row that
// stores it; for each row the convolution's inputs.
#include "kernels/cuda/dot16.h"
#include "kernels/cuda/gdn_device.h"
#include "kernels/cuda/ptx/async_copy.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/cuda/ptx/named_barrier.h"
#include "kernels/cuda/rounding.h"
#include "kernels/cuda/silu_device.h"

namespace chimere::kernels::cuda {
namespace {

using Shared = GdnMixRowsShared;

inline constexpr int kPast = kMixTaps - 1;
/// Rows of the dry run that warms the instruction cache: the second one has all cases of the column
/// warps' code. No warp waits for the other role in it: the column warps take the rows from
/// kDryColumns on, whose memory nothing writes before.
inline constexpr int kDryRows = 2;
inline constexpr int kDryColumns = kMixBatch;
/// Warps of each role: a head's outputs in blocks of 32.
inline constexpr int kRoleWarps = kMixDim / kWarp;
static_assert(kMixThreads == 2 * kMixDim && kMixBatch == kRoleWarps && kMixRows % kMixBatch == 0);

/// Named barriers of a block.
enum Barrier {
  kRowWarps = 1,  ///< the row warps among themselves
  /// q and k of a batch of rows.
  kKeysOfBatch,
  /// v and k·q of a batch of rows.
  kValuesOfBatch = kKeysOfBatch + kMixRows / kMixBatch,
  /// The column warps' results of a row.
  kResultsOfRow = kValuesOfBatch + kMixRows / kMixBatch,
  kBarrierEnd = kResultsOfRow + kMixRows,
};
static_assert(kBarrierEnd <= 16);

/// What a block processes.
struct Work {
  int h;
  int k_head;
  int read_slot;
  int first_row;
  int rows;
  bool folded;
};

/// A column of the state.
struct Column {
  float s[kMixDim];

  __device__ __forceinline__ void read(const float* column) {
#pragma unroll
    for (int i = 0; i < kMixDim; ++i) s[i] = column[i * kMixDim];
  }

  __device__ __forceinline__ void multiply(float decay) {
#pragma unroll
    for (int i = 0; i < kMixDim; ++i) s[i] = decay * s[i];
  }

  /// Completes the update of s[i] to s[i + 3] by the last row, after multiply().
  __device__ __forceinline__ void add4(int i, const float* k, float delta) {
    const float4 k4 = *reinterpret_cast<const float4*>(k + i);
    s[i] = fmaf(k4.x, delta, s[i]);
    s[i + 1] = fmaf(k4.y, delta, s[i + 1]);
    s[i + 2] = fmaf(k4.z, delta, s[i + 2]);
    s[i + 3] = fmaf(k4.w, delta, s[i + 3]);
  }

  /// The chains of k and q. With kUpdates, the update by the last row, `before` and `delta`, is
  /// completed first.
  template <bool kUpdates>
  __device__ __forceinline__ void chains(const float* before, float delta, const float* k,
                                         const float* q, float& kept, float& read) {
    kept = 0;
    read = 0;
#pragma unroll
    for (int i = 0; i < kMixDim; i += 4) {
      if constexpr (kUpdates) add4(i, before, delta);
      const float4 k4 = *reinterpret_cast<const float4*>(k + i);
      const float4 q4 = *reinterpret_cast<const float4*>(q + i);
      kept = fmaf(k4.x, s[i], kept);
      read = fmaf(q4.x, s[i], read);
      kept = fmaf(k4.y, s[i + 1], kept);
      read = fmaf(q4.y, s[i + 1], read);
      kept = fmaf(k4.z, s[i + 2], kept);
      read = fmaf(q4.z, s[i + 2], read);
      kept = fmaf(k4.w, s[i + 3], kept);
      read = fmaf(q4.w, s[i + 3], read);
    }
  }

  /// Completes the update by the last row; also writes the state to `column` if that is not
  /// nullptr.
  __device__ __forceinline__ void update(const float* k, float delta, float* column) {
#pragma unroll
    for (int i = 0; i < kMixDim; i += 4) {
      add4(i, k, delta);
#pragma unroll
      for (int j = i; j < i + 4; ++j) {
        if (column != nullptr) column[j * kMixDim] = s[j];
      }
    }
  }
};

/// The column warps: the gates, while they wait for q and k, and the recurrence, thread c for
/// column c.
template <bool kWarmsIcache>
__device__ __forceinline__ void compute_columns(const GdnMixArgs& args, Shared& shared,
                                                const Work& work) {
  const auto c = static_cast<int>(threadIdx.x);
  const GdnScanArgs& scan = args.scan;
  const SlotArgs& state = scan.state;
  const int64_t column_at = int64_t{kMixDim} * kMixDim * work.h + c;
  const float a = scan.a[work.h];
  const float dt_bias = scan.dt_bias[work.h];
  Column column = {};
  bool dry = kWarmsIcache;
  // No other kernel of this step but gdn_fold has written these states, and a step begins with a
  // copy that waits for the whole previous step.
  auto begin = [&] {
    if (work.folded) wait_for_previous_kernel();
    column.read(state.base + work.read_slot * state.stride + column_at);
  };
  if (!dry) {
    begin();
    wait_for_previous_kernel();
  }
#pragma unroll 1
  for (int group = 0; group < work.rows;) {
    const int begin_row = dry ? kDryColumns : 0;
    const int end_row = dry ? kDryColumns + kDryRows : min(kMixRows, work.rows - group);
    if (c < end_row - begin_row) {
      const int row = work.first_row + group + c;
      const float alpha = dry ? a : scan.alpha.data[row * scan.alpha.stride + work.h];
      const float beta = dry ? a : scan.beta.data[row * scan.beta.stride + work.h];
      const Gates gates = gates_from(a, dt_bias, alpha, beta);
      shared.decay[c] = exp_f32(gates.log_decay);
      shared.beta[c] = gates.beta;
    }
    __syncwarp();
    float delta = 0;
    bool updates = false;  // the state still lacks the update by the previous row
#pragma unroll 1
    for (int r = begin_row; r < end_row; ++r) {
      const int batch = r / kMixBatch;
      const bool begins_batch = r % kMixBatch == 0 && !dry;
      if (begins_batch) named_barrier_sync(kKeysOfBatch + batch, kMixThreads);
      float kept;
      float read;
      if (updates) {
        column.chains<true>(shared.k[r - 1], delta, shared.k[r], shared.q[r], kept, read);
      } else {
        column.chains<false>(nullptr, 0, shared.k[r], shared.q[r], kept, read);
      }
      if (begins_batch) named_barrier_sync(kValuesOfBatch + batch, kMixThreads);
      const float decay = shared.decay[r];
      delta = shared.beta[r] * fmaf(-decay, kept, shared.v[r][c]);
      shared.delta[r][c] = delta;
      shared.out[r][c] = fmaf(shared.kq[r], delta, decay * read);
      if (!dry) named_barrier_arrive(kResultsOfRow + r, kMixThreads);
      column.multiply(decay);  // in the latency of the loads and the barrier
      // The state after the last row is needed only if that row stores it.
      const int slot = dry ? -1 : shared.slot[r];
      updates = slot < 0;
      if (slot >= 0 || (r + 1 == end_row && (dry || group + end_row < work.rows))) {
        column.update(shared.k[r], delta,
                      slot < 0 ? nullptr : state.base + slot * state.stride + column_at);
      }
    }
    if (dry) {
      dry = false;
      begin();
      __syncthreads();  // the row warps overwrite what the dry run has read
      wait_for_previous_kernel();
    } else {
      group += kMixRows;
      if (group < work.rows) __syncthreads();
    }
  }
}

/// The row warps: everything but the recurrence. Thread t has channel t of the q head, of the k
/// head and of the v head.
class RowWarps {
 public:
  __device__ __forceinline__ RowWarps(const GdnMixArgs& args, Shared& shared, const Work& work)
      : args_(args),
        shared_(shared),
        work_(work),
        t_(static_cast<int>(threadIdx.x) - kMixDim),
        warp_(t_ / kWarp),
        lane_(t_ % kWarp),
        leads_(first_of_k_head(args.scan.dims, work.h)) {
    const int key_dim = args.scan.dims.n_k_heads * kMixDim;
    channel_[0] = work.k_head * kMixDim + t_;
    channel_[1] = key_dim + channel_[0];
    channel_[2] = 2 * key_dim + work.h * kMixDim + t_;
#pragma unroll
    for (int part = 0; part < 3; ++part) {
      weight_[part] =
          *reinterpret_cast<const float4*>(args.conv_weight + int64_t{kMixTaps} * channel_[part]);
    }
    norm_ = args.norm[t_];
  }

  template <bool kWarmsIcache>
  __device__ __forceinline__ void run() {
    bool dry = kWarmsIcache;
    if (!dry) wait_for_previous_kernel();
#pragma unroll 1
    for (int group = 0; group < work_.rows;) {
      const int count = dry ? kDryRows : min(kMixRows, work_.rows - group);
      const int row = work_.first_row + group;
      load(dry, group, count, row);
#pragma unroll 1
      for (int begin = 0; begin < count; begin += kMixBatch) {
        prepare(dry, begin, count);
        // All of this block's row warps have read what the last block of the k head writes.
        if (!dry && stores_ && group == 0 && begin == 0 && counts()) {
          __threadfence();
          arrived_ = atomicAdd(barrier_counter(), 1U);
        }
      }
      if (!dry) write_inputs(group, count);
#pragma unroll 1
      for (int r = 0; r < count; ++r) complete(dry, r, row + r);
      if (dry) {
        dry = false;
        __syncthreads();
        wait_for_previous_kernel();
      } else {
        group += kMixRows;
        if (group < work_.rows) __syncthreads();
      }
    }
  }

 private:
  __device__ __forceinline__ bool counts() const { return t_ == kMixDim - 1; }
  /// Counts the blocks that have read the convolution's state of the k head.
  __device__ __forceinline__ uint32_t* barrier_counter() const {
    return args_.barrier_counters + int64_t{blockIdx.y} * args_.scan.dims.n_k_heads + work_.k_head;
  }
  __device__ __forceinline__ float& input(int r, int part) const {
    return shared_.input[r][part * kMixDim + t_];
  }

  static __device__ __forceinline__ void copy_float(float* to, const float* from) {
    copy_async<4>(reinterpret_cast<uint8_t*>(to), reinterpret_cast<const uint8_t*>(from));
  }

  /// Loads the inputs of `count` rows from row `row` of the step on, and the inputs before them.
  /// Weights may be read at any time: in the dry run they replace the inputs, and ones the results
  /// of the column warps.
  __device__ __forceinline__ void load(bool dry, int group, int count, int row) {
    const BatchArgs& batch = args_.scan.batch;
    int slot = -1;
    int keep = -1;
    if (!dry && t_ < count) {
      slot = batch.write_slot[row + t_];
      if (batch.keep_row != nullptr) keep = batch.keep_row[row + t_];
    }
    if (group == 0) {
      const int64_t width = conv_dim(args_.scan.dims);
      const float* before = dry ? args_.conv_weight
                                : args_.conv_state.base + work_.read_slot * args_.conv_state.stride;
#pragma unroll
      for (int i = 0; i < kPast; ++i) {
#pragma unroll
        for (int part = 0; part < 3; ++part) {
          copy_float(&input(i, part), before + i * width + channel_[part]);
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < kPast; ++i) {
#pragma unroll
        for (int part = 0; part < 3; ++part) input(i, part) = input(kMixRows + i, part);
      }
    }
    const ConstRows z = args_.z;
    const float* qkv_row =
        dry ? args_.conv_weight : args_.scan.qkv.data + row * args_.scan.qkv.stride;
    const float* z_row = dry ? args_.conv_weight : z.data + row * z.stride;
    const int64_t qkv_stride = dry ? 0 : args_.scan.qkv.stride;
    const int64_t z_stride = dry ? 0 : z.stride;
#pragma unroll 1
    for (int r = 0; r < count; ++r) {
#pragma unroll
      for (int part = 0; part < 3; ++part) {
        copy_float(&input(kPast + r, part), qkv_row + channel_[part]);
      }
      copy_float(&shared_.z[r][t_], z_row + work_.h * kMixDim + t_);
      qkv_row += qkv_stride;
      z_row += z_stride;
    }
    if (dry) {
      for (int r = 0; r < kDryRows; ++r) shared_.out[r][t_] = 1.0F;
    }
    if (group == 0 && !dry) {
      bool stores = false;
      for (int r = lane_; r < work_.rows; r += kWarp) {
        stores = stores || batch.write_slot[row + r] >= 0;
      }
      stores_ = __any_sync(kFullWarp, stores);
    }
    if (t_ < kMixRows) {
      shared_.slot[t_] = slot;
      shared_.keep[t_] = keep;
    }
    wait_for_copies();
  }

  /// The convolution of a batch of rows for a part of the channels. Rows from `count` on are 1.
  __device__ __forceinline__ void convolve(int begin, int count, int part,
                                           float (&out)[kMixBatch]) const {
    float x[kPast + kMixBatch];
#pragma unroll
    for (int i = 0; i < kPast + kMixBatch; ++i) x[i] = input(begin + i, part);
#pragma unroll
    for (int r = 0; r < kMixBatch; ++r) {
      float sum = fmaf(weight_[part].x, x[r], 0.0F);
      sum = fmaf(weight_[part].y, x[r + 1], sum);
      sum = fmaf(weight_[part].z, x[r + 2], sum);
      sum = fmaf(weight_[part].w, x[r + 3], sum);
      out[r] = begin + r < count ? sum : 1.0F;
    }
  }

  /// What the column warps need of rows `begin` .. of the group.
  __device__ __forceinline__ void prepare(bool dry, int begin, int count) {
    const int batch = begin / kMixBatch;
    {
      float q[kMixBatch];
      float k[kMixBatch];
      convolve(begin, count, 0, q);
      convolve(begin, count, 1, k);
      float both[2 * kMixBatch];
#pragma unroll
      for (int r = 0; r < kMixBatch; ++r) {
        both[r] = q[r];
        both[kMixBatch + r] = k[r];
      }
      silu_side_by_side(both);
#pragma unroll
      for (int r = 0; r < kMixBatch; ++r) {
        shared_.q[begin + r][t_] = both[r];
        shared_.k[begin + r][t_] = both[kMixBatch + r];
      }
    }
    named_barrier_sync(kRowWarps, kMixDim);
    // A warp normalises a row: half a warp its q, the other half its k.
    const int row = begin + warp_;
    float x[kMixDim / 16] = {};
    if (row < count) {
      const bool has_q = lane_ < 16;
      float* const head = (has_q ? shared_.q[row] : shared_.k[row]) + lane_ % 16;
      float sum = 0;
#pragma unroll
      for (int i = 0; i < kMixDim / 16; ++i) {
        x[i] = head[16 * i];
        sum = fmaf(x[i], x[i], sum);
      }
      const float scale = 1.0F / sqrtf(tree_of_16(sum) + args_.eps);
      const float read_scale = 1.0F / sqrtf(static_cast<float>(kMixDim));
#pragma unroll
      for (int i = 0; i < kMixDim / 16; ++i) {
        x[i] = x[i] * scale;
        if (has_q) x[i] = x[i] * read_scale;
        head[16 * i] = x[i];
      }
    }
    if (!dry) named_barrier_arrive(kKeysOfBatch + batch, kMixThreads);
    if (row < count) {
      float kq = 0;
#pragma unroll
      for (int i = 0; i < kMixDim / 16; ++i) {
        kq = fmaf(x[i], __shfl_xor_sync(kFullWarp, x[i], 16), kq);
      }
      kq = tree_of_16(kq);
      if (lane_ == 0) shared_.kq[row] = kq;
    }
    float v[kMixBatch];
    convolve(begin, count, 2, v);
    silu_side_by_side(v);
#pragma unroll
    for (int r = 0; r < kMixBatch; ++r) shared_.v[begin + r][t_] = v[r];
    if (!dry) named_barrier_arrive(kValuesOfBatch + batch, kMixThreads);
  }

  /// Writes the convolution's inputs of rows that are kept, and its state after rows that store it.
  __device__ __forceinline__ void write_inputs(int group, int count) {
    const SlotArgs& state = args_.conv_state;
#pragma unroll 1
    for (int r = 0; r < count; ++r) {
      const int keep = shared_.keep[r];
      if (keep < 0) continue;
      float* const kept = state.rows + keep * state.row_stride;
      if (leads_) {
        kept[channel_[0]] = input(kPast + r, 0);
        kept[channel_[1]] = input(kPast + r, 1);
      }
      kept[channel_[2]] = input(kPast + r, 2);
    }
    if (!stores_) return;
    // The last block that reads a k head of a sequence writes the states of its convolution.
    if (group == 0) {
      if (counts()) {
        const GdnDims& dims = args_.scan.dims;
        const auto readers = static_cast<uint32_t>(dims.n_v_heads / dims.n_k_heads);
        shared_.last_reader = arrived_ + 1 == readers ? 1 : 0;
        if (shared_.last_reader != 0) *barrier_counter() = 0;
      }
      named_barrier_sync(kRowWarps, kMixDim);
    }
    const bool last = shared_.last_reader != 0;
    const int64_t width = conv_dim(args_.scan.dims);
#pragma unroll 1
    for (int r = 0; r < count; ++r) {
      const int slot = shared_.slot[r];
      if (slot < 0) continue;
      float* const after = state.base + slot * state.stride;
#pragma unroll
      for (int i = 0; i < kPast; ++i) {
        if (last) {
          after[i * width + channel_[0]] = input(r + 1 + i, 0);
          after[i * width + channel_[1]] = input(r + 1 + i, 1);
        }
        after[i * width + channel_[2]] = input(r + 1 + i, 2);
      }
    }
  }

  /// The gated norm of row r (`row` of the step) and its rounding: a warp for each block of 32.
  __device__ __forceinline__ void complete(bool dry, int r, int row) const {
    const GdnScanArgs& scan = args_.scan;
    float gate[1] = {shared_.z[r][t_]};
    silu_side_by_side(gate);
    if (!dry) named_barrier_sync(kResultsOfRow + r, kMixThreads);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kMixDim; i += 16) {
      const float x = shared_.out[r][i + lane_ % 16];
      sum = fmaf(x, x, sum);
    }
    const float scale = 1.0F / sqrtf(tree_of_16(sum) / static_cast<float>(kMixDim) + args_.eps);
    const float y = shared_.out[r][t_] * scale * norm_ * gate[0];
    if (!dry) scan.out.data[row * scan.out.stride + int64_t{kMixDim} * work_.h + t_] = y;
    if (args_.rounded.q != nullptr) {
      RoundedLane rounded[1];
      round_lanes({y}, rounded);
      if (!dry) {
        put_block_of_row(rounded[0], lane_, row, work_.h * kRoleWarps + warp_,
                         scan.dims.n_v_heads * kRoleWarps, args_.rounded);
      }
    }
    const int keep = shared_.keep[r];
    if (keep < 0) return;
    float* const kept = scan.state.rows + keep * scan.state.row_stride;
    kept[kept_corrections(scan.dims, work_.h) + t_] = shared_.delta[r][t_];
    if (leads_) kept[kept_k(scan.dims, work_.k_head) + t_] = shared_.k[r][t_];
    if (t_ == 0) kept[kept_decay(scan.dims, work_.h)] = shared_.decay[r];
  }

  const GdnMixArgs& args_;
  Shared& shared_;
  const Work& work_;
  const int t_;
  const int warp_;
  const int lane_;
  const bool leads_;     ///< this block writes the parts of kept rows that belong to the k head
  bool stores_ = false;  ///< a row of the sequence stores its state
  int channel_[3];
  float4 weight_[3];
  float norm_;
  uint32_t arrived_ = 0;
};

/// kWarmsIcache: the block warms the instruction cache first.
template <bool kWarmsIcache>
__device__ __forceinline__ void mix_rows(const GdnMixArgs& args, Shared& shared) {
  const BatchArgs& batch = args.scan.batch;
  let_next_kernel_start();
  const auto sequence = static_cast<int>(blockIdx.y);
  const int slice_begin = batch.sequence_slices[sequence];
  const int slice_end = batch.sequence_slices[sequence + 1];
  Work work = {};
  work.h = static_cast<int>(blockIdx.x);
  work.k_head = k_head_of(args.scan.dims, work.h);
  work.read_slot = batch.read_slot[sequence];
  work.folded = args.folded != 0;
  if (slice_begin < slice_end) {
    const SliceArgs last_slice = batch.slices[slice_end - 1];
    work.first_row = batch.slices[slice_begin].row_begin;
    work.rows = last_slice.row_begin + last_slice.row_count - work.first_row;
  }
  if (work.rows == 0) {
    wait_for_previous_kernel();
    return;
  }
  if (threadIdx.x < kMixDim) {
    compute_columns<kWarmsIcache>(args, shared, work);
  } else {
    RowWarps(args, shared, work).run<kWarmsIcache>();
  }
}

}  // namespace

// Grid: [v heads, sequences]. Dynamic shared memory: GdnMixRowsShared.

CHIMERE_KERNEL(gdn_decode_128_rows, kMixThreads, GdnMixArgs, args) {
  CHIMERE_DYNAMIC_SHARED(GdnMixRowsShared, shared);
  mix_rows<false>(args, *shared);
}

/// The same for few blocks.
CHIMERE_KERNEL(gdn_decode_128_rows_few, kMixThreads, GdnMixArgs, args) {
  CHIMERE_DYNAMIC_SHARED(GdnMixRowsShared, shared);
  mix_rows<true>(args, *shared);
}

}  // namespace chimere::kernels::cuda
