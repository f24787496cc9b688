#include "model/layers/experts.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <span>
#include <string>

namespace chimere::model {

namespace {

constexpr int kMaxExpertGroups = 32;  // of Ops::route()

bool weights_sum_to_one(const kernels::RoutingSpec& routing) {
  const bool divided = routing.normalise || routing.score == kernels::RouterScore::kSelectedSoftmax;
  return divided && routing.scale == 1;
}

Result<kernels::RoutingSpec> read_routing(const Keys& keys, int n_experts, int n_used,
                                          kernels::RoutingSpec routing) {
  using kernels::RouterScore;
  // Values of the GGUF format: the architecture's own, softmax, sigmoid, softmax over the selected
  // experts.
  const RouterScore scores[] = {routing.score, RouterScore::kSoftmax, RouterScore::kSigmoid,
                                RouterScore::kSelectedSoftmax};
  CHIMERE_TRY(const int function, keys.integer_or("expert_gating_func", 0, 0, kMaxCount));
  if (function >= static_cast<int>(std::size(scores))) {
    return unsupported(keys.name("expert_gating_func") + " is " + std::to_string(function) +
                       "; softmax (1), sigmoid (2) and softmax of the selected (3) can be run");
  }
  routing.score = scores[function];
  for (const char* key : {"norm_top_k_prob", "expert_weights_norm"}) {  // Ollama's name, GGUF's
    if (!keys.has(key)) continue;
    CHIMERE_TRY(routing.normalise, keys.file().get_bool(keys.name(key)));
  }
  if (keys.has("expert_weights_scale")) {
    CHIMERE_TRY(const double scale, keys.file().get_float(keys.name("expert_weights_scale")));
    if (!std::isfinite(scale) || scale < 0) {
      return invalid_data(keys.name("expert_weights_scale") + " must be positive");
    }
    // Converters write 0 if the model has no such factor.
    if (scale != 0) routing.scale = static_cast<float>(scale);
  }
  CHIMERE_TRY(routing.n_groups, keys.integer_or("expert_group_count", 0, 0, kMaxExpertGroups));
  if (!routing.has_groups()) return routing;
  CHIMERE_TRY(routing.n_groups_used, keys.integer("expert_group_used_count", 1, routing.n_groups));
  if (n_experts % routing.n_groups != 0 ||
      n_experts / routing.n_groups * routing.n_groups_used < n_used) {
    return invalid_data(
        keys.name("expert_group_count") + " (" + std::to_string(routing.n_groups) +
        ") must divide " + keys.name("expert_count") + " (" + std::to_string(n_experts) +
        ") into groups of which " + keys.name("expert_group_used_count") + " (" +
        std::to_string(routing.n_groups_used) + ") hold at least " +
        keys.name("expert_used_count") + " (" + std::to_string(n_used) + ") experts");
  }
  return routing;
}

}  // namespace

Result<ExpertsSpec> read_experts(const Keys& keys, int block, SharedExpert shared,
                                 const kernels::RoutingSpec& routing) {
  ExpertsSpec spec;
  spec.shared = shared;
  const bool has_shared = shared != SharedExpert::kNone;
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
  if (has_shared) {
    CHIMERE_TRY(spec.n_ff_shared,
                keys.integer_or("expert_shared_feed_forward_length", dense, 1, kMaxWidth));
  }
  if (spec.n_ff == 0) {
    return invalid_data("the file lacks " + keys.name("expert_feed_forward_length"));
  }
  if (has_shared && spec.n_ff_shared == 0) {
    return invalid_data("the file lacks " + keys.name("expert_shared_feed_forward_length"));
  }
  CHIMERE_TRY(spec.routing, read_routing(keys, spec.n_experts, spec.n_used, routing));
  return spec;
}

Result<ExpertsSpec> read_wide_experts(const Keys& keys, int block, SharedExpert shared,
                                      const kernels::RoutingSpec& routing) {
  CHIMERE_TRY(ExpertsSpec spec, read_experts(keys, block, shared, routing));
  if (!keys.has("expert_feed_forward_length")) {
    CHIMERE_TRY(spec.n_ff, keys.integer_of_block("feed_forward_length", block, 1, kMaxWidth));
  }
  return spec;
}

std::unique_ptr<Experts> ExpertsSpec::bind(const SubLayerBinding& to) const {
  WeightBinder& weights = to.weights;
  const auto matrix = [&](const char* name, int64_t n_out, int64_t n_in) {
    return weights.matrix(to.tensor(name), n_out, n_in);
  };
  const auto experts = [&](const char* name, int64_t n_out, int64_t n_in) {
    return weights.experts(to.tensor(name), n_experts, n_used, n_out, n_in);
  };
  auto moe = std::make_unique<Experts>();
  moe->n_used_ = n_used;
  moe->routing_ = routing;
  moe->activation_ = activation;
  moe->top_p_ = to.options.expert_top_p;
  if (moe->top_p_ < 1) weights.depend_on("expert_top_p", moe->top_p_);
  moe->router_ = matrix("ffn_gate_inp.weight", n_experts, to.n_embd);
  if (const std::string bias = to.tensor("exp_probs_b.bias"); weights.has(bias)) {
    moe->routing_.bias = weights.vector(bias, n_experts);
  }
  if (const std::string bias = to.tensor("ffn_gate_inp.bias"); weights.has(bias)) {
    moe->router_bias_ = weights.vector(bias, n_experts);
  }
  const std::vector<WeightView> down = experts("ffn_down_exps.weight", to.n_embd, n_ff);
  if (gated && weights.has(to.tensor("ffn_gate_up_exps.weight"))) {
    const auto fused = experts("ffn_gate_up_exps.weight", int64_t{2} * n_ff, to.n_embd);
    for (size_t e = 0; e < down.size(); ++e) {
      moe->experts_.push_back(
          {fused[e].rows_from(0, n_ff), fused[e].rows_from(n_ff, n_ff), down[e]});
    }
  } else {
    const auto gate = gated ? experts("ffn_gate_exps.weight", n_ff, to.n_embd)
                            : std::vector<WeightView>(down.size());
    const auto up = experts("ffn_up_exps.weight", n_ff, to.n_embd);
    for (size_t e = 0; e < down.size(); ++e) moe->experts_.push_back({gate[e], up[e], down[e]});
  }
  bind_biases(to, *moe);
  if (shared == SharedExpert::kNone) return moe;
  if (shared == SharedExpert::kGated) {
    moe->shared_gate_ = matrix("ffn_gate_inp_shexp.weight", 1, to.n_embd);
  }
  if (gated) moe->shared_.gate = matrix("ffn_gate_shexp.weight", n_ff_shared, to.n_embd);
  moe->shared_.up = matrix("ffn_up_shexp.weight", n_ff_shared, to.n_embd);
  moe->shared_.down = matrix("ffn_down_shexp.weight", to.n_embd, n_ff_shared);
  for (const WeightView* w : {&moe->shared_.gate, &moe->shared_.up, &moe->shared_.down}) {
    weights.mark_in_experts(*w);
  }
  return moe;
}

void ExpertsSpec::bind_biases(const SubLayerBinding& to, Experts& moe) const {
  // [n_experts, n]; nullptr: the file has none.
  const auto bind = [&](const char* name, int64_t n) {
    return to.weights.has(to.tensor(name)) ? to.weights.f32_matrix(to.tensor(name), n_experts, n)
                                           : nullptr;
  };
  const float* const gate = bind("ffn_gate_exps.bias", n_ff);
  const float* const up = bind("ffn_up_exps.bias", n_ff);
  const float* const both = bind("ffn_gate_up_exps.bias", int64_t{2} * n_ff);
  const float* const down = bind("ffn_down_exps.bias", to.n_embd);
  for (size_t e = 0; e < moe.experts_.size(); ++e) {
    kernels::ExpertWeights& expert = moe.experts_[e];
    const auto ff = static_cast<size_t>(n_ff);
    if (gate != nullptr) expert.gate_bias = gate + e * ff;
    if (up != nullptr) expert.up_bias = up + e * ff;
    if (both != nullptr) {
      expert.gate_bias = both + 2 * e * ff;
      expert.up_bias = both + (2 * e + 1) * ff;
    }
    if (down != nullptr) expert.down_bias = down + e * static_cast<size_t>(to.n_embd);
  }
}

Status Experts::place(Placement& to) {
  if (top_p_ < 1 && !weights_sum_to_one(routing_)) {
    return unsupported("this model's expert weights do not sum to 1; leave expert_top_p at 1");
  }
  CHIMERE_TRY(router_, to.ops.place(router_));
  if (routing_.bias != nullptr) {
    CHIMERE_TRY(routing_.bias, to.ops.place_floats(routing_.bias, router_.n_out));
  }
  if (router_bias_ != nullptr) {
    CHIMERE_TRY(router_bias_, to.ops.place_floats(router_bias_, router_.n_out));
  }
  if (has_shared_gate()) {
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
  ops.linear(rows.h, std::span(in).first(has_shared_gate() ? 2 : 1));
  if (router_bias_ != nullptr) ops.add_bias(b.router, router_bias_);
  ops.route(b.router, routing_, b.routing);
  if (top_p_ < 1 && !rows.classes.empty()) {
    ops.keep_top_p(b.routing, rows.h.rows, rows.classes, top_p_, rows.expert_use);
  }
  ops.moe_ffn(rows.h, *placed_, b.routing, has_shared_gate() ? b.shared_gate.data : nullptr,
              {activation_, rows.scale}, rows.x);
}

}  // namespace chimere::model
