#include "kernels/cpu/low_rank.h"

#include <algorithm>

namespace chimere::kernels::cpu {
namespace {

constexpr int64_t kUnitRows = 64;
/// Outputs per unit of work.
constexpr int64_t kLowRankOutputs = 256;
/// Below so many multiplications one thread is faster.
constexpr int64_t kInlineProducts = 32768;

void multiply(const MatmulKernels& kernels, const WeightView& w, const float* const* x,
              float* const* y, int64_t n) {
  FloatProduct p;
  p.w = static_cast<const uint8_t*>(w.data);
  p.w_stride = row_bytes(w.type, w.n_in);
  p.n_in = w.n_in;
  p.n_out = w.n_out;
  p.x = x;
  p.y = y;
  p.n_rows = n;
  const FloatKernel kernel = w.type == DType::kF32   ? kernels.f32
                             : w.type == DType::kF16 ? kernels.f16
                                                     : kernels.bf16;
  kernel(p);
}

}  // namespace

int64_t LowRankChange::inner() const {
  int64_t sum = 0;
  for (const AdapterUse& use : uses) {
    if (const LowRankPair* pair = adapters.find(w, use)) sum += pair->rank();
  }
  return sum;
}

void low_rank_inner(const MatmulKernels& kernels, const LowRankChange& change,
                    const float* const* x, int64_t n, float* inner, LowRankScratch& scratch) {
  const int64_t width = change.inner();
  int64_t at = 0;
  scratch.out.resize(static_cast<size_t>(n));
  for (const AdapterUse& use : change.uses) {
    const LowRankPair* const pair = change.adapters.find(change.w, use);
    if (pair == nullptr) continue;
    for (int64_t r = 0; r < n; ++r) scratch.out[static_cast<size_t>(r)] = inner + r * width + at;
    multiply(kernels, pair->a_of(change.w), x, scratch.out.data(), n);
    at += pair->rank();
  }
}

void low_rank_outputs(const MatmulKernels& kernels, const LowRankChange& change, float factor,
                      const float* inner, int64_t n, int64_t begin, int64_t end, float* const* y,
                      LowRankScratch& scratch) {
  const int64_t width = change.inner();
  int64_t at = 0;
  scratch.inner.resize(static_cast<size_t>(n));
  for (const AdapterUse& use : change.uses) {
    const LowRankPair* const pair = change.adapters.find(change.w, use);
    if (pair == nullptr) continue;
    for (int64_t r = 0; r < n; ++r) scratch.inner[static_cast<size_t>(r)] = inner + r * width + at;
    LowRankProduct p;
    p.type = pair->b.type;
    p.b = pair->b_at(change.w.target_row + begin);
    p.b_stride = pair->b_stride();
    p.rank = pair->rank();
    p.n_out = end - begin;
    p.u = scratch.inner.data();
    p.y = y;
    p.n_rows = n;
    p.scale = low_rank_scale(use, *pair, factor);
    kernels.add_low_rank(p);
    at += pair->rank();
  }
}

void LowRankProducts::add(ConstMatrixView x, std::span<const LinearJob> jobs,
                          const StepAdapters& adapters, bool wanted) {
  units_.clear();
  int64_t inner = 0;
  int64_t products = 0;
  for (const LinearJob& job : jobs) {
    for (const StepAdapters::Segment& segment : adapters.segments(wanted)) {
      const int64_t width = LowRankChange{adapters, segment.uses, job.w}.inner();
      if (width == 0) continue;
      const auto rows = static_cast<int64_t>(segment.rows.size());
      for (int64_t first = 0; first < rows; first += kUnitRows) {
        const int64_t count = std::min(kUnitRows, rows - first);
        units_.push_back({&job, &segment, static_cast<size_t>(first), count, width, inner});
        inner += count * width;
        products += count * width * (job.w.n_in + job.w.n_out);
      }
    }
  }
  if (units_.empty()) return;
  inner_.reserve(static_cast<size_t>(inner));
  const auto find_inner = [&](const Unit& unit, LowRankScratch& scratch) {
    scratch.x.clear();
    for (int64_t r = 0; r < unit.count; ++r) scratch.x.push_back(x.row(unit.row(r)));
    low_rank_inner(kernels_, {adapters, unit.segment->uses, unit.job->w}, scratch.x.data(),
                   unit.count, inner_.data() + unit.inner_at, scratch);
  };
  const auto add_outputs = [&](const Unit& unit, int64_t begin, int64_t end,
                               LowRankScratch& scratch) {
    scratch.y.clear();
    for (int64_t r = 0; r < unit.count; ++r) {
      scratch.y.push_back(unit.job->y.row(unit.row(r)) + begin);
    }
    low_rank_outputs(kernels_, {adapters, unit.segment->uses, unit.job->w}, unit.job->scale,
                     inner_.data() + unit.inner_at, unit.count, begin, end, scratch.y.data(),
                     scratch);
  };
  const auto n_units = static_cast<int64_t>(units_.size());
  const bool alone = products <= kInlineProducts;
  // With a unit or more for each thread, the threads need not wait for each other in between.
  const bool whole = alone || n_units >= 2 * int64_t{pool_.size()};
  pool_.parallel_for(n_units, alone ? n_units : 1, [&](int64_t begin, int64_t end, int worker) {
    LowRankScratch& scratch = scratch_[static_cast<size_t>(worker)];
    for (int64_t u = begin; u < end; ++u) {
      const Unit& unit = units_[static_cast<size_t>(u)];
      find_inner(unit, scratch);
      if (whole) add_outputs(unit, 0, unit.job->w.n_out, scratch);
    }
  });
  if (whole) return;
  tiles_.clear();
  for (size_t u = 0; u < units_.size(); ++u) {
    const int64_t n_out = units_[u].job->w.n_out;
    for (int64_t o = 0; o < n_out; o += kLowRankOutputs) {
      tiles_.push_back({u, o, std::min(o + kLowRankOutputs, n_out)});
    }
  }
  pool_.parallel_for(static_cast<int64_t>(tiles_.size()), 1,
                     [&](int64_t begin, int64_t end, int worker) {
                       for (int64_t t = begin; t < end; ++t) {
                         const LowRankTile& tile = tiles_[static_cast<size_t>(t)];
                         add_outputs(units_[tile.unit], tile.begin, tile.end,
                                     scratch_[static_cast<size_t>(worker)]);
                       }
                     });
}

}  // namespace chimere::kernels::cpu
