// A model made of layers: its weights, the states of its sequences, and its steps.
#ifndef CHIMERE_MODEL_LAYERED_MODEL_H_
#define CHIMERE_MODEL_LAYERED_MODEL_H_

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/buffer_layout.h"
#include "model/model.h"
#include "model/model_spec.h"
#include "model/model_weights.h"
#include "model/step_batch.h"
#include "model/step_buffers.h"

namespace chimere::model {

class LayeredModel final : public Model {
 public:
  /// Parts made by load_model().
  LayeredModel(const gguf::Reader& file, kernels::Ops& ops, int max_step_rows, ModelSpec spec,
               ModelWeights weights, std::unique_ptr<state::StateStore> states,
               std::array<Workspace, 2> workspaces, std::unique_ptr<MemoryRange> expert_use)
      : file_(file),
        ops_(ops),
        max_step_rows_(max_step_rows),
        spec_(std::move(spec)),
        weights_(std::move(weights)),
        states_(std::move(states)),
        workspaces_(std::move(workspaces)),
        expert_use_(std::move(expert_use)) {}
  ~LayeredModel() override { (void)finish_context(); }
  LayeredModel(const LayeredModel&) = delete;
  LayeredModel& operator=(const LayeredModel&) = delete;

  const std::string& architecture() const override { return spec_.architecture; }
  int64_t n_vocab() const override { return spec_.n_vocab; }
  int64_t n_embd() const override { return spec_.n_embd; }
  int32_t n_layers() const override { return static_cast<int32_t>(weights_.layers.size()); }
  int64_t n_outputs() const override { return spec_.n_outputs(); }
  Pooling pooling() const override { return spec_.pooling; }
  bool embeds() const override { return spec_.embeds(); }
  bool encoder() const override { return spec_.encoder; }
  const std::string& left_out() const override { return weights_.left_out; }
  const RankHead* rank_head() const override { return weights_.rank_head.get(); }
  bool has_segments() const override { return weights_.input.has_segments(); }
  int64_t context_length() const override { return spec_.context_length; }
  int64_t max_step_rows() const override { return max_step_rows_; }
  const BlockDraft* block_draft() const override {
    return spec_.block_draft ? &*spec_.block_draft : nullptr;
  }
  int64_t active_weight_bytes() const override { return weights_.active_bytes; }
  int64_t step_bytes(int64_t rows, int64_t wanted) const override {
    return step_buffer_bytes(spec_, weights_, rows, wanted);
  }
  int64_t gpu_scratch_bytes(int64_t rows) const override;
  int64_t draft_step_bytes(int64_t rows) const override;
  bool logits_on_gpu() const override { return on_gpu(); }
  Memory& memory() override { return ops_.memory(); }
  state::StateStore& states() override { return *states_; }
  Result<kernels::ExpertUse> expert_use() override;

  std::span<const AdapterTarget> adapter_targets() const override { return weights_.targets; }
  Result<int32_t> add_adapter(Adapter adapter) override;
  bool has_adapter(int32_t number) const override { return adapters_.contains(number); }
  void drop_adapter(int32_t number) override;

  Result<StepResult> forward(const StepPlan& plan) override;
  bool can_interleave() const override { return ops_.can_interleave(); }
  bool has_drafts() const override { return weights_.mtp != nullptr; }
  Status draft(std::span<const DraftStart> starts, int depth, const ChooseDraft& choose) override;
  Status read_logits(int64_t row, std::span<float> out) override;
  Status read_taps(int64_t first_row, std::span<float> out) override;
  bool supports_overlap() const override { return ops_.supports_overlap(); }
  int64_t first_steps() const override { return ops_.first_steps(); }
  Status finish_context() override;
  Status launch(const StepPlan& plan) override;
  Result<StepResult> wait() override;

 private:
  /// A step whose ops have been issued.
  struct Started {
    StepBatch step;
    MatrixView logits;  ///< of its requested rows
    std::vector<ConstMatrixView> taps;
  };
  Result<Started> start(const StepPlan& given);
  Result<StepPlan> with_vectors(const StepPlan& plan) const;
  /// All its rows are context rows of this block drafter.
  bool is_context(const StepPlan& plan) const;
  Result<StepResult> wait_for(const MatrixView& logits);
  /// Copies SequenceRows::tapped of all sequences, one after the other.
  Status copy_tapped(const StepPlan& plan, const MatrixView& context);
  /// StepInputs::async_from: for each row of the plan, the index of its sequence's choice in the
  /// previous step, or ~token; empty if the host knows all tokens and may prepare their embedding
  /// rows. Errors: kInvalidArgument (the previous step chose no token for a sequence).
  Result<std::vector<int32_t>> async_from(const StepPlan& plan) const;
  bool on_gpu() const { return &ops_.memory() != &host_memory(); }
  /// Call it when a step has ended, before its results are used: unreadable pages of the file read
  /// as zeros. Errors: kIo (the file was changed or could not be read).
  Status check_file() const;
  /// Invalidates the buffers of the previous call.
  Result<StepBuffers> lay_out(int64_t rows, int64_t wanted);
  /// Memory for the outputs of `n` tapped layers.
  Result<std::vector<MatrixView>> lay_out_taps(size_t n, int64_t rows);
  /// StepInputs::pass: the same for steps that issue the same ops.
  int32_t pass_number(bool update_draft_kv, std::span<const int32_t> taps);
  /// Makes these rows of `hidden` the `before` of the next drafts.
  Status resume_from(const StepBuffers& from, std::span<const int32_t> rows);

  const gguf::Reader& file_;
  kernels::Ops& ops_;
  int max_step_rows_;
  ModelSpec spec_;
  ModelWeights weights_;
  std::unique_ptr<state::StateStore> states_;
  std::array<Workspace, 2> workspaces_;  ///< [0]: of a step; [1]: of the steps interleaved with it
  bool interleaving_ = false;
  bool context_issued_ = false;  ///< a step of context rows, for finish_context()
  /// Outputs of tapped layers, for workspaces_; nullptr until a step has taps.
  std::array<std::unique_ptr<MemoryRange>, 2> tap_memory_;
  std::vector<std::vector<int32_t>> tap_sets_;  ///< every list of taps that a step has had
  ConstMatrixView partial_rows_;                ///< logits of the rows of the last step's `top`
  std::vector<ConstMatrixView> taps_;           ///< of the last step
  std::deque<MatrixView> in_flight_;            ///< logits of launched steps, oldest first
  /// The sequences whose tokens the last step chooses, in the order of its choices; compared, never
  /// dereferenced.
  std::vector<const state::SequenceState*> chosen_for_;
  std::map<int32_t, Adapter> adapters_;      ///< by number; ops read their memory
  std::unique_ptr<MemoryRange> expert_use_;  ///< an ExpertUse; nullptr: no row skips experts
};

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_LAYERED_MODEL_H_
