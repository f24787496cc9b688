#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "kernels/api.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/convolution.h"
#include "kernels/cpu/delta_net.h"
#include "kernels/cpu/for_units.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/sequence_attention.h"
#include "kernels/cpu/state_space.h"
#include "kernels/cpu/unpacked_experts.h"
#include "kernels/cpu/vector_kernels.h"
#include "kernels/cpu/worker_scratch.h"
#include "kernels/ref/vector_ops.h"
#include "quant/quant.h"

namespace chimere::kernels {
namespace {

const cpu::VectorKernels& vector_kernels(CpuIsa isa) {
  switch (isa) {
#ifdef CHIMERE_AVX512_KERNELS
    case CpuIsa::kAvx512:
      return cpu::avx512::vector_kernels();
#endif
#ifdef CHIMERE_AVX2_KERNELS
    case CpuIsa::kAvxVnni:
    case CpuIsa::kAvx2:
      return cpu::avx2::vector_kernels();
#endif
#ifdef CHIMERE_NEON_KERNELS
    case CpuIsa::kNeon:
    case CpuIsa::kDotprod:
    case CpuIsa::kI8mm:
      return cpu::neon::vector_kernels();
#endif
    default:
      return cpu::generic::vector_kernels();
  }
}

class CpuOps final : public Ops {
 public:
  CpuOps(ThreadPool& pool, CpuIsa isa, std::optional<Unpacking> unpacking)
      : pool_(pool),
        unpacking_(gains_from_unpacking(isa) ? std::move(unpacking) : std::nullopt),
        kernels_(vector_kernels(isa)),
        linear_(pool, isa),
        delta_net_(pool, kernels_),
        state_space_(pool, kernels_),
        attention_(pool, kernels_),
        sequence_attention_(pool, kernels_),
        scratch_(pool.size()) {}

  Result<std::unique_ptr<PlacedExperts>> place_experts(std::vector<ExpertWeights> routed,
                                                       std::optional<ExpertWeights> shared,
                                                       ExpertPlacement where) override {
    if (!unpacking_) return Ops::place_experts(std::move(routed), shared, where);
    CHIMERE_TRY(auto placed,
                cpu::UnpackedExperts::create(pool_, std::move(routed), shared, *unpacking_));
    return std::unique_ptr<PlacedExperts>(std::move(placed));
  }

  void embed(const PlacedTable& placed, std::span<const int32_t> tokens, ConstMatrixView vectors,
             MatrixView y) override {
    const WeightView& table = placed.table;
    const auto rows = static_cast<int64_t>(tokens.size());
    cpu::for_units(pool_, rows, rows * table.n_in / 2, [&](int64_t r, int /*worker*/) {
      if (tokens[r] >= 0) {
        quant::decode(table.type, table.row(tokens[r]), y.row(r), table.n_in);
      }
    });
    int64_t next = 0;
    for (int64_t r = 0; r < rows && next < vectors.rows; ++r) {
      if (tokens[r] < 0) std::copy_n(vectors.row(next++), table.n_in, y.row(r));
    }
  }

  Operand rms_norm(ConstMatrixView x, const float* weight, float eps, MatrixView y,
                   StepRows rows) override {
    cpu::for_units(pool_, x.rows, x.rows * x.cols / 8, [&](int64_t r, int /*worker*/) {
      kernels_.rms_norm(x.row(r), weight, eps, x.cols, y.row(r));
    });
    return {y, rows};
  }

  Operand layer_norm(ConstMatrixView x, const float* weight, const float* bias, float eps,
                     MatrixView y, StepRows rows) override {
    cpu::for_units(pool_, x.rows, x.rows * x.cols / 6, [&](int64_t r, int /*worker*/) {
      kernels_.layer_norm(x.row(r), weight, bias, eps, x.cols, y.row(r));
    });
    return {y, rows};
  }

  void add_bias(MatrixView y, const float* bias) override {
    cpu::for_units(pool_, y.rows, y.rows * y.cols / 16, [&](int64_t r, int /*worker*/) {
      float* const row = y.row(r);
      for (int64_t i = 0; i < y.cols; ++i) row[i] += bias[i];
    });
  }

  void attend_sequences(const BatchView& batch, const SequenceAttentionShape& shape, MatrixView q,
                        MatrixView k, ConstMatrixView v, MatrixView out) override {
    sequence_attention_.attend(batch, shape, q, k, v, out);
  }

  void group_rms_norm(ConstMatrixView x, const float* weight, int group, float eps,
                      MatrixView y) override {
    const int64_t groups = x.cols / group;
    cpu::for_units(pool_, x.rows * groups, x.rows * x.cols / 8, [&](int64_t i, int /*worker*/) {
      const int64_t row = i / groups;
      const int64_t begin = i % groups * group;
      kernels_.rms_norm(x.row(row) + begin, weight + begin, eps, group, y.row(row) + begin);
    });
  }

  void causal_conv(const BatchView& batch, const ConvShape& shape, const float* weight,
                   const float* bias, RecurrentView state, MatrixView x) override {
    cpu::Convolution c;
    c.shape = shape;
    c.weight = weight;
    c.bias = bias;
    cpu::convolve(pool_, kernels_, batch, c, state, x);
  }

  void ssd_scan(const BatchView& batch, const SsdShape& shape, const SsdWeights& weights,
                ConstMatrixView xbc, ConstMatrixView dt, RecurrentView state,
                MatrixView out) override {
    state_space_.ssd_scan(batch, shape, weights, xbc, dt, state, out);
  }

  void selective_scan(const BatchView& batch, const SelectiveShape& shape,
                      const SelectiveWeights& weights, const SelectiveInputs& inputs,
                      RecurrentView state, MatrixView out) override {
    state_space_.selective_scan(batch, shape, weights, inputs, state, out);
  }

  void linear(const Operand& x, std::span<const LinearJob> jobs) override {
    linear_.linear(x.x, jobs, {&adapters_, x.rows == StepRows::kWanted});
  }

  void gdn_conv(const BatchView& batch, const GdnShape& shape, const float* weight, float eps,
                RecurrentView state, MatrixView qkv) override {
    delta_net_.conv(batch, shape, weight, eps, state, qkv);
  }

  void gdn_scan(const BatchView& batch, const GdnShape& shape, ConstMatrixView qkv,
                ConstMatrixView alpha, ConstMatrixView beta, const float* a, const float* dt_bias,
                RecurrentView state, MatrixView out) override {
    delta_net_.scan(batch, shape, qkv, alpha, beta, a, dt_bias, state, out);
  }

  void gated_rms_norm(ConstMatrixView x, ConstMatrixView z, const float* weight, int head_dim,
                      float eps, MatrixView y) override {
    const int64_t heads = x.cols / head_dim;
    cpu::for_units(pool_, x.rows * heads, x.rows * x.cols / 2, [&](int64_t i, int /*worker*/) {
      const int64_t row = i / heads;
      const int64_t begin = i % heads * head_dim;
      kernels_.gated_rms_norm(x.row(row) + begin, z.row(row) + begin, weight, eps, head_dim,
                              y.row(row) + begin);
    });
  }

  int64_t kv_page_bytes(const AttentionShape& shape, DType k_type, DType v_type) const override {
    return cpu::Attention::page_bytes(shape, k_type, v_type);
  }
  uint32_t kv_layout() const override { return cpu::kKvLayout; }

  void qk_norm_rope_append(const BatchView& batch, const AttentionShape& shape, const float* q_norm,
                           const float* k_norm, float eps, MatrixView qg, ConstMatrixView k,
                           ConstMatrixView v, KvView kv) override {
    attention_.append(batch, shape, q_norm, k_norm, eps, qg, k, v, kv);
  }

  Operand attend(const BatchView& batch, const AttentionShape& shape, ConstMatrixView qg, KvView kv,
                 MatrixView out) override {
    attention_.attend(batch, shape, qg, kv, out);
    return prepare(out, StepRows::kAll);
  }

  Operand activate(Activation f, MatrixView h, ConstMatrixView up, StepRows rows) override {
    linear_.activate(f, h, up);
    return prepare(h, rows);
  }

  void route(ConstMatrixView logits, const RoutingSpec& spec, Routing routing) override {
    cpu::RouteUnit unit;
    unit.n_experts = static_cast<int>(logits.cols);
    unit.n_used = routing.n_used;
    unit.sigmoid = spec.score == RouterScore::kSigmoid;
    unit.softmax = spec.score == RouterScore::kSoftmax;
    unit.selects_by_logits = spec.selects_by_logits();
    unit.weighs_by_logits = spec.weighs_by_logits();
    unit.normalise = spec.normalise;
    unit.bias = spec.bias;
    unit.n_groups = spec.has_groups() ? spec.n_groups : 0;
    unit.n_groups_used = spec.n_groups_used;
    unit.scale = spec.scale;
    cpu::for_units(pool_, logits.rows, logits.rows * logits.cols, [&](int64_t r, int worker) {
      cpu::RouteUnit row = unit;
      row.logits = logits.row(r);
      row.scratch = scratch_.get(worker, cpu::route_scratch_floats(unit.n_experts));
      row.ids = routing.ids + r * routing.n_used;
      row.weights = routing.weights + r * routing.n_used;
      kernels_.route(row);
    });
  }

  /// Only used when logits are on a GPU (Model::logits_on_gpu()), so the oracle is fast enough.
  void top_logits(ConstMatrixView logits, TokenMask masks, TopLogits top) override {
    ref::top_logits(logits, masks, top);
  }

  void moe_ffn(const Operand& x, const PlacedExperts& experts, const Routing& routing,
               const float* shared_gate, const MoeOptions& options, MatrixView y) override {
    linear_.moe_ffn(x.x, experts.routed, routing, experts.shared ? &*experts.shared : nullptr,
                    shared_gate, options, y, {&adapters_, x.rows == StepRows::kWanted});
  }

 private:
  ThreadPool& pool_;
  const std::optional<Unpacking> unpacking_;
  const cpu::VectorKernels& kernels_;
  cpu::LinearEngine linear_;
  cpu::DeltaNet delta_net_;
  cpu::StateSpace state_space_;
  cpu::Attention attention_;
  cpu::SequenceAttention sequence_attention_;
  cpu::WorkerScratch scratch_;  ///< of route()
};

}  // namespace

std::unique_ptr<Ops> make_cpu_ops(ThreadPool& pool, CpuIsa isa,
                                  std::optional<Unpacking> unpacking) {
  return std::make_unique<CpuOps>(pool, isa, std::move(unpacking));
}

}  // namespace chimere::kernels
