#include "kernels/cpu/linear_engine.h"

#include <algorithm>

#include "kernels/cpu/linear.h"
#include "kernels/cpu/unpacked_iq3_s.h"
#include "kernels/dot_rule.h"

namespace chimere::kernels::cpu {
namespace {

/// Weight rows per unit of work: a multiple of the 16 rows of an unpacked tile, small enough that
/// the threads finish together.
constexpr int64_t kTileOutputs = 32;
/// Below this much weight data, distributing the work costs more than it saves.
constexpr int64_t kInlineBytes = 8192;
constexpr int64_t kInlineRounding = 16384;

const MatmulKernels& kernels_for(CpuIsa isa) {
#ifdef CHIMERE_AVX512_KERNELS
  if (isa == CpuIsa::kAvx512) return avx512::matmul_kernels();
#endif
#if defined(CHIMERE_AVXVNNI_KERNELS) || defined(CHIMERE_AVX512VL_KERNELS)
  if (isa == CpuIsa::kAvxVnni) return avx2::vnni_matmul_kernels();
#endif
#ifdef CHIMERE_AVX2_KERNELS
  if (isa == CpuIsa::kAvx2) return avx2::matmul_kernels();
#endif
#ifdef CHIMERE_NEON_KERNELS
  if (isa != CpuIsa::kGeneric) return neon::matmul_kernels(isa);
#endif
  static_cast<void>(isa);
  return generic::matmul_kernels();
}

int64_t stored_row_bytes(const WeightView& w) {
  return w.type == DType::kIQ3_S_UNPACKED ? unpacked_row_bytes(w.n_in) : row_bytes(w.type, w.n_in);
}

}  // namespace

const uint8_t* weight_row(const WeightView& w, int64_t row) {
  return static_cast<const uint8_t*>(w.data) + row * stored_row_bytes(w);
}

LinearEngine::Impl::Impl(ThreadPool& p, CpuIsa isa)
    : pool(p),
      kernels(kernels_for(isa)),
      workers(static_cast<size_t>(p.size())),
      low_rank(p, kernels) {}

void LinearEngine::Impl::float_product(const WeightView& w, int64_t begin, int64_t end,
                                       const ActivationRows& x, float* const* y,
                                       bool accumulate) const {
  FloatProduct p;
  p.w = w.row(begin);
  p.w_stride = row_bytes(w.type, w.n_in);
  p.n_in = w.n_in;
  p.n_out = end - begin;
  p.x = x.x;
  p.y = y;
  p.n_rows = x.n;
  p.accumulate = accumulate;
  const FloatKernel kernel = w.type == DType::kF32   ? kernels.f32
                             : w.type == DType::kF16 ? kernels.f16
                                                     : kernels.bf16;
  kernel(p);
}

void LinearEngine::Impl::product(const WeightView& w, int64_t begin, int64_t end,
                                 const ActivationRows& x, float* const* y, bool accumulate,
                                 Worker& worker, const uint8_t* next_w) const {
  if (!takes_integer_dot(w.type)) {
    return float_product(w, begin, end, x, y, accumulate);
  }
  const bool unpacked = w.type == DType::kIQ3_S_UNPACKED;
  IntegerProduct p;
  p.w_stride = stored_row_bytes(w);
  p.w = weight_row(w, begin);
  p.n_in = w.n_in;
  p.n_out = end - begin;
  p.x = x.rounded;
  p.y = y;
  p.n_rows = x.n;
  p.accumulate = accumulate;
  p.next_w = next_w;
  p.scratch = worker.scratch.reserve(static_cast<size_t>(scratch_bytes(w.n_in)));
  (unpacked ? kernels.unpacked_iq3_s : kernels.integer[kernel_index(w.type)])(p);
}

void LinearEngine::Impl::scaled_product(const LinearJob& job, const OutputTile& tile,
                                        const ActivationRows& x, Worker& worker,
                                        const uint8_t* next_w) const {
  const int64_t width = tile.end - tile.begin;
  float* const out = worker.out.reserve(static_cast<size_t>(x.n * width));
  for (int64_t r = 0; r < x.n; ++r) worker.y[static_cast<size_t>(r)] = out + r * width;
  product(job.w, tile.begin, tile.end, x, worker.y.data(), false, worker, next_w);
  for (int64_t r = 0; r < x.n; ++r) {
    float* const y = job.y.row(r) + tile.begin;
    for (int64_t i = 0; i < width; ++i) {
      const float v = out[r * width + i] * job.scale;
      y[i] = job.accumulate ? y[i] + v : v;
    }
  }
}

void LinearEngine::Impl::round_rows(ConstMatrixView x) {
  auto round = [&](int64_t begin, int64_t end, int /*worker*/) {
    for (int64_t r = begin; r < end; ++r) kernels.round(x.row(r), x.cols, rounded.rows()[r]);
  };
  if (x.rows * x.cols <= kInlineRounding) return round(0, x.rows, 0);
  pool.parallel_for(x.rows, std::max<int64_t>(1, kInlineRounding / 2 / x.cols), round);
}

void LinearEngine::Impl::linear(ConstMatrixView x, std::span<const LinearJob> jobs) {
  if (x.rows == 0) return;
  bool integer = false;
  ActivationOrders orders;
  int64_t bytes = 0;
  tiles.clear();
  for (size_t j = 0; j < jobs.size(); ++j) {
    const WeightView& w = jobs[j].w;
    integer = integer || takes_integer_dot(w.type);
    add_order(w.type, orders);
    bytes += w.bytes();
    for (int64_t o = 0; o < w.n_out; o += kTileOutputs) {
      tiles.push_back({static_cast<int32_t>(j), o, std::min(o + kTileOutputs, w.n_out)});
    }
  }
  ActivationRows rows;
  rows.n = x.rows;
  x_rows.resize(static_cast<size_t>(x.rows));
  for (int64_t r = 0; r < x.rows; ++r) x_rows[static_cast<size_t>(r)] = x.row(r);
  rows.x = x_rows.data();
  if (integer) {
    rounded.resize(x.rows, x.cols, orders);
    round_rows(x);
    rows.rounded = rounded.rows();
  }
  const auto n_tiles = static_cast<int64_t>(tiles.size());
  const int64_t grain = bytes * x.rows <= kInlineBytes ? n_tiles : 1;
  pool.parallel_for(n_tiles, grain, [&](int64_t begin, int64_t end, int id) {
    Worker& worker = workers[static_cast<size_t>(id)];
    worker.y.resize(static_cast<size_t>(x.rows));
    for (int64_t t = begin; t < end; ++t) {
      const OutputTile& tile = tiles[static_cast<size_t>(t)];
      const LinearJob& job = jobs[static_cast<size_t>(tile.owner)];
      const int64_t next = t + 1;  // a thread's tiles follow each other
      const uint8_t* next_w = nullptr;
      if (next < n_tiles) {
        const OutputTile& after = tiles[static_cast<size_t>(next)];
        next_w = weight_row(jobs[static_cast<size_t>(after.owner)].w, after.begin);
      }
      if (job.scale != 1) {
        scaled_product(job, tile, rows, worker, next_w);
        continue;
      }
      for (int64_t r = 0; r < x.rows; ++r) {
        worker.y[static_cast<size_t>(r)] = job.y.row(r) + tile.begin;
      }
      product(job.w, tile.begin, tile.end, rows, worker.y.data(), job.accumulate, worker, next_w);
    }
  });
}

LinearEngine::LinearEngine(ThreadPool& pool, CpuIsa isa)
    : impl_(std::make_unique<Impl>(pool, isa)) {}
LinearEngine::~LinearEngine() = default;

void LinearEngine::linear(ConstMatrixView x, std::span<const LinearJob> jobs,
                          MatrixAdapters adapters) {
  impl_->linear(x, jobs);
  if (!adapters.none()) impl_->low_rank.add(x, jobs, *adapters.step, adapters.wanted);
}

void LinearEngine::moe_ffn(ConstMatrixView x, std::span<const ExpertWeights> experts,
                           const Routing& routing, const ExpertWeights* shared,
                           const float* shared_gate, const MoeOptions& options, MatrixView y,
                           MatrixAdapters adapters) {
  impl_->moe_ffn(x, experts, routing, shared, shared_gate, options, y, adapters);
}

}  // namespace chimere::kernels::cpu

namespace chimere::kernels {

bool gains_from_unpacking(CpuIsa isa) { return cpu::kernels_for(isa).unpacked_iq3_s != nullptr; }

}  // namespace chimere::kernels
