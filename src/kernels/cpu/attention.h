// Ops::qk_norm_rope_append and Ops::attend on the CPU: the layout of KV pages and the division of
// work.
#ifndef CHIMERE_KERNELS_CPU_ATTENTION_H_
#define CHIMERE_KERNELS_CPU_ATTENTION_H_

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/api.h"
#include "kernels/cpu/vector_kernels.h"
#include "kernels/cpu/worker_scratch.h"
#include "kernels/rope.h"

namespace chimere::kernels::cpu {

/// A page holds the keys of every KV head, then the values of every KV head (vector_kernels.h).
class Attention {
 public:
  Attention(ThreadPool& pool, const VectorKernels& kernels)
      : pool_(pool), kernels_(kernels), scratch_(pool.size()) {}

  /// See Ops::kv_page_bytes.
  static int64_t page_bytes(const AttentionShape& shape, DType k_type, DType v_type);
  /// See Ops::qk_norm_rope_append.
  void append(const BatchView& batch, const AttentionShape& shape, const float* q_norm,
              const float* k_norm, float eps, MatrixView qg, ConstMatrixView k, ConstMatrixView v,
              const KvView& kv);
  /// See Ops::attend.
  void attend(const BatchView& batch, const AttentionShape& shape, ConstMatrixView qg,
              const KvView& kv, MatrixView out);

 private:
  /// The arguments of attend().
  struct Call {
    const BatchView& batch;
    const AttentionShape& shape;
    ConstMatrixView qg;
    const KvView& kv;
    MatrixView out;
    int group;            ///< queries (heads) of a row for each KV head
    int64_t part_floats;  ///< per query
  };
  /// Consecutive queries of one sequence; query i of the sequence is head i % group of its row i /
  /// group.
  struct Block {
    int32_t sequence;
    int32_t row_begin;  ///< of the sequence
    int32_t first_query;
    int32_t n_queries;
    int64_t first_split;  ///< the first one visible to its first row
    int64_t n_splits;     ///< from there to the last one visible to its last row
    int64_t
        first_part;  ///< index of its first part, [KV head][split][query], in units of part_floats
  };
  struct SplitTask {
    int32_t block;
    int32_t kv_head;
    int64_t split;
  };

  static int32_t row_of(const Call& call, const Block& block, int query);
  static int visible(const Call& call, const Block& block, int query, int64_t split);
  static int hidden(const Call& call, const Block& block, int query, int64_t split);
  static int64_t first_split(const Call& call, const Block& block, int query);
  int64_t plan(const Call& call);
  static int64_t scratch_floats(const Call& call);
  void attend_split(const Call& call, const Block& block, int kv_head, int64_t split,
                    float* scratch, float* const* parts) const;
  void finish(const Call& call, const Block& block, int kv_head, int query, float* part) const;
  void attend_whole(const Call& call, const Block& block, int kv_head, int worker);
  void attend_in_splits(const Call& call, int64_t n_parts, int64_t ns);

  ThreadPool& pool_;
  const VectorKernels& kernels_;
  WorkerScratch scratch_;
  AlignedFloats parts_;
  RopeTable rope_;
  std::vector<Block> blocks_;
  std::vector<SplitTask> tasks_;
};

}  // namespace chimere::kernels::cpu

#endif  // CHIMERE_KERNELS_CPU_ATTENTION_H_
