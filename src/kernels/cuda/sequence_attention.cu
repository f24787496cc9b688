// Ops::attend_sequences. A block takes 16 consecutive rows and one head, and passes twice over the
// keys that any of them sees: for the largest score of each row, then for weights, sums and values.
// Rows of several sequences may share a block; each uses its own keys alone. Every sum is a chain
// of one thread, in the order of the oracle.
#include "kernels/cuda/dot16.h"
#include "kernels/cuda/language.h"
#include "kernels/cuda/ptx/dependent_launch.h"
#include "kernels/cuda/sequence_attention_args.h"
#include "kernels/math.h"

namespace chimere::kernels::cuda {

CHIMERE_KERNEL(rotate_heads, kSequenceThreads, RotateHeadsArgs, args) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int row = static_cast<int>(blockIdx.x);
  if (args.row_position[row] < 0) return;
  const int half = args.rope_dims / 2;
  const float* cos_sin = args.rope + static_cast<int64_t>(row) * args.rope_dims;
  for (int i = static_cast<int>(threadIdx.x); i < args.heads * half; i += kSequenceThreads) {
    float* x = args.x.data + row * args.x.stride + i / half * args.head_dim + i % half;
    const float c = cos_sin[i % half];
    const float s = cos_sin[half + i % half];
    const float low = x[0];
    const float high = x[half];
    x[0] = fmaf(low, c, -(high * s));
    x[half] = fmaf(high, c, low * s);
  }
}

namespace {

/// The rows that a query sees.
struct SeenRows {
  int begin;
  int end;
  int first;  ///< row of the sequence's position 0
};

__device__ __forceinline__ SeenRows seen_by(const AttendSequencesArgs& args, int row) {
  const int position = row < args.rows ? args.row_position[row] : -1;
  if (position < 0) return {0, 0, 0};
  const int first = row - position;
  const int all = args.row_visible[row];
  int begin = 0;
  int end = all;
  if (args.window > 0) {
    begin = position > args.window ? position - args.window : 0;
    end = position + args.window + 1 < all ? position + args.window + 1 : all;
  }
  return {first + begin, first + end, first};
}

/// to[r, stride] = the head's rows [first, first + count), zeros from row `end` on.
__device__ __forceinline__ void load_head(const ConstRows& from, int64_t column, int first,
                                          int count, int end, int n, float* to, int stride) {
  for (int i = static_cast<int>(threadIdx.x); i < count * n; i += kSequenceThreads) {
    const int row = first + i / n;
    to[i / n * stride + i % n] = row < end ? from.data[row * from.stride + column + i % n] : 0;
  }
}

__device__ __forceinline__ float score_of(const AttendSequencesArgs& args, const float* q,
                                          const float* k, float slope, int row, int key) {
  float dot = 0;
  for (int d = 0; d < args.head_dim; ++d) dot = fmaf(q[d], k[d], dot);
  const float score = dot * args.scale;
  if (args.alibi_slopes == nullptr) return score;
  const int distance = row > key ? row - key : key - row;
  return fmaf(-slope, static_cast<float>(distance), score);
}

}  // namespace

CHIMERE_KERNEL(attend_sequences, kSequenceThreads, AttendSequencesArgs, args) {
  constexpr int kThreadsOfQuery = kSequenceThreads / kSequenceQueries;
  constexpr int kOwnKeys = kSequenceKeys / kThreadsOfQuery;
  constexpr int kOwnValues = kSequenceQueries * kMostSequenceHeadDim / kSequenceThreads;
  constexpr int kOwnSums = kSequenceQueries * 16 / kSequenceThreads;
  CHIMERE_DYNAMIC_SHARED(float, queries);
  __shared__ SeenRows seen[kSequenceQueries];
  __shared__ float totals[kSequenceQueries];
  const int n = args.head_dim;
  float* const keys = queries + kSequenceQueries * n;
  float* const values = keys + kSequenceKeys * (n + 1);
  float* const weights = values + kSequenceKeys * n;
  const int thread = static_cast<int>(threadIdx.x);
  const int first_row = static_cast<int>(blockIdx.x) * kSequenceQueries;
  const int head = static_cast<int>(blockIdx.y);
  const int64_t column = static_cast<int64_t>(head) * n;
  const int64_t kv_column = static_cast<int64_t>(head / args.group) * n;
  const float slope = args.alibi_slopes == nullptr ? 0 : args.alibi_slopes[head];
  wait_for_previous_kernel();
  let_next_kernel_start();
  if (thread < kSequenceQueries) seen[thread] = seen_by(args, first_row + thread);
  load_head(args.q, column, first_row, kSequenceQueries, args.rows, n, queries, n);
  __syncthreads();
  int begin = args.rows;
  int end = 0;
  for (int i = 0; i < kSequenceQueries; ++i) {
    if (seen[i].begin == seen[i].end) continue;
    begin = seen[i].begin < begin ? seen[i].begin : begin;
    end = seen[i].end > end ? seen[i].end : end;
  }
  const int query = thread / kThreadsOfQuery;
  const SeenRows own = seen[query];
  const float* const q = queries + query * n;
  const int row = first_row + query;

  float largest = -INFINITY;
  for (int tile = begin; tile < end; tile += kSequenceKeys) {
    load_head(args.k, kv_column, tile, kSequenceKeys, end, n, keys, n + 1);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kOwnKeys; ++j) {
      const int key = thread % kThreadsOfQuery + j * kThreadsOfQuery;
      if (tile + key < own.begin || tile + key >= own.end) continue;
      const float s = score_of(args, q, keys + key * (n + 1), slope, row, tile + key);
      largest = s > largest ? s : largest;
    }
    __syncthreads();
  }
  for (int h = kThreadsOfQuery / 2; h > 0; h /= 2) {
    const float other = __shfl_xor_sync(kFullWarp, largest, h);
    largest = other > largest ? other : largest;
  }

  float value[kOwnValues];
  float sum[kOwnSums];
#pragma unroll
  for (int i = 0; i < kOwnValues; ++i) value[i] = 0;
#pragma unroll
  for (int i = 0; i < kOwnSums; ++i) sum[i] = 0;
  for (int tile = begin; tile < end; tile += kSequenceKeys) {
    load_head(args.k, kv_column, tile, kSequenceKeys, end, n, keys, n + 1);
    load_head(args.v, kv_column, tile, kSequenceKeys, end, n, values, n);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kOwnKeys; ++j) {
      const int key = thread % kThreadsOfQuery + j * kThreadsOfQuery;
      if (tile + key < own.begin || tile + key >= own.end) continue;
      const float s = score_of(args, q, keys + key * (n + 1), slope, row, tile + key);
      weights[query * kSequenceKeys + key] = exp_f32(s - largest);
    }
    __syncthreads();
    // Partial sum j of a query adds the positions p with p mod 16 = j.
#pragma unroll
    for (int i = 0; i < kOwnSums; ++i) {
      const int of = (thread + i * kSequenceThreads) / 16;
      const SeenRows s = seen[of];
      const int from = tile > s.begin ? tile : s.begin;
      const int to = tile + kSequenceKeys < s.end ? tile + kSequenceKeys : s.end;
      const int lane = (thread + i * kSequenceThreads) % 16;
      for (int p = from + (lane - (from - s.first)) % 16; p < to; p += 16) {
        if (p < from) continue;
        sum[i] = sum[i] + weights[of * kSequenceKeys + p - tile];
      }
    }
#pragma unroll
    for (int i = 0; i < kOwnValues; ++i) {
      const int element = thread + i * kSequenceThreads;
      if (element >= kSequenceQueries * n) break;
      const int of = element / n;
      const int from = tile > seen[of].begin ? tile : seen[of].begin;
      const int to = tile + kSequenceKeys < seen[of].end ? tile + kSequenceKeys : seen[of].end;
      const float* v = values + element % n;
      for (int p = from - tile; p < to - tile; ++p) {
        value[i] = fmaf(weights[of * kSequenceKeys + p], v[p * n], value[i]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kOwnSums; ++i) {
    const float total = tree_of_16(sum[i]);
    const int place = thread + i * kSequenceThreads;
    if (place % 16 == 0) totals[place / 16] = total;
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kOwnValues; ++i) {
    const int element = thread + i * kSequenceThreads;
    if (element >= kSequenceQueries * n) break;
    const int of = element / n;
    if (seen[of].begin == seen[of].end) continue;
    args.out.data[(first_row + of) * args.out.stride + column + element % n] =
        value[i] / totals[of];
  }
}

}  // namespace chimere::kernels::cuda
