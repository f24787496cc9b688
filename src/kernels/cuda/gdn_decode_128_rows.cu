// Ops::gdn_mix like gdn_decode_128, for sequences of several decode rows, some of which may be kept
// (verification rows). The bits are those of the separate ops (docs/numerics.md).
//
// A block handles one v head of one sequence. Its warps have two roles, so that only the recurrence
// is computed row after row:
//   - The column warps hold the state in registers, a thread 32 elements of two columns; it is read
//     once, and written once for each row that stores it. A row's chains are 128 dependent fmaf,
//     512 cycles. They pass through four warps, one for each quarter of the elements; those that
//     wait for their turn add the correction of the row before, or multiply by the decay.
//   - The row warps compute everything else: before the chains the convolution and the norms of q
//     and k, for kMixBatch rows at once; after them the gated norm and its rounding, a warp for
//     each row.
//
// Each column warp loads its quarter of a row's q and k once; k stays in registers for the
// correction. If shared memory returns 128 bytes of registers in a cycle, also where all lanes read
// the same, the loads of a row take 512 cycles.
//
// A launch of few blocks is limited by instruction fetches, because the kernels of a layer evict
// each other's code from the caches: the code is short, each part of it once.
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
/// Elements of a column that a thread holds, and parts of a column.
inline constexpr int kQuarter = 32;
inline constexpr int kQuarters = kMixDim / kQuarter;
/// Columns of a warp, two in each lane, and groups of as many.
inline constexpr int kGroupColumns = 2 * kWarp;
inline constexpr int kGroups = kMixDim / kGroupColumns;
inline constexpr int kColumnThreads = kGroups * kQuarters * kWarp;
inline constexpr int kRowThreads = kMixDim;
/// Blocks of 32 of a head's outputs.
inline constexpr int kOutputBlocks = kMixDim / kWarp;
static_assert(kMixRowsThreads == kColumnThreads + kRowThreads && kGroups == kMixRowsGroups);
static_assert(kMixBatch == kRowThreads / kWarp && kMixRows == 2 * kMixBatch);

/// Named barriers of a block.
enum Barrier {
  kRowWarps = 1,  ///< the row warps among themselves
  /// q and k of a batch of rows: all warps.
  kKeysOfBatch,
  /// v and k·q of a batch of rows: the row warps and the last quarters.
  kValuesOfBatch = kKeysOfBatch + kMixRows / kMixBatch,
  /// Results of a batch of rows: the last quarters and the row warps.
  kResultsOfBatch = kValuesOfBatch + kMixRows / kMixBatch,
  /// The chains of a group up to a quarter: its warp and the next quarter's.
  kChains = kResultsOfBatch + kMixRows / kMixBatch,
  /// The corrections of a group's columns: the warps of all quarters.
  kCorrections = kChains + kGroups * (kQuarters - 1),
  kBarrierEnd = kCorrections + kGroups,
};
static_assert(kBarrierEnd <= 16);
inline constexpr int kLastQuarterThreads = kGroups * kWarp;
inline constexpr int kKeysThreads = kMixRowsThreads;
inline constexpr int kValuesThreads = kRowThreads + kLastQuarterThreads;
inline constexpr int kResultsThreads = kRowThreads + kLastQuarterThreads;
inline constexpr int kChainsThreads = 2 * kWarp;
inline constexpr int kCorrectionsThreads = kQuarters * kWarp;

/// What a block processes.
struct Work {
  int h;
  int k_head;
  int read_slot;
  int first_row;
  int rows;
  bool folded;
};

/// kQuarter elements of a vector. All lanes have the same.
struct Quarter {
  float4 x[kQuarter / 4];

  __device__ __forceinline__ void load(const float* at) {
#pragma unroll
    for (int i = 0; i < kQuarter / 4; ++i) x[i] = reinterpret_cast<const float4*>(at)[i];
  }
};

/// kQuarter elements of two columns of the state.
struct Columns {
  float2 s[kQuarter];

  __device__ __forceinline__ void read(const float* at) {
#pragma unroll
    for (int i = 0; i < kQuarter; ++i) s[i] = *reinterpret_cast<const float2*>(at + i * kMixDim);
  }

  __device__ __forceinline__ void write(float* at) const {
#pragma unroll
    for (int i = 0; i < kQuarter; ++i) *reinterpret_cast<float2*>(at + i * kMixDim) = s[i];
  }

  __device__ __forceinline__ void multiply(float decay) {
#pragma unroll
    for (int i = 0; i < kQuarter; ++i) s[i] = {decay * s[i].x, decay * s[i].y};
  }

  __device__ __forceinline__ void correct(int i, float k, float2 delta) {
    s[i] = {fmaf(k, delta.x, s[i].x), fmaf(k, delta.y, s[i].y)};
  }

  /// Adds the correction of a row, after multiply().
  __device__ __forceinline__ void correct(const Quarter& k, float2 delta) {
#pragma unroll
    for (int i = 0; i < kQuarter; i += 4) {
      const float4 k4 = k.x[i / 4];
      correct(i, k4.x, delta);
      correct(i + 1, k4.y, delta);
      correct(i + 2, k4.z, delta);
      correct(i + 3, k4.w, delta);
    }
  }

  __device__ __forceinline__ void chain(int i, float k, float q, float4& chains) const {
    chains.x = fmaf(k, s[i].x, chains.x);
    chains.y = fmaf(k, s[i].y, chains.y);
    chains.z = fmaf(q, s[i].x, chains.z);
    chains.w = fmaf(q, s[i].y, chains.w);
  }

  /// Continues the chains of k in both columns (x, y) and of q (z, w).
  __device__ __forceinline__ void chain(const Quarter& k, const Quarter& q, float4& chains) const {
#pragma unroll
    for (int i = 0; i < kQuarter; i += 4) {
      const float4 k4 = k.x[i / 4];
      const float4 q4 = q.x[i / 4];
      chain(i, k4.x, q4.x, chains);
      chain(i + 1, k4.y, q4.y, chains);
      chain(i + 2, k4.z, q4.z, chains);
      chain(i + 3, k4.w, q4.w, chains);
    }
  }
};

/// Keeps the convolution's inputs of rows that are kept. By the column warps, which have to wait.
__device__ __forceinline__ void keep_inputs(const GdnMixArgs& args, const Work& work, int begin,
                                            int count) {
  const BatchArgs& batch = args.scan.batch;
  if (batch.keep_row == nullptr) return;
  const GdnDims& dims = args.scan.dims;
  const auto thread = static_cast<int>(threadIdx.x);
  const int key_dim = dims.n_k_heads * kMixDim;
  // A k head's inputs are kept by the first v head that uses it.
  const int channels = (first_of_k_head(dims, work.h) ? 3 : 1) * kMixDim;
#pragma unroll 1
  for (int r = 0; r < count; ++r) {
    const int row = work.first_row + begin + r;
    const int keep = batch.keep_row[row];
    if (keep < 0) continue;
    const float* const from = args.scan.qkv.data + row * args.scan.qkv.stride;
    float* const to = args.conv_state.rows + keep * args.conv_state.row_stride;
#pragma unroll 1
    for (int i = thread; i < channels; i += kColumnThreads) {
      const int part = i / kMixDim;  // v, q, k
      const int channel = i % kMixDim + (part == 0   ? 2 * key_dim + work.h * kMixDim
                                         : part == 1 ? work.k_head * kMixDim
                                                     : key_dim + work.k_head * kMixDim);
      to[channel] = from[channel];
    }
  }
}

/// The column warps: the recurrence, and of each group of rows the gates.
__device__ __forceinline__ void compute_columns(const GdnMixArgs& args, Shared& shared,
                                                const Work& work) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int group = warp % kGroups;
  const int quarter = warp / kGroups;
  const bool is_last = quarter == kQuarters - 1;
  const int c = group * kGroupColumns + 2 * lane;
  const int first = quarter * kQuarter;
  const int chains_barrier = kChains + group * (kQuarters - 1) + quarter;
  const GdnScanArgs& scan = args.scan;
  const SlotArgs& state = scan.state;
  const int64_t at = int64_t{kMixDim} * (kMixDim * work.h + first) + c;
  // No other kernel of this step but gdn_fold has written these states, and a step begins with a
  // copy that waits for the whole previous step.
  if (work.folded) wait_for_previous_kernel();
  Columns columns;
  columns.read(state.base + work.read_slot * state.stride + at);
  const float a = scan.a[work.h];
  const float dt_bias = scan.dt_bias[work.h];
  wait_for_previous_kernel();
#pragma unroll 1
  for (int begin = 0; begin < work.rows;) {
    const int count = min(kMixRows, work.rows - begin);
    if (warp == 0 && lane < count) {
      const int row = work.first_row + begin + lane;
      const Gates gates = gates_from(a, dt_bias, scan.alpha.data[row * scan.alpha.stride + work.h],
                                     scan.beta.data[row * scan.beta.stride + work.h]);
      shared.decay[lane] = exp_f32(gates.log_decay);
      shared.beta[lane] = gates.beta;
    }
    keep_inputs(args, work, begin, count);
    const bool more = begin + count < work.rows;
    Quarter k = {};
#pragma unroll 1
    for (int r = 0;; ++r) {
      if (r > 0) {
        // The state after the last row is needed only if that row stores it, or if more follow.
        const int slot = shared.slot[r - 1];
        const bool needed = r < count || more || slot >= 0;
        if (needed) {
          if (!is_last) named_barrier_sync(kCorrections + group, kCorrectionsThreads);
          const float2 delta = *reinterpret_cast<const float2*>(&shared.delta[r - 1][c]);
          columns.correct(k, delta);
          if (slot >= 0) columns.write(state.base + slot * state.stride + at);
        }
        if (r == count) break;
      }
      const int batch = r / kMixBatch;
      if (r % kMixBatch == 0) named_barrier_sync(kKeysOfBatch + batch, kKeysThreads);
      k.load(shared.k[r] + first);
      Quarter q;
      q.load(shared.q[r] + first);
      const float decay = shared.decay[r];
      float4 chains = {};
      if (quarter > 0) {
        named_barrier_sync(chains_barrier - 1, kChainsThreads);
        chains = *reinterpret_cast<const float4*>(shared.chains[group][lane]);
      }
      columns.chain(k, q, chains);
      if (!is_last) {
        *reinterpret_cast<float4*>(shared.chains[group][lane]) = chains;
        named_barrier_arrive(chains_barrier, kChainsThreads);
      } else {
        if (r % kMixBatch == 0) named_barrier_sync(kValuesOfBatch + batch, kValuesThreads);
        const float2 v = *reinterpret_cast<const float2*>(&shared.v[r][c]);
        const float beta = shared.beta[r];
        const float2 delta = {beta * fmaf(-decay, chains.x, v.x),
                              beta * fmaf(-decay, chains.y, v.y)};
        *reinterpret_cast<float2*>(&shared.delta[r][c]) = delta;
        if (r + 1 < count || more || shared.slot[r] >= 0) {
          named_barrier_arrive(kCorrections + group, kCorrectionsThreads);
        }
        const float kq = shared.kq[r];
        const float2 out = {fmaf(kq, delta.x, decay * chains.z),
                            fmaf(kq, delta.y, decay * chains.w)};
        *reinterpret_cast<float2*>(&shared.out[r][c]) = out;
        if (r + 1 == count || r % kMixBatch == kMixBatch - 1) {
          named_barrier_arrive(kResultsOfBatch + batch, kResultsThreads);
        }
      }
      columns.multiply(decay);
    }
    begin += count;
    if (more) __syncthreads();
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
        t_(static_cast<int>(threadIdx.x) - kColumnThreads),
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
#pragma unroll
    for (int i = 0; i < kOutputBlocks; ++i) norm_[i] = args.norm[i * kWarp + lane_];
  }

  __device__ __forceinline__ void run() {
    load_slots(0);
    const BatchArgs& batch = args_.scan.batch;
    bool stores = false;
    for (int r = lane_; r < work_.rows; r += kWarp) {
      stores = stores || batch.write_slot[work_.first_row + r] >= 0;
    }
    stores_ = __any_sync(kFullWarp, stores);
    if (work_.folded) wait_for_previous_kernel();
    const int64_t width = conv_dim(args_.scan.dims);
    const float* const before = args_.conv_state.base + work_.read_slot * args_.conv_state.stride;
#pragma unroll
    for (int i = 0; i < kPast; ++i) {
#pragma unroll
      for (int part = 0; part < 3; ++part) {
        copy_float(&input(i, part), before + i * width + channel_[part]);
      }
    }
    wait_for_previous_kernel();
#pragma unroll 1
    for (int begin = 0; begin < work_.rows;) {
      const int count = min(kMixRows, work_.rows - begin);
      load(begin, count);
#pragma unroll 1
      for (int first = 0; first < count; first += kMixBatch) {
        prepare(first, count);
        // All of this block's row warps have read what the last block of the k head writes.
        if (stores_ && begin + first == 0 && counts()) {
          __threadfence();
          arrived_ = atomicAdd(barrier_counter(), 1U);
        }
      }
      write_states(begin, count);
#pragma unroll 1
      for (int first = 0; first < count; first += kMixBatch) {
        named_barrier_sync(kResultsOfBatch + first / kMixBatch, kResultsThreads);
        if (first + warp_ < count) complete(first + warp_, work_.first_row + begin + first + warp_);
      }
      begin += count;
      if (begin >= work_.rows) return;
      __syncthreads();
      load_slots(begin);
#pragma unroll
      for (int i = 0; i < kPast; ++i) {
#pragma unroll
        for (int part = 0; part < 3; ++part) input(i, part) = input(kMixRows + i, part);
      }
    }
  }

 private:
  __device__ __forceinline__ bool counts() const { return t_ == kRowThreads - 1; }
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

  /// Where the rows from row `begin` of the sequence on are stored and kept.
  __device__ __forceinline__ void load_slots(int begin) {
    if (t_ >= kMixRows) return;
    const BatchArgs& batch = args_.scan.batch;
    const bool exists = begin + t_ < work_.rows;
    const int row = work_.first_row + begin + t_;
    shared_.slot[t_] = exists ? batch.write_slot[row] : -1;
    shared_.keep[t_] = exists && batch.keep_row != nullptr ? batch.keep_row[row] : -1;
  }

  /// Loads the inputs of `count` rows from row `begin` of the sequence on.
  __device__ __forceinline__ void load(int begin, int count) {
    const int64_t row = work_.first_row + begin;
    const ConstRows z = args_.z;
    const float* qkv_row = args_.scan.qkv.data + row * args_.scan.qkv.stride;
    const float* z_row = z.data + row * z.stride + work_.h * kMixDim + t_;
#pragma unroll 1
    for (int r = 0; r < count; ++r) {
#pragma unroll
      for (int part = 0; part < 3; ++part) {
        copy_float(&input(kPast + r, part), qkv_row + channel_[part]);
      }
      copy_float(&input(kPast + r, 3), z_row);
      qkv_row += args_.scan.qkv.stride;
      z_row += z.stride;
    }
    wait_for_copies();
  }

  /// silu of parts `part` and `part` + 1 of a batch of rows, the convolution's or z. Rows from
  /// `count` on are silu(1).
  __device__ __forceinline__ void activate(int first, int count, int part, float4 weight,
                                           float4 next_weight, float (&out)[2 * kMixBatch]) const {
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      const float4 w = p == 0 ? weight : next_weight;
      float x[kPast + kMixBatch];
#pragma unroll
      for (int i = 0; i < kPast + kMixBatch; ++i) x[i] = input(first + i, part + p);
#pragma unroll
      for (int r = 0; r < kMixBatch; ++r) {
        float sum = fmaf(w.x, x[r], 0.0F);
        sum = fmaf(w.y, x[r + 1], sum);
        sum = fmaf(w.z, x[r + 2], sum);
        sum = fmaf(w.w, x[r + 3], sum);
        if (part + p == 3) sum = x[r + kPast];
        out[p * kMixBatch + r] = first + r < count ? sum : 1.0F;
      }
    }
    silu_side_by_side(out);
  }

  /// What the column warps need of rows `first` .. of the group, and the gates of the norm.
  __device__ __forceinline__ void prepare(int first, int count) {
    const int batch = first / kMixBatch;
#pragma unroll 1
    for (int part = 0; part < 4; part += 2) {
      const bool keys = part == 0;
      float both[2 * kMixBatch];
      activate(first, count, part, keys ? weight_[0] : weight_[2], weight_[1], both);
      auto* const one = keys ? shared_.q : shared_.v;
      auto* const other = keys ? shared_.k : shared_.gate;
#pragma unroll
      for (int r = 0; r < kMixBatch; ++r) {
        one[first + r][t_] = both[r];
        other[first + r][t_] = both[kMixBatch + r];
      }
      if (keys) {
        named_barrier_sync(kRowWarps, kRowThreads);
        normalize(first + warp_, batch, count);
      }
    }
    named_barrier_arrive(kValuesOfBatch + batch, kValuesThreads);
  }

  /// Normalises q and k of a row, half a warp each, and tells the column warps.
  __device__ __forceinline__ void normalize(int row, int batch, int count) const {
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
    named_barrier_arrive(kKeysOfBatch + batch, kKeysThreads);
    if (row < count) {
      float kq = 0;
#pragma unroll
      for (int i = 0; i < kMixDim / 16; ++i) {
        kq = fmaf(x[i], __shfl_xor_sync(kFullWarp, x[i], 16), kq);
      }
      kq = tree_of_16(kq);
      if (lane_ == 0) shared_.kq[row] = kq;
    }
  }

  /// Writes the convolution's state after rows that store it.
  __device__ __forceinline__ void write_states(int begin, int count) {
    const SlotArgs& state = args_.conv_state;
    if (!stores_) return;
    // The last block that reads a k head of a sequence writes the states of its convolution.
    if (begin == 0) {
      if (counts()) {
        const GdnDims& dims = args_.scan.dims;
        const auto readers = static_cast<uint32_t>(dims.n_v_heads / dims.n_k_heads);
        shared_.last_reader = arrived_ + 1 == readers ? 1 : 0;
        if (shared_.last_reader != 0) *barrier_counter() = 0;
      }
      named_barrier_sync(kRowWarps, kRowThreads);
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

  /// The gated norm of row r of the group, row `row` of the step, and its rounding, by one warp.
  __device__ __forceinline__ void complete(int r, int row) const {
    const GdnScanArgs& scan = args_.scan;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kMixDim; i += 16) {
      const float x = shared_.out[r][i + lane_ % 16];
      sum = fmaf(x, x, sum);
    }
    const float scale = 1.0F / sqrtf(tree_of_16(sum) / static_cast<float>(kMixDim) + args_.eps);
    float y[kOutputBlocks];
    float* const out = scan.out.data + row * scan.out.stride + int64_t{kMixDim} * work_.h + lane_;
#pragma unroll
    for (int i = 0; i < kOutputBlocks; ++i) {
      const int c = i * kWarp + lane_;
      y[i] = shared_.out[r][c] * scale * norm_[i] * shared_.gate[r][c];
      out[i * kWarp] = y[i];
    }
    if (args_.rounded.q != nullptr) {
      RoundedLane rounded[kOutputBlocks];
      round_lanes(y, rounded);
#pragma unroll
      for (int i = 0; i < kOutputBlocks; ++i) {
        put_block_of_row(rounded[i], lane_, row, work_.h * kOutputBlocks + i,
                         scan.dims.n_v_heads * kOutputBlocks, args_.rounded);
      }
    }
    const int keep = shared_.keep[r];
    if (keep < 0) return;
    float* const kept = scan.state.rows + keep * scan.state.row_stride;
    float* const corrections = kept + kept_corrections(scan.dims, work_.h);
    float* const keys = kept + kept_k(scan.dims, work_.k_head);
#pragma unroll
    for (int c = 0; c < kMixDim; c += kWarp) {
      corrections[c + lane_] = shared_.delta[r][c + lane_];
      if (leads_) keys[c + lane_] = shared_.k[r][c + lane_];
    }
    if (lane_ == 0) kept[kept_decay(scan.dims, work_.h)] = shared_.decay[r];
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
  float norm_[kOutputBlocks];  ///< of channel lane_ of each block of 32
  uint32_t arrived_ = 0;
};

}  // namespace

/// Grid: [v heads, sequences]. Dynamic shared memory: GdnMixRowsShared.
CHIMERE_KERNEL(gdn_decode_128_rows, kMixRowsThreads, GdnMixArgs, args) {
  CHIMERE_DYNAMIC_SHARED(GdnMixRowsShared, shared);
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
  if (threadIdx.x < kColumnThreads) {
    compute_columns(args, *shared, work);
  } else {
    RowWarps(args, *shared, work).run();
  }
}

}  // namespace chimere::kernels::cuda
