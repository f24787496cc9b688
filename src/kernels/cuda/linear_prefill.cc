#include "kernels/cuda/linear_prefill.h"

#include <algorithm>
#include <vector>

#include "kernels/cuda/linear_prefill_args.h"
#include "kernels/cuda/pack_weights.h"
#include "kernels/cuda/packed_layout.h"
#include "kernels/dot_rule.h"

namespace chimere::kernels::cuda {
namespace {

constexpr Kernel kLinearPrefill = {"linear_prefill", "linear_prefill"};
constexpr Kernel kLinearPrefillFloats = {"linear_prefill", "linear_prefill_floats"};
constexpr Kernel kLinearPrefillFewFloats = {"linear_prefill", "linear_prefill_few_floats"};

uint32_t tiles_of(int64_t n, int tile) { return static_cast<uint32_t>((n + tile - 1) / tile); }

/// Launches jobs of one kind: with float weights, or with quantised ones.
void launch(Stream& stream, bool floats, LinearPrefillArgs args, std::span<const LinearJob> jobs) {
  args.n_jobs = static_cast<int32_t>(jobs.size());
  const bool few = args.rows <= kFewFloatRows;
  const int float_tile = few ? kFewFloatTile : kFloatTile;
  uint32_t tiles = 0;
  int codebook_words = 0;
  for (size_t j = 0; j < jobs.size(); ++j) {
    const LinearJob& job = jobs[j];
    args.jobs[j] = {static_cast<const uint8_t*>(job.w.data),
                    packed_row_bytes(job.w.type, args.n_in),
                    job.y.data,
                    job.y.stride,
                    static_cast<int32_t>(job.w.type),
                    static_cast<int32_t>(job.w.n_out),
                    job.accumulate ? 1 : 0,
                    job.scale,
                    static_cast<int32_t>(tiles)};
    tiles += tiles_of(job.w.n_out, floats ? float_tile : kTileOutputs);
    codebook_words = std::max(codebook_words, codebook_place(job.w.type).words);
  }
  if (floats) {
    stream.launch(few ? kLinearPrefillFewFloats : kLinearPrefillFloats,
                  {.grid = {tiles_of(args.rows, float_tile), tiles},
                   .block = {kFloatTileThreads},
                   .overlaps_previous = true},
                  args);
    return;
  }
  stream.launch(kLinearPrefill,
                {.grid = {tiles_of(args.rows, kTileRows), tiles},
                 .block = {kTileThreads},
                 .shared_bytes = static_cast<uint32_t>(kTileSharedBytes + 4 * codebook_words),
                 .overlaps_previous = true},
                args);
}

}  // namespace

void linear_prefill(Stream& stream, ConstMatrixView x, const HalfRows& halves, const RowSet& rows,
                    const uint32_t* codebook, std::span<const LinearJob> jobs) {
  LinearPrefillArgs args = {};
  args.halves = halves;
  args.x = x.data;
  args.x_stride = x.stride;
  args.row_ids = rows.ids;
  args.codebook = codebook;
  args.rows = rows.count;
  args.n_in = static_cast<int32_t>(x.cols);
  for (const bool floats : {true, false}) {
    std::vector<LinearJob> of_kind;
    for (const LinearJob& job : jobs) {
      if (takes_integer_dot(job.w.type) != floats) of_kind.push_back(job);
    }
    const std::span<const LinearJob> all(of_kind);
    for (size_t begin = 0; begin < all.size(); begin += kMaxPrefillJobs) {
      launch(stream, floats, args,
             all.subspan(begin, std::min<size_t>(kMaxPrefillJobs, all.size() - begin)));
    }
  }
}

}  // namespace chimere::kernels::cuda
