// Default implementations of ops.
#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/api.h"
#include "kernels/log_sum_exp.h"
#include "kernels/ref/state_space.h"
#include "kernels/ref/vector_ops.h"
#include "kernels/rope.h"

namespace chimere::kernels {

Status place_biases(Ops& ops, ExpertWeights& expert) {
  const std::pair<const float**, int64_t> biases[] = {{&expert.gate_bias, expert.gate.n_out},
                                                      {&expert.up_bias, expert.up.n_out},
                                                      {&expert.down_bias, expert.down.n_out}};
  for (const auto& [bias, n] : biases) {
    if (*bias == nullptr) continue;
    CHIMERE_TRY(*bias, ops.place_floats(*bias, n));
  }
  return {};
}

Result<const float*> Ops::place_floats(const float* values, int64_t /*n*/) { return values; }

Result<std::unique_ptr<PlacedExperts>> Ops::place_experts(std::vector<ExpertWeights> routed,
                                                          std::optional<ExpertWeights> shared,
                                                          ExpertPlacement /*where*/) {
  auto place_one = [this](ExpertWeights& e) -> Status {
    for (WeightView* w : {&e.gate, &e.up, &e.down}) {
      if (w->n_out == 0) continue;  // no gate
      CHIMERE_TRY(*w, place(*w));
    }
    return place_biases(*this, e);
  };
  for (ExpertWeights& e : routed) CHIMERE_CHECK_OK(place_one(e));
  if (shared) CHIMERE_CHECK_OK(place_one(*shared));
  return std::make_unique<PlacedExperts>(std::move(routed), shared);
}

Result<std::unique_ptr<PlacedTable>> Ops::place_table(const WeightView& table) {
  return std::make_unique<PlacedTable>(table);
}

Result<int32_t> Ops::place_adapter(LowRankAdapter adapter) {
  return adapters_.add(std::move(adapter));
}

Status Ops::launch_step(const StepInputs& step, const StepOutputs& outputs,
                        const std::function<void()>& pass) {
  const StepAdapters::Step outer = adapters_.begin(step.adapters, step.wanted_rows);
  pass();
  adapters_.resume(outer);
  launched_ = outputs;
  return {};
}

Result<StepOutputs> Ops::wait_for_step() { return launched_; }

Result<StepOutputs> Ops::run_step(const StepInputs& step, const StepOutputs& outputs,
                                  const std::function<void()>& pass) {
  CHIMERE_CHECK_OK(launch_step(step, outputs, pass));
  return wait_for_step();
}

Status Ops::interleaved_step(const std::function<void()>& steps) {
  steps();
  return {};
}

void Ops::select_rows(ConstMatrixView x, std::span<const int32_t> rows, MatrixView y) {
  for (size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(x.row(rows[i]), x.cols, y.row(static_cast<int64_t>(i)));
  }
}

Operand Ops::layer_norm(ConstMatrixView x, const float* weight, const float* bias, float eps,
                        MatrixView y, StepRows rows) {
  ref::layer_norm(x, weight, bias, eps, y);
  return {y, rows};
}

void Ops::attend_sequences(const BatchView& batch, const SequenceAttentionShape& shape,
                           MatrixView q, MatrixView k, ConstMatrixView v, MatrixView out) {
  RopeTable rope;
  const AttentionShape& heads = shape.heads;
  if (heads.rope_dims > 0) {
    rope.prepare(batch.row_position, heads.rope_dims, heads.rope_base, heads.rope_factors);
  }
  ref::attend_sequences(batch, shape, rope, q, k, v, out);
}

void Ops::scale(MatrixView x, float factor) {
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t i = 0; i < x.cols; ++i) x.row(r)[i] *= factor;
  }
}

void Ops::add_bias(MatrixView y, const float* bias) {
  for (int64_t r = 0; r < y.rows; ++r) {
    for (int64_t i = 0; i < y.cols; ++i) y.row(r)[i] += bias[i];
  }
}

void Ops::copy(ConstMatrixView x, MatrixView y) {
  for (int64_t r = 0; r < y.rows; ++r) std::copy_n(x.row(r), y.cols, y.row(r));
}

void Ops::multiply(ConstMatrixView x, MatrixView y) {
  for (int64_t r = 0; r < y.rows; ++r) {
    for (int64_t i = 0; i < y.cols; ++i) y.row(r)[i] *= x.row(r)[i];
  }
}

void Ops::group_rms_norm(ConstMatrixView x, const float* weight, int group, float eps,
                         MatrixView y) {
  for (int64_t begin = 0; begin < x.cols; begin += group) {
    ref::rms_norm({x.data + begin, x.rows, group, x.stride}, weight + begin, eps,
                  {y.data + begin, y.rows, group, y.stride});
  }
}

Operand Ops::gated_group_rms_norm(ConstMatrixView x, const float* weight, int group, float eps,
                                  MatrixView z) {
  activate(Activation::kSilu, z, x, StepRows::kAll);
  group_rms_norm(z, weight, group, eps, z);
  return prepare(z, StepRows::kAll);
}

void Ops::causal_conv(const BatchView& batch, const ConvShape& shape, const float* weight,
                      const float* bias, RecurrentView state, MatrixView x) {
  ref::causal_conv(batch, shape, weight, bias, state, x);
}

void Ops::ssd_scan(const BatchView& batch, const SsdShape& shape, const SsdWeights& weights,
                   ConstMatrixView xbc, ConstMatrixView dt, RecurrentView state, MatrixView out) {
  ref::ssd_scan(batch, shape, weights, xbc, dt, state, out);
}

void Ops::selective_scan(const BatchView& batch, const SelectiveShape& shape,
                         const SelectiveWeights& weights, const SelectiveInputs& inputs,
                         RecurrentView state, MatrixView out) {
  ref::selective_scan(batch, shape, weights, inputs, state, out);
}

void Ops::shift_rows(const BatchView& batch, ConstMatrixView x, RecurrentView state, MatrixView y) {
  int32_t before = -1;  // the previous row's sequence
  for (int32_t r = 0; r < batch.n_rows; ++r) {
    const int32_t sequence = batch.row_sequence[static_cast<size_t>(r)];
    const bool first = sequence != std::exchange(before, sequence);
    const float* from = x.row(int64_t{r} - 1);
    if (first) {
      const int32_t slot = batch.read_slot[static_cast<size_t>(sequence)];
      const std::span<const int32_t> unfolded = batch.unfolded(sequence);
      from = unfolded.empty() ? state.slot(slot) : state.row(unfolded.back());
      if (!unfolded.empty() && slot >= 0) std::copy_n(from, x.cols, state.slot(slot));
    }
    std::copy_n(from, x.cols, y.row(r));
    // One slot may be both read and written: the sequence's first row has already read it.
    const int32_t to = batch.write_slot[static_cast<size_t>(r)];
    if (to >= 0) std::copy_n(x.row(r), x.cols, state.slot(to));
    if (batch.keep(r) >= 0) std::copy_n(x.row(r), x.cols, state.row(batch.keep(r)));
  }
}

void Ops::keep_top_p(Routing routing, StepRows /*rows*/, std::span<const RowClass> classes,
                     float top_p, ExpertUse* use) {
  for (size_t r = 0; r < classes.size(); ++r) {
    if (classes[r] != RowClass::kDecode) continue;
    const size_t first = r * static_cast<size_t>(routing.n_used);
    int32_t* ids = routing.ids + first;
    float* weights = routing.weights + first;
    float sum = weights[0];
    int kept = 1;
    for (; kept < routing.n_used && sum < top_p; ++kept) sum += weights[kept];
    for (int rank = 0; rank < kept; ++rank) weights[rank] /= sum;
    std::fill(ids + kept, ids + routing.n_used, -1);
    std::fill(weights + kept, weights + routing.n_used, 0.0F);
    use->rows += 1;
    use->experts += kept;
  }
}

void Ops::gather_logits(MatrixView logits, std::span<const int32_t> ids, SelectedLogits selected) {
  constexpr float kMasked = -std::numeric_limits<float>::infinity();
  auto id = ids.begin();
  for (int64_t r = 0; r < selected.rows; ++r) {
    for (float& value : selected.row(r)) {
      const int32_t token = *id++;
      value = token < 0 ? kMasked : std::exchange(logits.row(r)[token], kMasked);
    }
  }
}

void Ops::log_sum_exp(ConstMatrixView logits, LogSumExp* sums) {
  for (int64_t r = 0; r < logits.rows; ++r) sums[r] = row_log_sum_exp(logits.row(r), logits.cols);
}

void Ops::choose(TopLogits top, std::span<const TokenChoice> choices, int32_t* chosen) {
  for (size_t r = 0; r < choices.size(); ++r) {
    chosen[r] = choose_token(top.row(static_cast<int64_t>(r)), choices[r]);
  }
}

Operand Ops::gdn_mix(const BatchView& batch, const GdnShape& shape, const GdnOperands& operands,
                     MatrixView qkv, ConstMatrixView alpha, ConstMatrixView beta, ConstMatrixView z,
                     MatrixView out) {
  const GdnOperands& o = operands;
  gdn_conv(batch, shape, o.conv_weight, o.eps, o.conv_state, qkv);
  gdn_scan(batch, shape, qkv, alpha, beta, o.a, o.dt_bias, o.scan_state, out);
  gated_rms_norm(out, z, o.norm, shape.head_dim, o.eps, out);
  return out;
}

}  // namespace chimere::kernels
