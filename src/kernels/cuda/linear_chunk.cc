#include "kernels/cuda/linear_chunk.h"

#include <algorithm>
#include <vector>

#include "kernels/cuda/linear_chunk_args.h"
#include "kernels/cuda/pack_weights.h"
#include "kernels/cuda/packed_layout.h"
#include "kernels/dot_rule.h"

namespace chimere::kernels::cuda {
namespace {

constexpr Kernel kLinearChunk32 = {"linear_chunk", "linear_chunk_32"};
constexpr Kernel kLinearChunk128 = {"linear_chunk", "linear_chunk_128"};

void launch(Stream& stream, int64_t n_in, const RoundedRows& rounded, const RowSet& rows,
            const uint32_t* codebook, std::span<const LinearJob> jobs) {
  LinearChunkArgs args = {};
  args.rounded = rounded;
  args.row_ids = rows.ids;
  args.codebook = codebook;
  args.rows = rows.count;
  args.n_in = static_cast<int32_t>(n_in);
  args.n_jobs = static_cast<int32_t>(jobs.size());
  int64_t tiles = 0;
  int codebook_words = 0;
  for (size_t j = 0; j < jobs.size(); ++j) {
    const LinearJob& job = jobs[j];
    args.jobs[j] = {static_cast<const uint8_t*>(job.w.data),
                    packed_row_bytes(job.w.type, n_in),
                    job.y.data,
                    job.y.stride,
                    static_cast<int32_t>(job.w.type),
                    static_cast<int32_t>(job.w.n_out),
                    job.accumulate ? 1 : 0,
                    static_cast<int32_t>(tiles)};
    tiles += (job.w.n_out + kChunkOutputs - 1) / kChunkOutputs;
    codebook_words = std::max(codebook_words, codebook_place(job.w.type).words);
  }
  const int columns = plan_linear_chunk(rows.count);
  const int shared = columns == 32 ? chunk_shared_bytes<32>() : chunk_shared_bytes<128>();
  stream.launch(columns == 32 ? kLinearChunk32 : kLinearChunk128,
                {.grid = {static_cast<uint32_t>((rows.count + columns - 1) / columns),
                          static_cast<uint32_t>(tiles)},
                 .block = {kChunkThreads},
                 .shared_bytes = static_cast<uint32_t>(shared + 4 * codebook_words),
                 .overlaps_previous = true},
                args);
}

}  // namespace

int plan_linear_chunk(int rows) { return rows <= 64 ? 32 : 128; }

void linear_chunk(Stream& stream, int multiprocessors, ConstMatrixView x,
                  const RoundedRows& rounded, const RowSet& rows, const uint32_t* codebook,
                  std::span<const LinearJob> jobs) {
  std::vector<LinearJob> of_floats;
  std::vector<LinearJob> of_integers;
  for (const LinearJob& job : jobs) {
    (takes_integer_dot(job.w.type) ? of_integers : of_floats).push_back(job);
  }
  if (!of_floats.empty()) {
    linear_step(stream, multiprocessors, x, rounded, rows, codebook, of_floats);
  }
  const std::span<const LinearJob> all(of_integers);
  for (size_t begin = 0; begin < all.size(); begin += kMaxChunkJobs) {
    launch(stream, x.cols, rounded, rows, codebook,
           all.subspan(begin, std::min<size_t>(kMaxChunkJobs, all.size() - begin)));
  }
}

}  // namespace chimere::kernels::cuda
