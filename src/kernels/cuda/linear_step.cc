#include "kernels/cuda/linear_step.h"

#include <algorithm>

#include "kernels/cuda/linear_step_args.h"
#include "kernels/cuda/pack_weights.h"
#include "kernels/cuda/packed_layout.h"
#include "kernels/dot_rule.h"

namespace chimere::kernels::cuda {
namespace {

constexpr Kernel kRoundRows = {"rounding", "round_rows"};
constexpr Kernel kLinearStep1 = {"linear_step", "linear_step_1"};
constexpr Kernel kLinearStep2 = {"linear_step", "linear_step_2"};
constexpr Kernel kLinearStep4 = {"linear_step", "linear_step_4"};
constexpr Kernel kLinearStep8 = {"linear_step", "linear_step_8"};

constexpr Kernel kLinearStepByWarps = {"linear_step", "linear_step_by_warps"};

const Kernel& kernel_for(const LinearStepPlan& plan) {
  if (plan.by_warps) return kLinearStepByWarps;
  switch (plan.rows) {
    case 1:
      return kLinearStep1;
    case 2:
      return kLinearStep2;
    case 4:
      return kLinearStep4;
    default:
      return kLinearStep8;
  }
}

uint32_t ceil_div(int64_t a, int64_t b) { return static_cast<uint32_t>((a + b - 1) / b); }

void launch(Stream& stream, int multiprocessors, ConstMatrixView x, const RoundedRows& rounded,
            const RowSet& rows, const uint32_t* codebook, std::span<const LinearJob> jobs) {
  int64_t outputs = 0;
  for (const LinearJob& job : jobs) outputs += job.w.n_out;
  const LinearStepPlan plan = plan_linear_step(outputs, rows.count, multiprocessors);
  LinearStepArgs args = {};
  args.x = x.data;
  args.x_stride = x.stride;
  args.rounded = rounded;
  args.row_ids = rows.ids;
  args.codebook = codebook;
  args.rows = rows.count;
  args.n_in = static_cast<int32_t>(x.cols);
  args.n_jobs = static_cast<int32_t>(jobs.size());
  args.passes = plan.passes;
  const int64_t outputs_of_block =
      int64_t{kLinearStepOutputs} * plan.passes / (plan.by_warps ? 2 : 1);
  uint32_t blocks = 0;
  int codebook_words = 0;
  for (size_t j = 0; j < jobs.size(); ++j) {
    const LinearJob& job = jobs[j];
    args.jobs[j] = {static_cast<const uint8_t*>(job.w.data),
                    packed_row_bytes(job.w.type, job.w.n_in),
                    job.y.data,
                    job.y.stride,
                    static_cast<int32_t>(job.w.type),
                    static_cast<int32_t>(job.w.n_out),
                    job.accumulate ? 1 : 0,
                    static_cast<int32_t>(blocks)};
    blocks += ceil_div(job.w.n_out, outputs_of_block);
    codebook_words = std::max(codebook_words, codebook_place(job.w.type).words);
  }
  stream.launch(kernel_for(plan),
                {.grid = {blocks, ceil_div(rows.count, plan.rows)},
                 .block = {kLinearStepThreads},
                 .shared_bytes = static_cast<uint32_t>(4 * codebook_words),
                 .overlaps_previous = true},
                args);
}

}  // namespace

LinearStepPlan plan_linear_step(int64_t outputs, int rows, int multiprocessors) {
  LinearStepPlan plan;
  while (plan.rows < 8 && plan.rows < rows) plan.rows *= 2;
  // Enough blocks for a wave of four on each multiprocessor; beyond that a block does more, so that
  // it fetches a codebook and its rows less often.
  if (plan.rows > 1) return plan;
  const int64_t blocks = outputs / kLinearStepOutputs;
  plan.by_warps = blocks < int64_t{2} * multiprocessors;
  plan.passes =
      static_cast<int>(std::clamp<int64_t>(blocks / (int64_t{4} * multiprocessors), 1, 4));
  return plan;
}

int64_t rounded_bytes(int64_t rows, int64_t n) {
  return rows * (n + n / kActivationBlock * static_cast<int64_t>(sizeof(RoundedBlock)));
}

RoundedRows rounded_rows_at(uint8_t* memory, int64_t rows, int64_t n) {
  return {reinterpret_cast<int8_t*>(memory), reinterpret_cast<RoundedBlock*>(memory + rows * n)};
}

void round_rows(Stream& stream, ConstMatrixView x, const RoundedRows& rounded) {
  const RoundRowsArgs args = {x.data, x.stride, rounded, static_cast<int32_t>(x.rows),
                              static_cast<int32_t>(x.cols)};
  stream.launch(kRoundRows,
                {.grid = {ceil_div(x.rows * x.cols, kRoundThreads)},
                 .block = {kRoundThreads},
                 .overlaps_previous = true},
                args);
}

void linear_step(Stream& stream, int multiprocessors, ConstMatrixView x, const RoundedRows& rounded,
                 const RowSet& rows, const uint32_t* codebook, std::span<const LinearJob> jobs) {
  for (size_t begin = 0; begin < jobs.size(); begin += kMaxLinearJobs) {
    const size_t count = std::min<size_t>(kMaxLinearJobs, jobs.size() - begin);
    launch(stream, multiprocessors, x, rounded, rows, codebook, jobs.subspan(begin, count));
  }
}

}  // namespace chimere::kernels::cuda
