#include "quantize/observing_ops.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace chimere::quantize {
namespace {

using namespace kernels;  // NOLINT(google-build-using-namespace): every signature is of
                          // kernels::Ops

class ObservingOps final : public Ops {
 public:
  ObservingOps(std::unique_ptr<Ops> inner, ObserveInputs observe)
      : inner_(std::move(inner)), observe_(std::move(observe)) {}

  void linear(const Operand& x, std::span<const LinearJob> jobs) override {
    for (const LinearJob& job : jobs) observe_(job.w.data, x.x);
    inner_->linear(x, jobs);
  }

  void moe_ffn(const Operand& x, const PlacedExperts& experts, const Routing& routing,
               const float* shared_gate, const MoeOptions& options, MatrixView y) override {
    std::vector<int64_t> chosen;
    for (size_t e = 0; e < experts.routed.size(); ++e) {
      chosen.clear();
      for (int64_t r = 0; r < x.x.rows; ++r) {
        const int32_t* ids = routing.ids + r * routing.n_used;
        if (std::find(ids, ids + routing.n_used, static_cast<int32_t>(e)) != ids + routing.n_used) {
          chosen.push_back(r);
        }
      }
      if (!chosen.empty()) observe_expert(experts.routed[e], x.x, chosen, options.activation);
    }
    if (experts.shared) {
      chosen.clear();
      for (int64_t r = 0; r < x.x.rows; ++r) chosen.push_back(r);
      observe_expert(*experts.shared, x.x, chosen, options.activation);
    }
    inner_->moe_ffn(x, experts, routing, shared_gate, options, y);
  }

  // Everything else is the inner object's.
  Memory& memory() override { return inner_->memory(); }
  Result<WeightView> place(const WeightView& w) override { return inner_->place(w); }
  Result<const float*> place_floats(const float* values, int64_t n) override {
    return inner_->place_floats(values, n);
  }
  Result<std::unique_ptr<PlacedExperts>> place_experts(std::vector<ExpertWeights> routed,
                                                       std::optional<ExpertWeights> shared,
                                                       ExpertPlacement where) override {
    return inner_->place_experts(std::move(routed), shared, where);
  }
  Result<std::unique_ptr<PlacedTable>> place_table(const WeightView& table) override {
    return inner_->place_table(table);
  }
  bool reads_host_weights() const override { return inner_->reads_host_weights(); }
  Result<int32_t> place_adapter(LowRankAdapter adapter) override {
    return inner_->place_adapter(std::move(adapter));
  }
  void drop_adapter(int32_t number) override { inner_->drop_adapter(number); }
  bool adapts_experts() const override { return inner_->adapts_experts(); }
  Status launch_step(const StepInputs& step, const StepOutputs& outputs,
                     const std::function<void()>& pass) override {
    return inner_->launch_step(step, outputs, pass);
  }
  Result<StepOutputs> wait_for_step() override { return inner_->wait_for_step(); }
  Status interleaved_step(const std::function<void()>& steps) override {
    return inner_->interleaved_step(steps);
  }
  bool can_interleave() const override { return inner_->can_interleave(); }
  bool supports_overlap() const override { return inner_->supports_overlap(); }
  int64_t first_steps() const override { return inner_->first_steps(); }
  Operand prepare(ConstMatrixView x, StepRows rows) override { return inner_->prepare(x, rows); }
  void select_rows(ConstMatrixView x, std::span<const int32_t> rows, MatrixView y) override {
    inner_->select_rows(x, rows, y);
  }
  void shift_rows(const BatchView& batch, ConstMatrixView x, RecurrentView state,
                  MatrixView y) override {
    inner_->shift_rows(batch, x, state, y);
  }
  void embed(const PlacedTable& table, std::span<const int32_t> tokens, ConstMatrixView vectors,
             MatrixView y) override {
    inner_->embed(table, tokens, vectors, y);
  }
  Operand rms_norm(ConstMatrixView x, const float* weight, float eps, MatrixView y,
                   StepRows rows) override {
    return inner_->rms_norm(x, weight, eps, y, rows);
  }
  Operand layer_norm(ConstMatrixView x, const float* weight, const float* bias, float eps,
                     MatrixView y, StepRows rows) override {
    return inner_->layer_norm(x, weight, bias, eps, y, rows);
  }
  void scale(MatrixView x, float factor) override { inner_->scale(x, factor); }
  void add_bias(MatrixView y, const float* bias) override { inner_->add_bias(y, bias); }
  void multiply(ConstMatrixView x, MatrixView y) override { inner_->multiply(x, y); }
  void group_rms_norm(ConstMatrixView x, const float* weight, int group, float eps,
                      MatrixView y) override {
    inner_->group_rms_norm(x, weight, group, eps, y);
  }
  Operand gated_group_rms_norm(ConstMatrixView x, const float* weight, int group, float eps,
                               MatrixView z) override {
    return inner_->gated_group_rms_norm(x, weight, group, eps, z);
  }
  void gdn_conv(const BatchView& batch, const GdnShape& shape, const float* weight, float eps,
                RecurrentView state, MatrixView qkv) override {
    inner_->gdn_conv(batch, shape, weight, eps, state, qkv);
  }
  void gdn_scan(const BatchView& batch, const GdnShape& shape, ConstMatrixView qkv,
                ConstMatrixView alpha, ConstMatrixView beta, const float* a, const float* dt_bias,
                RecurrentView state, MatrixView out) override {
    inner_->gdn_scan(batch, shape, qkv, alpha, beta, a, dt_bias, state, out);
  }
  void gated_rms_norm(ConstMatrixView x, ConstMatrixView z, const float* weight, int head_dim,
                      float eps, MatrixView y) override {
    inner_->gated_rms_norm(x, z, weight, head_dim, eps, y);
  }
  Operand gdn_mix(const BatchView& batch, const GdnShape& shape, const GdnOperands& operands,
                  MatrixView qkv, ConstMatrixView alpha, ConstMatrixView beta, ConstMatrixView z,
                  MatrixView out) override {
    return inner_->gdn_mix(batch, shape, operands, qkv, alpha, beta, z, out);
  }
  void causal_conv(const BatchView& batch, const ConvShape& shape, const float* weight,
                   const float* bias, RecurrentView state, MatrixView x) override {
    inner_->causal_conv(batch, shape, weight, bias, state, x);
  }
  void ssd_scan(const BatchView& batch, const SsdShape& shape, const SsdWeights& weights,
                ConstMatrixView xbc, ConstMatrixView dt, RecurrentView state,
                MatrixView out) override {
    inner_->ssd_scan(batch, shape, weights, xbc, dt, state, out);
  }
  void selective_scan(const BatchView& batch, const SelectiveShape& shape,
                      const SelectiveWeights& weights, const SelectiveInputs& inputs,
                      RecurrentView state, MatrixView out) override {
    inner_->selective_scan(batch, shape, weights, inputs, state, out);
  }
  int64_t kv_page_bytes(const AttentionShape& shape, DType k_type, DType v_type) const override {
    return inner_->kv_page_bytes(shape, k_type, v_type);
  }
  uint32_t kv_layout() const override { return inner_->kv_layout(); }
  void qk_norm_rope_append(const BatchView& batch, const AttentionShape& shape, const float* q_norm,
                           const float* k_norm, float eps, MatrixView qg, ConstMatrixView k,
                           ConstMatrixView v, KvView kv) override {
    inner_->qk_norm_rope_append(batch, shape, q_norm, k_norm, eps, qg, k, v, kv);
  }
  Operand attend(const BatchView& batch, const AttentionShape& shape, ConstMatrixView qg, KvView kv,
                 MatrixView out) override {
    return inner_->attend(batch, shape, qg, kv, out);
  }
  void attend_sequences(const BatchView& batch, const SequenceAttentionShape& shape, MatrixView q,
                        MatrixView k, ConstMatrixView v, MatrixView out) override {
    inner_->attend_sequences(batch, shape, q, k, v, out);
  }
  void top_logits(ConstMatrixView logits, TokenMask masks, TopLogits top) override {
    inner_->top_logits(logits, masks, top);
  }
  void gather_logits(MatrixView logits, std::span<const int32_t> ids,
                     SelectedLogits selected) override {
    inner_->gather_logits(logits, ids, selected);
  }
  void log_sum_exp(ConstMatrixView logits, LogSumExp* sums) override {
    inner_->log_sum_exp(logits, sums);
  }
  void choose(TopLogits top, std::span<const TokenChoice> choices, int32_t* chosen) override {
    inner_->choose(top, choices, chosen);
  }
  Operand activate(Activation f, MatrixView h, ConstMatrixView up, StepRows rows) override {
    return inner_->activate(f, h, up, rows);
  }
  void route(ConstMatrixView logits, const RoutingSpec& spec, Routing routing) override {
    inner_->route(logits, spec, routing);
  }
  void keep_top_p(Routing routing, StepRows rows, std::span<const RowClass> classes, float top_p,
                  ExpertUse* use) override {
    inner_->keep_top_p(routing, rows, classes, top_p, use);
  }

 private:
  // Reports the rows `chosen` of x to gate and up, and what they become to down.
  void observe_expert(const ExpertWeights& e, ConstMatrixView x, const std::vector<int64_t>& chosen,
                      Activation activation) {
    const auto n = static_cast<int64_t>(chosen.size());
    gathered_.resize(static_cast<size_t>(n * x.cols));
    for (int64_t r = 0; r < n; ++r) {
      std::copy_n(x.row(chosen[static_cast<size_t>(r)]), x.cols, gathered_.data() + r * x.cols);
    }
    const ConstMatrixView in(gathered_.data(), n, x.cols, x.cols);
    const int64_t n_ff = e.up.n_out;
    up_.resize(static_cast<size_t>(n * n_ff));
    const MatrixView up{up_.data(), n, n_ff, n_ff};
    std::vector<LinearJob> jobs = {{.w = e.up, .y = up}};
    observe_(e.up.data, in);
    if (e.gated()) {
      gate_.resize(static_cast<size_t>(n * n_ff));
      jobs.push_back({.w = e.gate, .y = MatrixView{gate_.data(), n, n_ff, n_ff}});
      observe_(e.gate.data, in);
    }
    inner_->linear(Operand(in), jobs);
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t i = 0; i < n_ff; ++i) {
        float& h = up.row(r)[i];
        if (e.up_bias != nullptr) h += e.up_bias[i];
        if (!e.gated()) {
          h = kernels::activate(activation, h);
          continue;
        }
        const float bias = e.gate_bias != nullptr ? e.gate_bias[i] : 0.0F;
        h = kernels::activate(activation, gate_[static_cast<size_t>(r * n_ff + i)] + bias, h);
      }
    }
    observe_(e.down.data, up);
  }

  std::unique_ptr<Ops> inner_;
  ObserveInputs observe_;
  std::vector<float> gathered_, up_, gate_;
};

}  // namespace

std::unique_ptr<kernels::Ops> make_observing_ops(std::unique_ptr<kernels::Ops> inner,
                                                 ObserveInputs observe) {
  return std::make_unique<ObservingOps>(std::move(inner), std::move(observe));
}

}  // namespace chimere::quantize
