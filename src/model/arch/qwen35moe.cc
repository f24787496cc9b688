#include "model/arch/qwen35moe.h"

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/activations.h"
#include "model/hybrid_states.h"
#include "model/layers/gated_attention.h"
#include "model/layers/gated_delta_net.h"
#include "model/layers/moe.h"
#include "model/step_batch.h"
#include "model/weight_binder.h"

namespace chimere::model {
namespace {

constexpr const char* kName = "qwen35moe";

struct Layer {
  const float* mixer_norm = nullptr;  ///< [n_embd]
  std::variant<GatedDeltaNet, GatedAttention> mixer;
  const float* moe_norm = nullptr;  ///< [n_embd]
  Moe moe;
};

struct Weights {
  WeightView embedding;  ///< [n_vocab, n_embd]
  std::vector<Layer> layers;
  const float* output_norm = nullptr;  ///< [n_embd]
  WeightView output;                   ///< [n_vocab, n_embd]
};

class Qwen35Moe final : public Model {
 public:
  Qwen35Moe(const gguf::Reader& file, kernels::Ops& ops, int max_step_rows, Hparams hparams,
            Weights weights, int64_t active_bytes, std::unique_ptr<state::StateStore> states,
            Workspace workspace)
      : file_(file),
        ops_(ops),
        max_step_rows_(max_step_rows),
        hparams_(std::move(hparams)),
        weights_(std::move(weights)),
        active_bytes_(active_bytes),
        states_(std::move(states)),
        workspace_(std::move(workspace)) {}

  const std::string& architecture() const override { return hparams_.architecture; }
  int64_t n_vocab() const override { return hparams_.n_vocab; }
  int64_t context_length() const override { return hparams_.context_length; }
  int64_t active_weight_bytes() const override { return active_bytes_; }
  state::StateStore& states() override { return *states_; }

  Result<StepResult> forward(const StepPlan& plan) override;

 private:
  const gguf::Reader& file_;
  kernels::Ops& ops_;
  int max_step_rows_;
  Hparams hparams_;
  Weights weights_;
  int64_t active_bytes_;
  std::unique_ptr<state::StateStore> states_;
  Workspace workspace_;
};

Result<StepResult> Qwen35Moe::forward(const StepPlan& plan) {
  CHIMERE_CHECK_OK(file_.check_unchanged());
  CHIMERE_TRY(StepBatch step, StepBatch::prepare(plan, *states_, hparams_.n_vocab, max_step_rows_));
  const kernels::BatchView batch = step.view();
  const Activations act = workspace_.lay_out(hparams_, step.n_rows(), step.n_wanted());
  const float eps = hparams_.norm_eps;

  ops_.embed(weights_.embedding, step.tokens(), act.x);
  for (const Layer& layer : weights_.layers) {
    ops_.rms_norm(act.x, layer.mixer_norm, eps, act.h);
    std::visit([&](const auto& mixer) { mixer.forward(ops_, hparams_, batch, act); }, layer.mixer);
    ops_.rms_norm(act.x, layer.moe_norm, eps, act.h);
    layer.moe.forward(ops_, act);
  }

  for (const WantedRun& run : step.wanted()) {
    ops_.rms_norm(act.x.rows_from(run.row_begin, run.count), weights_.output_norm, eps,
                  act.head.rows_from(run.out_begin, run.count));
  }
  if (step.n_wanted() > 0) {
    const kernels::LinearJob head[] = {{weights_.output, act.logits}};
    ops_.linear(act.head, head);
  }
  step.finish();
  return StepResult{act.logits};
}

std::string block_prefix(int layer) { return "blk." + std::to_string(layer) + "."; }

Layer bind_layer(WeightBinder& bind, const Hparams& h, int index) {
  const std::string block = block_prefix(index);
  Layer layer;
  layer.mixer_norm = bind.vector(block + "attn_norm.weight", h.n_embd);
  if (index < h.n_layers && h.recurrent[static_cast<size_t>(index)]) {
    layer.mixer = GatedDeltaNet::bind(bind, block, h);
  } else {
    layer.mixer = GatedAttention::bind(bind, block, h);
  }
  layer.moe_norm = bind.vector(block + "post_attention_norm.weight", h.n_embd);
  layer.moe = Moe::bind(bind, block, h);
  return layer;
}

Weights bind_weights(WeightBinder& bind, const Hparams& h) {
  Weights w;
  w.embedding = bind.table("token_embd.weight", h.n_vocab, h.n_embd);
  for (int i = 0; i < h.n_layers; ++i) w.layers.push_back(bind_layer(bind, h, i));
  w.output_norm = bind.vector("output_norm.weight", h.n_embd);
  // Without a head of its own, a model uses the embedding table.
  const bool tied = !bind.has("output.weight");
  w.output = bind.matrix(tied ? "token_embd.weight" : "output.weight", h.n_vocab, h.n_embd);
  return w;
}

/// The blocks that predict further tokens are checked, so that a damaged file is found out at once,
/// but a plain step does not run them.
void check_mtp_weights(WeightBinder& bind, const Hparams& h) {
  for (int i = h.n_layers; i < h.n_layers + h.n_mtp_layers; ++i) {
    bind_layer(bind, h, i);
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

void attach_states(Weights& weights, const HybridStates& states) {
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

Result<std::unique_ptr<Model>> load_qwen35moe(const gguf::Reader& file, kernels::Ops& ops,
                                              const ModelOptions& options) {
  CHIMERE_CHECK_OK(file.check_unchanged());
  CHIMERE_TRY(Hparams hparams, read_hparams(file, kName));
  WeightBinder bind(file);
  Weights weights = bind_weights(bind, hparams);
  const int64_t active_bytes = bind.active_bytes();
  check_mtp_weights(bind, hparams);
  CHIMERE_CHECK_OK(bind.finish());

  CHIMERE_TRY(HybridStates states,
              make_hybrid_states(hparams, ops, options, model_key(file, kName)));
  attach_states(weights, states);
  CHIMERE_TRY(Workspace workspace, Workspace::create(hparams, options.max_step_rows));
  return std::unique_ptr<Model>(std::make_unique<Qwen35Moe>(
      file, ops, options.max_step_rows, std::move(hparams), std::move(weights), active_bytes,
      std::move(states.store), std::move(workspace)));
}

}  // namespace chimere::model
