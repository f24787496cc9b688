#include "model/model_weights.h"

#include <algorithm>
#include <string>
#include <utility>

namespace chimere::model {
namespace {

Layer bind_layer(const LayerSpec& spec, const SubLayerBinding& to) {
  Layer layer;
  if (!spec.mixers.empty()) {
    layer.mixer_norm = to.weights.vector(to.tensor(spec.mixer_norm), to.n_embd);
  }
  for (const SubLayerSpec& mixer : spec.mixers) layer.mixers.push_back(mixer.bind(to));
  layer.residual_scale = spec.residual_scale;
  if (!spec.network) return layer;
  layer.parallel_network = spec.network_norm.empty();
  if (!layer.parallel_network) {
    layer.network_norm = to.weights.vector(to.tensor(spec.network_norm), to.n_embd);
  }
  layer.network = spec.network.bind(to);
  return layer;
}

}  // namespace

Result<ModelWeights> ModelWeights::bind(const ModelSpec& model, const ModelOptions& options,
                                        WeightBinder& binder) {
  const auto block = [&](int i) {
    return SubLayerBinding{binder, i, model.n_embd, model.norm_eps, options};
  };
  ModelWeights w;
  w.embedding = binder.table("token_embd.weight", model.n_vocab, model.n_embd);
  bool mixes = false;
  for (int i = 0; i < model.n_layers(); ++i) {
    const auto index = static_cast<size_t>(i);
    w.layers.push_back(bind_layer(model.layers[index], block(i)));
    const Layer& layer = w.layers.back();
    if (layer.mixers.empty() && layer.parallel_network) {
      return unsupported("layer " + std::to_string(i) + " has neither a mixer nor a norm");
    }
    if (layer.mixers.empty()) continue;
    w.last_mixer = index;
    mixes = true;
  }
  if (!mixes) return unsupported("the model has no layer with a mixer");
  w.output_norm = binder.vector(model.output_norm, model.n_embd);
  // A model without an output head of its own uses the embedding table.
  const bool tied = !binder.has("output.weight");
  if (model.pooling == Pooling::kNone || !tied) {
    w.output =
        binder.matrix(tied ? "token_embd.weight" : "output.weight", model.n_vocab, model.n_embd);
  }
  w.active_bytes = binder.active_bytes();
  if (model.pooling != Pooling::kNone) w.output = {};  // never read, even if the file has it
  if (model.mtp && (model.embedding_scale != 1 || model.layers.back().residual_scale != 1)) {
    return unsupported("MTP heads of a model that scales embeddings or residuals are unknown.");
  }
  const int mtp_heads = model.mtp ? model.mtp->heads : 0;
  for (int i = 0; i < mtp_heads; ++i) {
    auto head =
        model.mtp->bind(block(model.n_layers() + i), {model.n_vocab, w.output_norm, w.output});
    if (i == 0 && options.drafts) w.mtp = std::move(head);
  }
  CHIMERE_CHECK_OK(binder.finish());
  w.copies = binder.take_copies();
  return w;
}

Status ModelWeights::place(const ModelSpec& model, kernels::Ops& ops, int host_expert_layers) {
  Placement to = {ops, host_expert_layers};
  for (Layer& layer : layers) {
    for (const float** norm : {&layer.mixer_norm, &layer.network_norm}) {
      if (*norm == nullptr) continue;
      CHIMERE_TRY(*norm, ops.place_floats(*norm, model.n_embd));
    }
    for (const auto& mixer : layer.mixers) CHIMERE_CHECK_OK(mixer->place(to));
    if (layer.network != nullptr) CHIMERE_CHECK_OK(layer.network->place(to));
  }
  CHIMERE_TRY(output_norm, ops.place_floats(output_norm, model.n_embd));
  CHIMERE_TRY(table, ops.place_table(embedding));
  if (model.pooling != Pooling::kNone) return {};
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
