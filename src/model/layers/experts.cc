#include "model/layers/experts.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>

namespace chimere::model {

Result<ExpertsSpec> read_experts(const Keys& keys, int block, bool shared) {
  ExpertsSpec spec;
  CHIMERE_TRY(spec.n_experts, keys.integer("expert_count", 1, kMaxCount));
  CHIMERE_TRY(spec.n_used, keys.integer("expert_used_count", 1, spec.n_experts));
  // Files from before these keys existed give the width of a dense network with as many active
  // parameters.
  int dense = 0;
  if (keys.has("feed_forward_length")) {
    CHIMERE_TRY(dense, keys.integer_of_block("feed_forward_length", block, 0, kMaxWidth));
  }
  CHIMERE_TRY(spec.n_ff,
              keys.integer_or("expert_feed_forward_length", dense / spec.n_used, 1, kMaxWidth));
  if (shared) {
    CHIMERE_TRY(spec.n_ff_shared,
                keys.integer_or("expert_shared_feed_forward_length", dense, 1, kMaxWidth));
  }
  if (spec.n_ff == 0) {
    return invalid_data("the file lacks " + keys.name("expert_feed_forward_length"));
  }
  if (shared && spec.n_ff_shared == 0) {
    return invalid_data("the file lacks " + keys.name("expert_shared_feed_forward_length"));
  }
  if (keys.has("expert_weights_scale")) {
    CHIMERE_TRY(const double scale, keys.file().get_float(keys.name("expert_weights_scale")));
    // Converters write 0 or 1 if the model has no such factor.
    if (scale != 0 && scale != 1) {
      return unsupported(keys.name("expert_weights_scale") + " other than 1 is not implemented");
    }
  }
  return spec;
}

std::unique_ptr<Experts> ExpertsSpec::bind(const SubLayerBinding& to) const {
  WeightBinder& weights = to.weights;
  auto moe = std::make_unique<Experts>();
  moe->n_used_ = n_used;
  moe->top_p_ = to.options.expert_top_p;
  if (moe->top_p_ < 1) weights.depend_on("expert_top_p", moe->top_p_);
  moe->router_ = weights.matrix(to.tensor("ffn_gate_inp.weight"), n_experts, to.n_embd);
  auto experts = [&](const char* name, int64_t n_out, int64_t n_in) {
    return weights.experts(to.tensor(name), n_experts, n_used, n_out, n_in);
  };
  const std::vector<WeightView> down = experts("ffn_down_exps.weight", to.n_embd, n_ff);
  if (weights.has(to.tensor("ffn_gate_up_exps.weight"))) {
    const auto fused = experts("ffn_gate_up_exps.weight", int64_t{2} * n_ff, to.n_embd);
    for (size_t e = 0; e < down.size(); ++e) {
      moe->experts_.push_back(
          {fused[e].rows_from(0, n_ff), fused[e].rows_from(n_ff, n_ff), down[e]});
    }
  } else {
    const auto gate = experts("ffn_gate_exps.weight", n_ff, to.n_embd);
    const auto up = experts("ffn_up_exps.weight", n_ff, to.n_embd);
    for (size_t e = 0; e < down.size(); ++e) moe->experts_.push_back({gate[e], up[e], down[e]});
  }
  if (n_ff_shared == 0) return moe;
  moe->shared_gate_ = weights.matrix(to.tensor("ffn_gate_inp_shexp.weight"), 1, to.n_embd);
  moe->shared_.gate = weights.matrix(to.tensor("ffn_gate_shexp.weight"), n_ff_shared, to.n_embd);
  moe->shared_.up = weights.matrix(to.tensor("ffn_up_shexp.weight"), n_ff_shared, to.n_embd);
  moe->shared_.down = weights.matrix(to.tensor("ffn_down_shexp.weight"), to.n_embd, n_ff_shared);
  return moe;
}

Status Experts::place(Placement& to) {
  CHIMERE_TRY(router_, to.ops.place(router_));
  if (has_shared()) {
    CHIMERE_TRY(shared_gate_, to.ops.place(shared_gate_));
  }
  const bool on_host = to.host_expert_layers > 0;
  if (on_host) --to.host_expert_layers;
  CHIMERE_TRY(placed_,
              to.ops.place_experts(
                  experts_, has_shared() ? std::optional(shared_) : std::nullopt,
                  on_host ? kernels::ExpertPlacement::kHost : kernels::ExpertPlacement::kDevice));
  return {};
}

Experts::Buffers Experts::buffers(BufferLayout& at, int64_t rows) const {
  Buffers b;
  b.router = at.matrix(rows, router_.n_out);
  b.routing.n_used = n_used_;
  b.routing.ids = at.take<int32_t>(rows * n_used_);
  b.routing.weights = at.take<float>(rows * n_used_);
  b.shared_gate = at.matrix(rows, 1);
  return b;
}

GpuScratch Experts::gpu_scratch() const {
  const int64_t n_embd = router_.n_in;
  const int64_t n_ff = std::max(experts_.front().up.n_out, shared_.up.n_out);
  // For each expert of a row, its inner activations and its result.
  const int64_t each = std::max(n_embd, n_ff) * 4 + n_ff * 2 + int64_t{16};
  return {.widest = n_ff, .bytes = (n_used_ + 1) * each};
}

void Experts::forward(const SubLayerRows& rows) const {
  kernels::Ops& ops = rows.ops;
  BufferLayout at = rows.buffers;
  const Buffers b = buffers(at, rows.h.x.rows);
  const kernels::LinearJob in[] = {{router_, b.router}, {shared_gate_, b.shared_gate}};
  ops.linear(rows.h, std::span(in).first(has_shared() ? 2 : 1));
  ops.route(b.router, {}, b.routing);
  if (top_p_ < 1 && !rows.classes.empty()) {
    ops.keep_top_p(b.routing, rows.h.rows, rows.classes, top_p_, rows.expert_use);
  }
  ops.moe_ffn(rows.h, *placed_, b.routing, has_shared() ? b.shared_gate.data : nullptr, {}, rows.x);
}

}  // namespace chimere::model
