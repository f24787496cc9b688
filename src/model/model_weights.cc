#include "model/model_weights.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace chimere::model {
namespace {

/// No norm if the name is empty.
Norm bind_norm(const std::string& name, NormKind kind, int n_embd, WeightBinder& weights) {
  Norm norm;
  if (name.empty()) return norm;
  norm.weight = weights.vector(name, n_embd);
  constexpr std::string_view kSuffix = ".weight";
  const std::string bias = name.substr(0, name.size() - kSuffix.size()) + ".bias";
  if (kind == NormKind::kLayer && weights.has(bias)) norm.bias = weights.vector(bias, n_embd);
  return norm;
}

Layer bind_layer(const LayerSpec& spec, NormKind kind, const SubLayerBinding& to) {
  const auto norm_of = [&](const std::string& name) {
    return bind_norm(name.empty() ? name : to.tensor(name), kind, to.n_embd, to.weights);
  };
  Layer layer;
  if (!spec.mixers.empty()) {
    layer.mixer_norm = norm_of(spec.mixer_norm);
    layer.mixer_post_norm = norm_of(spec.mixer_post_norm);
  }
  for (const SubLayerSpec& mixer : spec.mixers) layer.mixers.push_back(mixer.bind(to));
  layer.residual_scale = spec.residual_scale;
  if (!spec.network) return layer;
  layer.parallel_network = spec.network_norm.empty() && spec.mixer_post_norm.empty();
  layer.network_norm = norm_of(spec.network_norm);
  layer.network_post_norm = norm_of(spec.network_post_norm);
  layer.network = spec.network.bind(to);
  return layer;
}

}  // namespace

Result<ModelWeights> ModelWeights::bind(const ModelSpec& model, const ModelOptions& options,
                                        WeightBinder& binder) {
  const auto block = [&](int i) {
    const bool layer = i < model.n_layers();
    return SubLayerBinding{
        .weights = binder,
        .block = i,
        .n_embd = model.n_embd,
        .norm_eps = model.norm_eps,
        .options = options,
        .scale = layer ? model.layers[static_cast<size_t>(i)].residual_scale : 1};
  };
  ModelWeights w;
  w.embedding = binder.table("token_embd.weight", model.n_vocab, model.n_embd);
  bool mixes = false;
  for (int i = 0; i < model.n_layers(); ++i) {
    const auto index = static_cast<size_t>(i);
    w.layers.push_back(bind_layer(model.layers[index], model.norm, block(i)));
    const Layer& layer = w.layers.back();
    if (layer.mixers.empty() && layer.parallel_network) {
      return unsupported("layer " + std::to_string(i) + " has neither a mixer nor a norm");
    }
    if (layer.mixers.empty()) continue;
    w.last_mixer = index;
    mixes = true;
  }
  if (!mixes) return unsupported("the model has no layer with a mixer");
  w.embedding_norm = bind_norm(model.embedding_norm, model.norm, model.n_embd, binder);
  w.output_norm = bind_norm(model.output_norm, model.norm, model.n_embd, binder);
  w.input = InputEmbedding::bind(model, w.embedding, binder);
  if (model.pooling == Pooling::kRank) w.rank_head = RankHead::bind(model, binder);
  // A model without an output head of its own uses the embedding table.
  const bool tied = !binder.has("output.weight");
  if (!model.embeds() || !tied) {
    w.output = tied ? binder.fixed_matrix("token_embd.weight", model.n_vocab, model.n_embd)
                    : binder.matrix("output.weight", model.n_vocab, model.n_embd);
  }
  int64_t unread = 0;
  if (model.block_draft) {
    const WeightView whole = w.output;
    w.output = whole.rows_from(0, model.n_drafted);
    unread = whole.bytes() - w.output.bytes();
    w.block_draft.fuse = binder.matrix("fc.weight", model.n_embd, model.context_width());
    w.block_draft.norm = binder.vector("enc.output_norm.weight", model.n_embd);
  }
  w.active_bytes = binder.active_bytes() - unread;
  if (model.embeds()) w.output = {};  // never read, even if the file has it
  if (model.mtp && (model.embedding_scale != 1 || model.layers.back().residual_scale != 1)) {
    return unsupported("MTP heads of a model that scales embeddings or residuals are unknown.");
  }
  const int mtp_heads = model.mtp ? model.mtp->heads : 0;
  binder.leave_out_heads_from(model.n_layers() + mtp_heads);
  for (int i = 0; i < mtp_heads; ++i) {
    auto head = model.mtp->bind(block(model.n_layers() + i),
                                {model.n_vocab, w.output_norm.weight, w.output});
    if (i == 0 && options.drafts && !model.embeds()) w.mtp = std::move(head);
  }
  CHIMERE_CHECK_OK(binder.finish());
  w.left_out = binder.left_out();
  w.copies = binder.take_copies();
  w.targets = binder.take_targets();
  return w;
}

Status BlockDraftWeights::place(const ModelSpec& model, const InputEmbedding& embedding,
                                kernels::Ops& ops) {
  CHIMERE_TRY(fuse, ops.place(fuse));
  CHIMERE_TRY(norm, ops.place_floats(norm, model.n_embd));
  no_token.resize(static_cast<size_t>(model.context_width()));
  CHIMERE_TRY(mask, embedding.rows({&model.block_draft->mask_token, 1}, 0, 0));
  CHIMERE_TRY(context_rows,
              ops.place_table({DType::kF32, 1, model.context_width(), no_token.data()}));
  CHIMERE_TRY(block_rows, ops.place_table({DType::kF32, 1, model.n_embd, mask.data()}));
  return {};
}

Status ModelWeights::place(const ModelSpec& model, kernels::Ops& ops, int host_expert_layers) {
  Placement to = {ops, host_expert_layers};
  const auto place_norm = [&](Norm& norm) -> Status {
    for (const float** values : {&norm.weight, &norm.bias}) {
      if (*values == nullptr) continue;
      CHIMERE_TRY(*values, ops.place_floats(*values, model.n_embd));
    }
    return {};
  };
  for (Layer& layer : layers) {
    for (Norm* norm : {&layer.mixer_norm, &layer.mixer_post_norm, &layer.network_norm,
                       &layer.network_post_norm}) {
      CHIMERE_CHECK_OK(place_norm(*norm));
    }
    for (const auto& mixer : layer.mixers) CHIMERE_CHECK_OK(mixer->place(to));
    if (layer.network != nullptr) CHIMERE_CHECK_OK(layer.network->place(to));
  }
  CHIMERE_CHECK_OK(place_norm(embedding_norm));
  CHIMERE_CHECK_OK(place_norm(output_norm));
  if (model.block_draft) {
    CHIMERE_CHECK_OK(block_draft.place(model, input, ops));
  } else {
    CHIMERE_TRY(table, ops.place_table(embedding));
  }
  if (model.embeds()) return {};
  const WeightView bound = output;
  CHIMERE_TRY(output, ops.place(bound));
  if (mtp == nullptr) return {};
  to.host_expert_layers = 0;  // the head's experts run in every draft
  return mtp->place(to, bound, output, *table);
}

Status ModelWeights::add_state(StateBuilder& states) {
  for (Layer& layer : layers) {
    for (const auto& mixer : layer.mixers) CHIMERE_CHECK_OK(mixer->add_state(states));
    if (layer.network != nullptr) CHIMERE_CHECK_OK(layer.network->add_state(states));
  }
  return mtp != nullptr ? mtp->add_state(states) : Status();
}

bool ModelWeights::recurrent() const {
  return std::ranges::any_of(layers, [](const Layer& layer) {
    return std::ranges::any_of(layer.mixers, [](const auto& mixer) { return mixer->recurrent(); });
  });
}

}  // namespace chimere::model
