#include "model/hybrid_model.h"

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/draft_chains.h"
#include "model/hybrid_states.h"
#include "model/weight_binder.h"

namespace chimere::model {
namespace {

/// Passes that Ops::run_step distinguishes (StepInputs::pass).
enum Pass : int32_t { kPlain, kUpdatesDraftKv, kFirstDraft, kNextDraft };

class HybridModel final : public Model {
 public:
  HybridModel(const gguf::Reader& file, kernels::Ops& ops, int max_step_rows, Hparams hparams,
              HybridWeights weights, HybridForward run, std::unique_ptr<state::StateStore> states,
              std::array<Workspace, 2> workspaces, std::unique_ptr<MemoryRange> expert_use)
      : file_(file),
        ops_(ops),
        max_step_rows_(max_step_rows),
        hparams_(std::move(hparams)),
        weights_(std::move(weights)),
        run_(run),
        states_(std::move(states)),
        workspaces_(std::move(workspaces)),
        expert_use_(std::move(expert_use)) {}

  const std::string& architecture() const override { return hparams_.architecture; }
  int64_t n_vocab() const override { return hparams_.n_vocab; }
  int64_t n_outputs() const override { return hparams_.n_outputs(); }
  Pooling pooling() const override { return hparams_.pooling; }
  int64_t context_length() const override { return hparams_.context_length; }
  int64_t active_weight_bytes() const override { return weights_.active_bytes; }
  int64_t step_bytes(int64_t rows, int64_t wanted) const override {
    return Workspace::bytes(hparams_, rows, wanted);
  }
  int64_t gpu_scratch_bytes(int64_t rows) const override;
  bool logits_on_gpu() const override { return on_gpu(); }
  state::StateStore& states() override { return *states_; }
  Result<kernels::ExpertUse> expert_use() override;

  Result<StepResult> forward(const StepPlan& plan) override;
  bool can_interleave() const override { return ops_.can_interleave(); }
  bool has_drafts() const override { return weights_.mtp.has_value(); }
  Status draft(std::span<const DraftStart> starts, int depth, const ChooseDraft& choose) override;
  Status read_logits(int64_t row, std::span<float> out) override;
  bool supports_overlap() const override { return ops_.supports_overlap(); }
  Status launch(const StepPlan& plan) override;
  Result<StepResult> wait() override;

 private:
  /// A step whose ops have been issued.
  struct Started {
    StepBatch step;
    MatrixView logits;  ///< of its requested rows
  };
  Result<Started> start(const StepPlan& plan);
  Result<StepResult> wait_for(const MatrixView& logits);
  /// For each sequence of the plan, the index of its choice in the previous step. Errors:
  /// kInvalidArgument (it had none).
  Result<std::vector<int32_t>> async_from(const StepPlan& plan) const;
  bool on_gpu() const { return &ops_.memory() != &host_memory(); }
  Workspace& workspace() { return workspaces_[interleaving_ ? 1 : 0]; }
  /// Makes these rows of `hidden` the `before` of the next drafts.
  Status resume_from(const StepBuffers& from, std::span<const int32_t> rows);

  const gguf::Reader& file_;
  kernels::Ops& ops_;
  int max_step_rows_;
  Hparams hparams_;
  HybridWeights weights_;
  HybridForward run_;
  std::unique_ptr<state::StateStore> states_;
  std::array<Workspace, 2> workspaces_;  ///< [0]: of a step; [1]: of the steps interleaved with it
  bool interleaving_ = false;
  ConstMatrixView partial_rows_;      ///< logits of the rows of the last step's `top`
  std::deque<MatrixView> in_flight_;  ///< logits of launched steps, oldest first
  /// The sequences whose tokens the last step chooses, in the order of its choices; compared, never
  /// dereferenced.
  std::vector<const state::SequenceState*> chosen_for_;
  const int32_t* chosen_ = nullptr;          ///< the choices of chosen_for_, in Ops::memory()
  std::unique_ptr<MemoryRange> expert_use_;  ///< an ExpertUse; nullptr: all experts are used
};

int64_t HybridModel::gpu_scratch_bytes(int64_t rows) const {
  const kernels::GdnShape& gdn = hparams_.delta_net;
  const MoeShape& moe = hparams_.moe;
  const int64_t n_embd = hparams_.n_embd;
  const int64_t n_ff = std::max({moe.n_ff, moe.n_ff_shared, hparams_.n_ff});
  const int64_t attention = int64_t{hparams_.attention.n_heads} * hparams_.attention.head_dim;
  // The MTP head joins two rows of n_embd into one.
  const int64_t joined = has_drafts() ? 2 * n_embd : n_embd;
  const int64_t widest = std::max({joined, n_ff, int64_t{gdn.value_dim()}, attention});
  // Activations rounded to bytes and to f16, with their scales.
  const int64_t rounded = widest * 4;
  // For each expert of a row, its inner activations and its result.
  const int64_t experts = (moe.n_used + 1) * (std::max(n_embd, n_ff) * 4 + n_ff * 2 + int64_t{16});
  // The part of a chunk of the delta rule that is computed before its state is known.
  const int64_t chunk = kernels::kMaxChunkRows;
  const int64_t delta =
      (gdn.n_k_heads * 2 * chunk + gdn.n_v_heads * (2 * gdn.head_dim + chunk)) * 4;
  return rows * (rounded + std::max(moe.n_experts > 0 ? experts : 0, delta));
}

Result<kernels::ExpertUse> HybridModel::expert_use() {
  kernels::ExpertUse use;
  if (expert_use_ == nullptr) return use;
  CHIMERE_CHECK_OK(ops_.memory().read(&use, expert_use_->data(), sizeof(use)));
  return use;
}

Result<std::vector<int32_t>> HybridModel::async_from(const StepPlan& plan) const {
  std::vector<int32_t> places;
  for (const SequenceRows& rows : plan.sequences) {
    if (!rows.async_token) continue;
    const auto found = std::ranges::find(chosen_for_, rows.state);
    if (found == chosen_for_.end()) {
      return invalid_argument(
          "a sequence has async_token, but the previous step chose no token for it");
    }
    places.push_back(static_cast<int32_t>(found - chosen_for_.begin()));
  }
  return places;
}

Result<HybridModel::Started> HybridModel::start(const StepPlan& plan) {
  partial_rows_ = {};
  CHIMERE_CHECK_OK(file_.check_unchanged());
  CHIMERE_TRY(const std::vector<int32_t> async_token, async_from(plan));
  CHIMERE_TRY(StepBatch step, StepBatch::prepare(plan, *states_, hparams_.n_vocab, max_step_rows_));
  if ((step.async_token() || !step.choices().empty()) && !supports_overlap()) {
    return invalid_argument(
        "this model does not support overlap scheduling; leave `choice` and `async_token` unset");
  }
  const auto n_wanted = static_cast<int64_t>(step.wanted_rows().size());
  CHIMERE_TRY(StepBuffers buffers, workspace().lay_out(hparams_, step.n_rows(), n_wanted));
  if (expert_use_ != nullptr) {
    auto* const use = reinterpret_cast<kernels::ExpertUse*>(expert_use_->data());
    buffers.all.moe.use = buffers.wanted.moe.use = use;
    buffers.all.moe.classes = step.row_classes();
    buffers.wanted.moe.classes = step.wanted_classes();
  }
  const bool update_draft_kv = weights_.mtp.has_value() && plan.update_draft_kv;
  std::function<void()> interleave;
  // On a GPU, a step with only decode rows replays a captured graph, which cannot call back.
  const bool interleave_supported =
      !on_gpu() ||
      std::ranges::find(step.row_classes(), RowClass::kPrefill) != step.row_classes().end();
  Status interleaved;
  if (plan.interleave && can_interleave() && interleave_supported && !interleaving_) {
    interleave = [&] {
      const Status done = ops_.interleaved_step([&] {
        interleaving_ = true;
        plan.interleave();
        interleaving_ = false;
      });
      if (!done.ok()) interleaved = done;
    };
  }
  HybridPass pass(ops_, hparams_, weights_, step, buffers, update_draft_kv, interleave);
  CHIMERE_CHECK_OK(ops_.launch_step(
      {step.view(), step.tokens(), step.wanted_rows(), step.selected(),
       update_draft_kv ? kUpdatesDraftKv : kPlain, step.choices(), async_token, chosen_},
      pass.outputs(), [&] {
        run_(pass);
        if (!weights_.mtp || update_draft_kv) return;
        // The hidden state without the last layer's network: cheaper, and it replaces a state of
        // another sequence that the slot might still hold.
        ops_.shift_rows(step.view(), buffers.all.x, weights_.mtp->last_hidden, buffers.mtp.before);
      }));
  CHIMERE_CHECK_OK(interleaved);
  chosen_for_.clear();
  if (!step.choices().empty()) {
    for (const SequenceRows& rows : plan.sequences) chosen_for_.push_back(rows.state);
    chosen_ = buffers.chosen;
  }
  return Started{std::move(step), buffers.logits};
}

Result<StepResult> HybridModel::wait_for(const MatrixView& logits) {
  CHIMERE_TRY(const kernels::StepOutputs outputs, ops_.wait_for_step());
  // Unreadable pages were replaced by zeros: discard the result.
  CHIMERE_CHECK_OK(file_.check_unchanged());
  partial_rows_ = logits.rows_from(logits.rows - outputs.top.rows, outputs.top.rows);
  return StepResult{outputs.logits, outputs.top, outputs.selected, outputs.sums, outputs.chosen};
}

Result<StepResult> HybridModel::forward(const StepPlan& plan) {
  CHIMERE_TRY(Started started, start(plan));
  CHIMERE_TRY(StepResult result, wait_for(started.logits));
  started.step.finish();
  return result;
}

Status HybridModel::launch(const StepPlan& plan) {
  const bool chooses = std::ranges::all_of(
      plan.sequences, [](const SequenceRows& rows) { return rows.choice.has_value(); });
  if (!chooses || in_flight_.size() > 1) {
    return invalid_argument(
        "every sequence of a launched step needs a choice, and at most two steps may be in flight");
  }
  CHIMERE_TRY(Started started, start(plan));
  started.step.finish();
  in_flight_.push_back(started.logits);
  return {};
}

Result<StepResult> HybridModel::wait() {
  if (in_flight_.empty()) return Model::wait();
  const MatrixView logits = in_flight_.front();
  in_flight_.pop_front();
  Result<StepResult> result = wait_for(logits);
  if (!in_flight_.empty()) partial_rows_ = {};  // the next step writes there
  return result;
}

Status HybridModel::read_logits(int64_t row, std::span<float> out) {
  if (row < 0 || row >= partial_rows_.rows ||
      out.size() != static_cast<size_t>(partial_rows_.cols)) {
    return Model::read_logits(row, out);
  }
  return ops_.memory().read(out.data(), partial_rows_.row(row), out.size_bytes());
}

Status HybridModel::draft(std::span<const DraftStart> starts, int depth,
                          const ChooseDraft& choose) {
  if (!has_drafts()) return Model::draft(starts, depth, choose);
  partial_rows_ = {};
  CHIMERE_CHECK_OK(file_.check_unchanged());
  CHIMERE_TRY(DraftChains chains,
              DraftChains::prepare(starts, depth, *states_, hparams_.n_vocab, max_step_rows_));
  const MtpBlock& mtp = *weights_.mtp;
  for (int d = 0; d < depth && !chains.done(); ++d) {
    const kernels::BatchView batch = chains.view();
    CHIMERE_TRY(const StepBuffers buffers,
                workspace().lay_out(hparams_, batch.n_rows, batch.n_rows));
    const MatrixView wanted = {buffers.logits.data, batch.n_rows, mtp.head.n_out, mtp.head.n_out};
    const bool first = d == 0;
    CHIMERE_TRY(
        const kernels::StepOutputs outputs,
        ops_.run_step(
            {batch, chains.tokens(), {}, {}, first ? kFirstDraft : kNextDraft}, {wanted, {}}, [&] {
              // No row has a write slot, so `hidden` is not read.
              if (first)
                ops_.shift_rows(batch, buffers.mtp.hidden, mtp.last_hidden, buffers.mtp.before);
              mtp.predict(ops_, hparams_, batch, chains.tokens(), buffers, wanted);
            }));
    CHIMERE_CHECK_OK(file_.check_unchanged());
    const std::vector<int32_t> kept = chains.advance(outputs.logits, choose);
    if (kept.empty()) break;
    CHIMERE_CHECK_OK(resume_from(buffers, kept));
  }
  return {};
}

Status HybridModel::resume_from(const StepBuffers& from, std::span<const int32_t> rows) {
  const MatrixView& hidden = from.mtp.hidden;
  Memory& memory = ops_.memory();
  const auto n = static_cast<int64_t>(rows.size());
  const auto bytes_of = [&](int64_t count) {
    return static_cast<size_t>(count * hidden.cols) * sizeof(float);
  };
  // With fewer rows, `before` has another address and may overlap `hidden`.
  CHIMERE_TRY(const StepBuffers next, workspace().lay_out(hparams_, n, n));
  if (n == hidden.rows) return memory.copy(next.mtp.before.data, hidden.data, bytes_of(n));
  const MatrixView packed = {from.all.x.data, n, hidden.cols, hidden.cols};
  for (int64_t i = 0; i < n; ++i) {
    CHIMERE_CHECK_OK(
        memory.copy(packed.row(i), hidden.row(rows[static_cast<size_t>(i)]), bytes_of(1)));
  }
  return memory.copy(next.mtp.before.data, packed.data, bytes_of(n));
}

std::string block_prefix(int layer) { return "blk." + std::to_string(layer) + "."; }

HybridLayer bind_layer(WeightBinder& bind, const Hparams& h, const HybridKind& kind,
                       const std::string& block, bool recurrent) {
  HybridLayer layer;
  layer.mixer_norm = bind.vector(block + "attn_norm.weight", h.n_embd);
  if (recurrent) {
    layer.mixer = GatedDeltaNet::bind(bind, block, h);
  } else {
    layer.mixer = SelfAttention::bind(bind, block, h);
  }
  const char* const ffn_norm = kind.transformer ? "ffn_norm.weight" : "post_attention_norm.weight";
  layer.ffn_norm = bind.vector(block + ffn_norm, h.n_embd);
  if (h.n_ff > 0) {
    layer.ffn = DenseFfn::bind(bind, block, h);
  } else {
    layer.ffn = Moe::bind(bind, block, h);
  }
  return layer;
}

HybridWeights bind_weights(WeightBinder& bind, const Hparams& h, const HybridKind& kind) {
  HybridWeights w;
  w.embedding = bind.table("token_embd.weight", h.n_vocab, h.n_embd);
  for (int i = 0; i < h.n_layers; ++i) {
    const bool recurrent = h.recurrent[static_cast<size_t>(i)];
    w.layers.push_back(bind_layer(bind, h, kind, block_prefix(i), recurrent));
  }
  w.output_norm = bind.vector("output_norm.weight", h.n_embd);
  // A model without an output head of its own uses the embedding table.
  const bool tied = !bind.has("output.weight");
  if (h.pooling == Pooling::kNone || !tied) {
    w.output = bind.matrix(tied ? "token_embd.weight" : "output.weight", h.n_vocab, h.n_embd);
  }
  w.active_bytes = bind.active_bytes();
  if (h.pooling != Pooling::kNone) w.output = {};  // never read, even if the file has it
  return w;
}

/// The MTP heads of the file: the first is bound, the others are checked.
MtpBlock bind_mtp(WeightBinder& bind, const Hparams& h, const HybridWeights& w,
                  int64_t draft_tokens) {
  std::vector<MtpBlock> blocks;
  for (int i = h.n_layers; i < h.n_layers + h.n_mtp_layers; ++i) {
    blocks.push_back(MtpBlock::bind(bind, block_prefix(i), h, w.embedding, w.output_norm, w.output,
                                    draft_tokens));
  }
  return blocks.front();
}

/// Puts the weights where ops read them. The embedding table stays in the mapped file, because a
/// token needs one row of it; ops with supports_overlap() keep a table of their own.
Status place_weights(HybridWeights& w, kernels::Ops& ops, const Hparams& h) {
  for (HybridLayer& layer : w.layers) {
    CHIMERE_TRY(layer.mixer_norm, ops.place_floats(layer.mixer_norm, h.n_embd));
    CHIMERE_CHECK_OK(std::visit([&](auto& mixer) { return mixer.place(ops, h); }, layer.mixer));
    CHIMERE_TRY(layer.ffn_norm, ops.place_floats(layer.ffn_norm, h.n_embd));
    CHIMERE_CHECK_OK(std::visit([&](auto& ffn) { return ffn.place(ops); }, layer.ffn));
  }
  CHIMERE_TRY(w.output_norm, ops.place_floats(w.output_norm, h.n_embd));
  if (h.pooling != Pooling::kNone) return {};
  CHIMERE_CHECK_OK(ops.prepare_table(w.embedding));
  const WeightView output = w.output;
  CHIMERE_TRY(w.output, ops.place(output));
  return w.mtp ? w.mtp->place(ops, h, output, w.output) : Status();
}

/// Memory for the counters of the experts that decode rows use, if any may be skipped.
Result<std::unique_ptr<MemoryRange>> make_expert_use(const Hparams& h, Memory& memory) {
  std::unique_ptr<MemoryRange> range;
  if (h.moe.top_p >= 1) return range;
  CHIMERE_TRY(range, memory.reserve(sizeof(kernels::ExpertUse)));
  CHIMERE_CHECK_OK(range->commit(sizeof(kernels::ExpertUse)));
  CHIMERE_CHECK_OK(memory.clear(range->data(), sizeof(kernels::ExpertUse)));
  return range;
}

void attach_states(HybridWeights& weights, const HybridStates& states) {
  for (size_t i = 0; i < weights.layers.size(); ++i) {
    if (auto* net = std::get_if<GatedDeltaNet>(&weights.layers[i].mixer)) {
      net->conv_state = states.layers[i].conv;
      net->scan_state = states.layers[i].scan;
    } else {
      std::get<SelfAttention>(weights.layers[i].mixer).kv = states.layers[i].kv;
    }
  }
  if (weights.mtp) {
    weights.mtp->attention.kv = states.mtp_kv;
    weights.mtp->last_hidden = states.last_hidden;
  }
}

}  // namespace

void HybridPass::embed() { ops_.embed(weights_.embedding, step_.tokens(), {}, rows().x); }

void HybridPass::norm(const float* weight) {
  ops_.rms_norm(rows().x, weight, hparams_.norm_eps, rows().h);
}

void HybridPass::mix(const HybridLayer& layer) {
  std::visit([&](const auto& mixer) { mixer.forward(ops_, hparams_, batch_, rows()); },
             layer.mixer);
  if (interleave_) interleave_();
}

void HybridPass::feed_forward(const HybridLayer& layer) {
  std::visit([&](const auto& ffn) { ffn.forward(ops_, rows()); }, layer.ffn);
  if (interleave_) interleave_();
}

bool HybridPass::keep_wanted_rows() {
  if (update_draft_kv_) return true;
  if (step_.wanted_rows().empty()) return false;
  ops_.select_rows(buffers_.all.x, step_.wanted_rows(), buffers_.wanted.x);
  only_wanted_ = true;
  return true;
}

kernels::StepOutputs HybridPass::outputs() const {
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

void HybridPass::project(const MatrixView& hidden) {
  const kernels::LinearJob output[] = {{weights_.output, buffers_.logits}};
  ops_.linear(hidden, output);
  find_top();
}

void HybridPass::find_top() {
  const kernels::StepOutputs out = outputs();
  if (out.top.rows == 0) return;
  const MatrixView logits = buffers_.logits.rows_from(step_.n_full_rows(), out.top.rows);
  if (out.sums != nullptr) ops_.log_sum_exp(logits, out.sums);
  if (out.selected.count > 0) ops_.gather_logits(logits, step_.selected(), out.selected);
  ops_.top_logits(logits, out.top);
  if (out.chosen != nullptr) ops_.choose(out.top, step_.choices(), out.chosen);
}

void HybridPass::head() {
  if (hparams_.pooling != Pooling::kNone) {
    ops_.rms_norm(rows().x, weights_.output_norm, hparams_.norm_eps, buffers_.logits);
    find_top();
    return;
  }
  if (!update_draft_kv_) {
    norm(weights_.output_norm);
    project(rows().h);
    return;
  }
  const MatrixView& hidden = buffers_.mtp.hidden;
  ops_.rms_norm(buffers_.all.x, weights_.output_norm, hparams_.norm_eps, hidden);
  const MtpBlock& mtp = *weights_.mtp;
  ops_.shift_rows(batch_, hidden, mtp.last_hidden, buffers_.mtp.before);
  mtp.append(ops_, hparams_, batch_, step_.tokens(), buffers_);
  if (step_.wanted_rows().empty()) return;
  ops_.select_rows(hidden, step_.wanted_rows(), buffers_.wanted.h);
  project(buffers_.wanted.h);
}

Result<std::unique_ptr<Model>> load_hybrid_model(const gguf::Reader& file, kernels::Ops& ops,
                                                 const ModelOptions& options,
                                                 const HybridKind& kind, HybridForward forward) {
  CHIMERE_CHECK_OK(file.check_unchanged());
  CHIMERE_TRY(Hparams hparams, read_hparams(file, kind));
  const bool possible = options.expert_top_p > 0 && options.expert_top_p <= 1;  // no NaN
  if (!possible) {
    return invalid_argument("expert_top_p must be above 0 and at most 1");
  }
  if (hparams.moe.n_experts > 0) hparams.moe.top_p = options.expert_top_p;
  WeightBinder bind(file);
  HybridWeights weights = bind_weights(bind, hparams, kind);
  if (hparams.n_mtp_layers > 0) {
    MtpBlock mtp = bind_mtp(bind, hparams, weights, options.draft_tokens);
    if (runs_mtp(options, hparams)) weights.mtp = std::move(mtp);
  }
  CHIMERE_CHECK_OK(bind.finish());
  weights.copies = bind.take_copies();
  CHIMERE_CHECK_OK(place_weights(weights, ops, hparams));

  CHIMERE_TRY(
      HybridStates states,
      make_hybrid_states(hparams, ops, options, model_key(file, kind.name, hparams.moe.top_p)));
  attach_states(weights, states);
  std::array<Workspace, 2> workspaces;
  for (Workspace& w : workspaces) {
    CHIMERE_TRY(w, Workspace::create(hparams, options.max_step_rows, ops.memory()));
  }
  CHIMERE_TRY(auto expert_use, make_expert_use(hparams, ops.memory()));
  // Pages that were truncated read as zeros: check that nothing copied or validated so far is one.
  CHIMERE_CHECK_OK(file.check_unchanged());
  return std::unique_ptr<Model>(std::make_unique<HybridModel>(
      file, ops, options.max_step_rows, std::move(hparams), std::move(weights), forward,
      std::move(states.store), std::move(workspaces), std::move(expert_use)));
}

}  // namespace chimere::model
