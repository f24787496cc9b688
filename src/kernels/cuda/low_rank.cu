// Adapters: y += factor · B (A x) for the rows of a step that have some, with the bits of
// docs/numerics.md ("Adapters"). Two launches whatever the number of rows, sequences and adapters:
// low_rank_inner computes A x, one block per row and job, one half warp per row of A;
// low_rank_outputs adds B (A x), one thread per output. Blocks of rows without adapters end at
// once. Bytes: a row reads A and B of its own adapters, from L2 after the first of their rows.
#include "kernels/cuda/dot16.h"
#include "kernels/cuda/language.h"
#include "kernels/cuda/low_rank_args.h"
#include "kernels/cuda/ptx/dependent_launch.h"

namespace chimere::kernels::cuda {
namespace {

struct RowUses {
  const AdapterUseArgs* begin;
  const AdapterUseArgs* end;
};

__device__ __forceinline__ RowUses uses_of(const LowRankArgs& args, int row) {
  const int step_row = args.row_ids == nullptr ? row : args.row_ids[row];
  return {args.uses + args.begin[step_row], args.uses + args.begin[step_row + 1]};
}

}  // namespace

CHIMERE_KERNEL(low_rank_inner, kLowRankThreads, LowRankArgs, args) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int row = static_cast<int>(blockIdx.x);
  const LowRankJob& job = args.jobs[blockIdx.y];
  const RowUses uses = uses_of(args, row);
  const float* x = args.x + row * args.x_stride;
  float* inner =
      args.inner + (static_cast<int64_t>(blockIdx.y) * args.rows + row) * args.inner_stride;
  const int lane = static_cast<int>(threadIdx.x) % 16;
  const int half_warp = static_cast<int>(threadIdx.x) / 16;
  constexpr int kHalfWarps = kLowRankThreads / 16;
  for (const AdapterUseArgs* use = uses.begin; use != uses.end; ++use) {
    const LowRankEntry& entry = job.entries[use->adapter];
    // Both halves of a warp take part in the tree.
    const int rounds = (entry.rank + kHalfWarps - 1) / kHalfWarps;
    for (int round = 0; round < rounds; ++round) {
      const int j = round * kHalfWarps + half_warp;
      float s = 0;
      if (j < entry.rank) {
        const float* a = entry.a + static_cast<int64_t>(j) * args.n_in;
        for (int i = lane; i < args.n_in; i += 16) s = fmaf(a[i], x[i], s);
      }
      s = tree_of_16(s);
      if (j < entry.rank && lane == 0) inner[j] = s;
    }
    inner += entry.rank;
  }
}

CHIMERE_KERNEL(low_rank_outputs, kLowRankThreads, LowRankArgs, args) {
  wait_for_previous_kernel();
  let_next_kernel_start();
  const int row = static_cast<int>(blockIdx.y);
  const LowRankJob& job = args.jobs[blockIdx.z];
  const int o = static_cast<int>(blockIdx.x) * kLowRankThreads + static_cast<int>(threadIdx.x);
  if (o >= job.n_out) return;
  const RowUses uses = uses_of(args, row);
  if (uses.begin == uses.end) return;
  const float* inner =
      args.inner + (static_cast<int64_t>(blockIdx.z) * args.rows + row) * args.inner_stride;
  float* y = job.y + row * job.y_stride + o;
  float sum = *y;
  for (const AdapterUseArgs* use = uses.begin; use != uses.end; ++use) {
    const LowRankEntry& entry = job.entries[use->adapter];
    if (entry.rank == 0) continue;
    const float* b = entry.b + job.first_row + o;
    float chain = 0;
    for (int j = 0; j < entry.rank; ++j) chain = fmaf(b[j * entry.rows], inner[j], chain);
    sum = fmaf(use->scale * entry.scale * job.scale, chain, sum);
    inner += entry.rank;
  }
  *y = sum;
}

}  // namespace chimere::kernels::cuda
