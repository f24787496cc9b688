#include "model/forward_pass.h"

#include <algorithm>
#include <vector>

namespace chimere::model {

void ForwardPass::run() {
  embed();
  // Up to here all rows are computed, not only those whose logits are requested.
  const std::span<const int32_t> taps = step_.taps();
  const size_t last =
      std::max(weights_.last_mixer, taps.empty() ? 0 : static_cast<size_t>(taps.back()));
  bool wanted = true;
  for (size_t i = 0; wanted && i < weights_.layers.size(); ++i) {
    const Layer& layer = weights_.layers[i];
    if (layer.mixer_norm) norm(layer.mixer_norm);
    for (const auto& mixer : layer.mixers) add(*mixer, layer.residual_scale);
    const MatrixView* const tap = tap_of(i);
    // A tap, and a network that reads the mixers' rows, need all rows until the layer's end.
    const bool whole_layer = tap != nullptr || layer.parallel_network;
    if (i == last && !whole_layer) wanted = keep_wanted_rows();
    if (wanted && layer.mixer_post_norm) post_norm(layer.mixer_post_norm);
    if (wanted && layer.network != nullptr) {
      if (layer.network_norm) norm(layer.network_norm);
      add(*layer.network, layer.residual_scale);
      if (layer.network_post_norm) post_norm(layer.network_post_norm);
    }
    if (tap != nullptr) ops_.copy(buffers_.all.x, *tap);
    if (i == last && whole_layer) wanted = keep_wanted_rows();
  }
  if (wanted) head();
  // The hidden state without the last layer's network: cheaper, and it replaces a state of another
  // sequence that the slot might still hold.
  if (weights_.mtp != nullptr && !update_draft_kv_) {
    weights_.mtp->shift(ops_, batch_, buffers_.all.x, buffers_.mtp);
  }
}

void ForwardPass::append_context(bool vectors) {
  const BlockDraftWeights& drafter = weights_.block_draft;
  if (vectors) {
    ops_.embed(*drafter.context_rows, step_.tokens(), step_.vectors(), buffers_.context);
  }
  const kernels::LinearJob fuse[] = {{drafter.fuse, rows().x}};
  ops_.linear(buffers_.context, fuse);
  norm({drafter.norm, nullptr});
  // All layers project the same rows: one call, so that products share launches.
  std::vector<kernels::LinearJob> jobs;
  for_each_context_mixer(
      [&](const SubLayer& mixer, const SubLayerRows& in) { mixer.project_append(in, jobs); });
  ops_.linear(h_, jobs);
  for_each_context_mixer([](const SubLayer& mixer, const SubLayerRows& in) { mixer.append(in); });
}

template <class Visit>
void ForwardPass::for_each_context_mixer(const Visit& visit) {
  BufferLayout at = buffers_.sub_layer;
  for (const Layer& layer : weights_.layers) {
    for (const auto& mixer : layer.mixers) {
      SubLayerRows in = sub_layer_rows(1);
      in.buffers = at;
      visit(*mixer, in);
      mixer->lay_out_append(at, rows().x.rows);
    }
  }
}

void ForwardPass::embed() {
  const kernels::PlacedTable& table =
      weights_.table != nullptr ? *weights_.table : *weights_.block_draft.block_rows;
  ops_.embed(table, step_.tokens(), step_.vectors(), rows().x);
  if (model_.embedding_scale != 1) ops_.scale(rows().x, model_.embedding_scale);
  if (weights_.embedding_norm) {
    post_norm(weights_.embedding_norm);
  } else if (!weights_.layers[0].mixer_norm) {
    h_ = ops_.prepare(rows().x, step_rows());
  }
  if (model_.keeps_embedding) ops_.copy(rows().x, buffers_.embedding);
}

kernels::Operand ForwardPass::normed(const Norm& norm, MatrixView x, MatrixView y) {
  if (model_.norm == NormKind::kRms) {
    return ops_.rms_norm(x, norm.weight, model_.norm_eps, y, step_rows());
  }
  return ops_.layer_norm(x, norm.weight, norm.bias, model_.norm_eps, y, step_rows());
}

void ForwardPass::norm(const Norm& norm) { h_ = normed(norm, rows().x, rows().h); }

void ForwardPass::post_norm(const Norm& norm) { h_ = normed(norm, rows().x, rows().x); }

SubLayerRows ForwardPass::sub_layer_rows(float scale) {
  SubLayerRows in = {.ops = ops_,
                     .batch = batch_,
                     .x = rows().x,
                     .h = h_,
                     .scale = scale,
                     .classes = {},
                     .buffers = buffers_.sub_layer,
                     .expert_use = expert_use_,
                     .embedding = buffers_.embedding};
  if (expert_use_ != nullptr) {
    in.classes = only_wanted_ ? step_.wanted_classes() : step_.row_classes();
  }
  return in;
}

void ForwardPass::add(const SubLayer& sub_layer, float scale) {
  sub_layer.forward(sub_layer_rows(scale));
  if (interleave_) interleave_();
}

const MatrixView* ForwardPass::tap_of(size_t layer) const {
  const auto found = std::ranges::find(step_.taps(), static_cast<int32_t>(layer));
  if (found == step_.taps().end()) return nullptr;
  return &buffers_.taps[static_cast<size_t>(found - step_.taps().begin())];
}

bool ForwardPass::keep_wanted_rows() {
  if (update_draft_kv_) return true;
  if (step_.wanted_rows().empty()) return false;
  ops_.select_rows(buffers_.all.x, step_.wanted_rows(), buffers_.wanted.x);
  only_wanted_ = true;
  return true;
}

kernels::StepOutputs ForwardPass::outputs() const {
  const int64_t whole = step_.n_full_rows();
  const int64_t others = buffers_.logits.rows - whole;
  kernels::StepOutputs out = {buffers_.logits.rows_from(0, whole),
                              {buffers_.top, others, step_.top_count()}};
  if (step_.selected_count() > 0)
    out.selected = {buffers_.selected, others, step_.selected_count()};
  if (step_.sums()) out.sums = buffers_.sums;
  if (!step_.choices().empty()) out.chosen = buffers_.chosen;
  return out;
}

void ForwardPass::project(const kernels::Operand& hidden) {
  const kernels::LinearJob output[] = {
      {weights_.output, buffers_.logits, /*accumulate=*/false, model_.logit_scale}};
  ops_.linear(hidden, output);
  find_top();
}

void ForwardPass::find_top() {
  const kernels::StepOutputs out = outputs();
  if (out.top.rows == 0) return;
  const MatrixView logits = buffers_.logits.rows_from(step_.n_full_rows(), out.top.rows);
  if (out.sums != nullptr) ops_.log_sum_exp(logits, out.sums);
  if (out.selected.count > 0) ops_.gather_logits(logits, step_.selected(), out.selected);
  ops_.top_logits(logits, step_.masks(), out.top);
  if (out.chosen != nullptr) ops_.choose(out.top, step_.choices(), out.chosen);
}

void ForwardPass::head() {
  if (model_.embeds()) {
    if (weights_.output_norm) {
      normed(weights_.output_norm, rows().x, buffers_.logits);
    } else {
      ops_.copy(rows().x, buffers_.logits);
    }
    find_top();
    return;
  }
  if (!update_draft_kv_) {
    norm(weights_.output_norm);
    project(h_);
    return;
  }
  const MatrixView& hidden = buffers_.mtp.hidden;
  ops_.rms_norm(buffers_.all.x, weights_.output_norm.weight, model_.norm_eps, hidden,
                kernels::StepRows::kAll);
  const MtpHead& mtp = *weights_.mtp;
  mtp.shift(ops_, batch_, hidden, buffers_.mtp);
  mtp.append({.ops = ops_,
              .batch = batch_,
              .x = buffers_.all.x,
              .h = buffers_.all.h,
              .classes = {},
              .buffers = buffers_.sub_layer},
             step_.tokens(), buffers_.mtp);
  if (step_.wanted_rows().empty()) return;
  ops_.select_rows(hidden, step_.wanted_rows(), buffers_.wanted.h);
  project({buffers_.wanted.h, kernels::StepRows::kWanted});
}

}  // namespace chimere::model
