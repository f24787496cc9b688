#include "model/hybrid_model.h"

#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/activations.h"
#include "model/hybrid_states.h"
#include "model/layers/dense_ffn.h"
#include "model/layers/gated_attention.h"
#include "model/layers/gated_delta_net.h"
#include "model/layers/moe.h"
#include "model/step_batch.h"
#include "model/weight_binder.h"

namespace chimere::model {
namespace {

struct HybridLayer {
  const float* mixer_norm = nullptr;  ///< [n_embd]
  std::variant<GatedDeltaNet, GatedAttention> mixer;
  const float* ffn_norm = nullptr;  ///< [n_embd]
  std::variant<DenseFfn, Moe> ffn;
};

struct HybridWeights {
  WeightView embedding;  ///< [n_vocab, n_embd]
  std::vector<HybridLayer> layers;
  const float* output_norm = nullptr;  ///< [n_embd]
  WeightView output;                   ///< [n_vocab, n_embd]
  int64_t active_bytes = 0;
  std::vector<std::unique_ptr<uint8_t[]>> copies;  ///< of tensors that are not used as they lie
};

class HybridModel final : public Model {
 public:
  HybridModel(const gguf::Reader& file, kernels::Ops& ops, int max_step_rows, Hparams hparams,
              HybridWeights weights, std::unique_ptr<state::StateStore> states, Workspace workspace)
      : file_(file),
        ops_(ops),
        max_step_rows_(max_step_rows),
        hparams_(std::move(hparams)),
        weights_(std::move(weights)),
        states_(std::move(states)),
        workspace_(std::move(workspace)) {}

  const std::string& architecture() const override { return hparams_.architecture; }
  int64_t n_vocab() const override { return hparams_.n_vocab; }
  int64_t context_length() const override { return hparams_.context_length; }
  int64_t active_weight_bytes() const override { return weights_.active_bytes; }
  state::StateStore& states() override { return *states_; }

  Result<StepResult> forward(const StepPlan& plan) override;

 private:
  void mix(const HybridLayer& layer, const kernels::BatchView& batch, const Activations& act);
  void feed_forward(const HybridLayer& layer, const Activations& act);

  const gguf::Reader& file_;
  kernels::Ops& ops_;
  int max_step_rows_;
  Hparams hparams_;
  HybridWeights weights_;
  std::unique_ptr<state::StateStore> states_;
  Workspace workspace_;
};

void HybridModel::mix(const HybridLayer& layer, const kernels::BatchView& batch,
                      const Activations& act) {
  ops_.rms_norm(act.x, layer.mixer_norm, hparams_.norm_eps, act.h);
  std::visit([&](const auto& mixer) { mixer.forward(ops_, hparams_, batch, act); }, layer.mixer);
}

void HybridModel::feed_forward(const HybridLayer& layer, const Activations& act) {
  ops_.rms_norm(act.x, layer.ffn_norm, hparams_.norm_eps, act.h);
  std::visit([&](const auto& ffn) { ffn.forward(ops_, act); }, layer.ffn);
}

Result<StepResult> HybridModel::forward(const StepPlan& plan) {
  CHIMERE_CHECK_OK(file_.check_unchanged());
  CHIMERE_TRY(StepBatch step, StepBatch::prepare(plan, *states_, hparams_.n_vocab, max_step_rows_));
  const kernels::BatchView batch = step.view();
  const auto n_wanted = static_cast<int64_t>(step.wanted_rows().size());
  const StepBuffers buffers = workspace_.lay_out(hparams_, step.n_rows(), n_wanted);
  const Activations& all = buffers.all;
  const Activations& wanted = buffers.wanted;
  const HybridLayer& last = weights_.layers.back();

  ops_.embed(weights_.embedding, step.tokens(), all.x);
  for (const HybridLayer& layer : std::span(weights_.layers).first(weights_.layers.size() - 1)) {
    mix(layer, batch, all);
    feed_forward(layer, all);
  }
  mix(last, batch, all);
  // Behind the last mixer rows no longer meet and states are complete: only the wanted rows go on.
  if (n_wanted > 0) {
    const WeightView stream = {DType::kF32, all.x.rows, all.x.cols, all.x.data};
    ops_.embed(stream, step.wanted_rows(), wanted.x);
    feed_forward(last, wanted);
    ops_.rms_norm(wanted.x, weights_.output_norm, hparams_.norm_eps, wanted.x);
    const kernels::LinearJob head[] = {{weights_.output, buffers.logits}};
    ops_.linear(wanted.x, head);
  }
  // What could not be read was zeros: nobody may see what came of it.
  CHIMERE_CHECK_OK(file_.check_unchanged());
  step.finish();
  return StepResult{buffers.logits};
}

std::string block_prefix(int layer) { return "blk." + std::to_string(layer) + "."; }

HybridLayer bind_layer(WeightBinder& bind, const Hparams& h, const std::string& block,
                       bool recurrent) {
  HybridLayer layer;
  layer.mixer_norm = bind.vector(block + "attn_norm.weight", h.n_embd);
  if (recurrent) {
    layer.mixer = GatedDeltaNet::bind(bind, block, h);
  } else {
    layer.mixer = GatedAttention::bind(bind, block, h);
  }
  layer.ffn_norm = bind.vector(block + "post_attention_norm.weight", h.n_embd);
  if (h.n_ff > 0) {
    layer.ffn = DenseFfn::bind(bind, block, h);
  } else {
    layer.ffn = Moe::bind(bind, block, h);
  }
  return layer;
}

HybridWeights bind_weights(WeightBinder& bind, const Hparams& h) {
  HybridWeights w;
  w.embedding = bind.table("token_embd.weight", h.n_vocab, h.n_embd);
  for (int i = 0; i < h.n_layers; ++i) {
    const bool recurrent = h.recurrent[static_cast<size_t>(i)];
    w.layers.push_back(bind_layer(bind, h, block_prefix(i), recurrent));
  }
  w.output_norm = bind.vector("output_norm.weight", h.n_embd);
  // Without a head of its own, a model uses the embedding table.
  const bool tied = !bind.has("output.weight");
  w.output = bind.matrix(tied ? "token_embd.weight" : "output.weight", h.n_vocab, h.n_embd);
  w.active_bytes = bind.active_bytes();
  return w;
}

void check_mtp_weights(WeightBinder& bind, const Hparams& h) {
  for (int i = h.n_layers; i < h.n_layers + h.n_mtp_layers; ++i) {
    bind_layer(bind, h, block_prefix(i), /*recurrent=*/false);
    const std::string nextn = block_prefix(i) + "nextn.";
    bind.matrix(nextn + "eh_proj.weight", h.n_embd, int64_t{2} * h.n_embd);
    bind.vector(nextn + "enorm.weight", h.n_embd);
    bind.vector(nextn + "hnorm.weight", h.n_embd);
    for (const char* name : {"embed_tokens.weight", "shared_head_head.weight"}) {
      if (bind.has(nextn + name)) bind.matrix(nextn + name, h.n_vocab, h.n_embd);
    }
    const std::string norm = nextn + "shared_head_norm.weight";
    if (bind.has(norm)) bind.vector(norm, h.n_embd);
  }
}

void attach_states(HybridWeights& weights, const HybridStates& states) {
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    if (auto* net = std::get_if<GatedDeltaNet>(&weights.layers[i].mixer)) {
      net->conv_state = states.layers[i].conv;
      net->scan_state = states.layers[i].scan;
    } else {
      std::get<GatedAttention>(weights.layers[i].mixer).kv = states.layers[i].kv;
    }
  }
}

}  // namespace

Result<std::unique_ptr<Model>> load_hybrid_model(const gguf::Reader& file, kernels::Ops& ops,
                                                 const ModelOptions& options,
                                                 const HybridKind& kind) {
  CHIMERE_CHECK_OK(file.check_unchanged());
  CHIMERE_TRY(Hparams hparams, read_hparams(file, kind));
  WeightBinder bind(file);
  HybridWeights weights = bind_weights(bind, hparams);
  check_mtp_weights(bind, hparams);
  CHIMERE_CHECK_OK(bind.finish());
  weights.copies = bind.take_copies();

  CHIMERE_TRY(HybridStates states,
              make_hybrid_states(hparams, ops, options, model_key(file, kind.name)));
  attach_states(weights, states);
  CHIMERE_TRY(Workspace workspace, Workspace::create(hparams, options.max_step_rows));
  // A page that was cut away reads as zeros: nothing copied or checked so far may be one.
  CHIMERE_CHECK_OK(file.check_unchanged());
  return std::unique_ptr<Model>(std::make_unique<HybridModel>(
      file, ops, options.max_step_rows, std::move(hparams), std::move(weights),
      std::move(states.store), std::move(workspace)));
}

}  // namespace chimere::model
