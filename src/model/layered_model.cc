#include "model/layered_model.h"

#include <algorithm>
#include <utility>

#include "model/draft_chains.h"
#include "model/forward_pass.h"

namespace chimere::model {
namespace {

/// Passes that Ops::run_step distinguishes (StepInputs::pass). kPlain and kUpdatesDraftKv without
/// taps; for the n-th list of taps, from 1 on, the same plus n * kPasses. kContext with vectors of
/// the host, kTappedContext without.
enum Pass : int32_t {
  kPlain,
  kUpdatesDraftKv,
  kFirstDraft,
  kNextDraft,
  kContext,
  kTappedContext,
  kPasses
};

}  // namespace

int64_t LayeredModel::gpu_scratch_bytes(int64_t rows) const {
  GpuScratch most = {.widest = std::max(spec_.n_embd, spec_.context_width())};
  const auto add = [&most](const GpuScratch& scratch) {
    most.widest = std::max(most.widest, scratch.widest);
    most.bytes = std::max(most.bytes, scratch.bytes);
  };
  weights_.for_each_sub_layer([&](const SubLayer& part) { add(part.gpu_scratch()); });
  if (has_drafts()) add(weights_.mtp->gpu_scratch());
  // Activations rounded to bytes and to f16, with their scales.
  const int64_t rounded = most.widest * 4;
  return rows * (rounded + most.bytes);
}

int64_t LayeredModel::draft_step_bytes(int64_t rows) const {
  if (!has_drafts()) return 0;
  BufferLayout measure;
  weights_.mtp->buffers(measure, rows);
  return measure.used();
}

Result<int32_t> LayeredModel::add_adapter(Adapter adapter) {
  const auto& targets = weights_.targets;
  if (adapter.low_rank.targets.size() != targets.size()) {
    return invalid_argument("the adapter is for a model with other matrices");
  }
  for (size_t t = 0; t < targets.size(); ++t) {
    if (!targets[t].in_experts || adapter.low_rank.targets[t].empty() || ops_.adapts_experts())
      continue;
    return unsupported("the adapter changes " + targets[t].tensor +
                       ", a matrix of experts, which GPUs cannot do yet; use --backend cpu");
  }
  CHIMERE_TRY(const int32_t number, ops_.place_adapter(adapter.low_rank));
  adapters_.emplace(number, std::move(adapter));
  return number;
}

void LayeredModel::drop_adapter(int32_t number) {
  if (!adapters_.contains(number)) return;
  ops_.drop_adapter(number);
  adapters_.erase(number);
}

Status LayeredModel::check_file() const {
  return ops_.reads_host_weights() ? file_.check_unchanged() : Status();
}

Result<StepBuffers> LayeredModel::lay_out(int64_t rows, int64_t wanted) {
  Workspace& workspace = workspaces_[interleaving_ ? 1 : 0];
  CHIMERE_TRY(BufferLayout at, workspace.begin(step_bytes(rows, wanted)));
  return lay_out_step(at, spec_, weights_, rows, wanted);
}

Result<kernels::ExpertUse> LayeredModel::expert_use() {
  kernels::ExpertUse use;
  if (expert_use_ == nullptr) return use;
  CHIMERE_CHECK_OK(ops_.memory().read(&use, expert_use_->data(), sizeof(use)));
  return use;
}

Result<std::vector<int32_t>> LayeredModel::async_from(const StepPlan& plan) const {
  std::vector<int32_t> places;
  // The host prepares embedding rows in memory that a step in flight may still read.
  if (in_flight_.empty() &&
      std::ranges::none_of(plan.sequences, [](const auto& rows) { return rows.async_token; })) {
    return places;
  }
  for (const SequenceRows& rows : plan.sequences) {
    if (!rows.async_token) {
      for (const int32_t token : rows.tokens) places.push_back(~token);
      continue;
    }
    const auto found = std::ranges::find(chosen_for_, rows.state);
    if (found == chosen_for_.end()) {
      return invalid_argument(
          "a sequence has async_token, but the previous step chose no token for it");
    }
    places.push_back(static_cast<int32_t>(found - chosen_for_.begin()));
  }
  return places;
}

/// The same plan with the input vectors of its rows in place of tokens, for models that add more
/// than one table's rows, and for block drafters, whose table has only the row of the mask.
Result<StepPlan> LayeredModel::with_vectors(const StepPlan& plan) const {
  StepPlan out = plan;
  for (SequenceRows& rows : out.sequences) {
    if (rows.second_segment != 0) {
      CHIMERE_CHECK_OK(weights_.input.check_segment(rows.second_segment, rows.tokens.size()));
    }
    if (weights_.input.empty() && !spec_.block_draft) continue;
    std::vector<int32_t> tokens;
    for (int32_t& token : rows.tokens) {
      if (spec_.block_draft && token == spec_.block_draft->mask_token) {
        token = BlockDraftWeights::kMask;
      } else {
        tokens.push_back(std::exchange(token, SequenceRows::kEmbeddingRow));
      }
    }
    CHIMERE_TRY(rows.embeddings,
                weights_.input.rows(tokens, rows.state->position(), rows.second_segment));
  }
  return out;
}

bool LayeredModel::is_context(const StepPlan& plan) const {
  return spec_.block_draft && std::ranges::all_of(plan.sequences, [](const SequenceRows& rows) {
           return std::ranges::all_of(rows.tokens,
                                      [](int32_t t) { return t == SequenceRows::kEmbeddingRow; });
         });
}

Result<LayeredModel::Started> LayeredModel::start(const StepPlan& given) {
  partial_rows_ = {};
  taps_.clear();
  std::optional<StepPlan> replaced;
  const bool context = is_context(given);
  const bool tapped = context && !given.sequences.empty() && !given.sequences[0].tapped.empty();
  if (spec_.encoder || (spec_.block_draft && !context)) {
    CHIMERE_TRY(replaced, with_vectors(given));
  }
  const StepPlan& plan = replaced ? *replaced : given;
  CHIMERE_TRY(const std::vector<int32_t> async_token, async_from(plan));
  uint64_t adapters = 0;
  for (const auto& [number, adapter] : adapters_) adapters |= uint64_t{1} << number;
  CHIMERE_TRY(StepBatch step,
              StepBatch::prepare(plan, *states_,
                                 {.n_vocab = spec_.n_vocab,
                                  .n_embd = context ? spec_.context_width() : spec_.n_embd,
                                  .n_layers = n_layers(),
                                  .max_rows = max_step_rows_,
                                  .adapters = adapters,
                                  .recurrent = weights_.recurrent(),
                                  .encoder = spec_.encoder,
                                  .context = context,
                                  .tapped = tapped}));
  if ((!async_token.empty() || !step.choices().empty()) && !supports_overlap()) {
    return invalid_argument(
        "this model does not support overlap scheduling; leave `choice` and `async_token` unset");
  }
  const auto n_wanted = static_cast<int64_t>(step.wanted_rows().size());
  CHIMERE_TRY(StepBuffers buffers, lay_out(step.n_rows(), n_wanted));
  CHIMERE_TRY(buffers.taps, lay_out_taps(plan.taps.size(), step.n_rows()));
  if (tapped) CHIMERE_CHECK_OK(copy_tapped(plan, buffers.context));
  // The MTP head reads tokens, which embedding rows do not have.
  const bool update_draft_kv = has_drafts() && plan.update_draft_kv && step.vectors().rows == 0;
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
  auto* const expert_use =
      expert_use_ != nullptr ? reinterpret_cast<kernels::ExpertUse*>(expert_use_->data()) : nullptr;
  int32_t number = pass_number(update_draft_kv, plan.taps);
  if (context) number = tapped ? kTappedContext : kContext;
  ForwardPass pass(ops_, spec_, weights_, step, buffers, update_draft_kv, expert_use, interleave);
  CHIMERE_CHECK_OK(ops_.launch_step({.batch = step.view(),
                                     .tokens = step.tokens(),
                                     .vectors = step.vectors(),
                                     .wanted_rows = step.wanted_rows(),
                                     .selected = step.selected(),
                                     .masks = step.masks(),
                                     .pass = number,
                                     .choices = step.choices(),
                                     .async_from = async_token,
                                     .async_token_from = buffers.chosen,
                                     .adapters = step.adapters()},
                                    pass.outputs(), [&] {
                                      if (context) {
                                        pass.append_context(/*vectors=*/!tapped);
                                      } else {
                                        pass.run();
                                      }
                                    }));
  if (!interleaved.ok()) {
    // The launched steps still use the buffers.
    for (size_t n = in_flight_.size() + 1; n > 0; --n) (void)ops_.wait_for_step();
    in_flight_.clear();
    return std::move(interleaved).error();
  }
  chosen_for_.clear();
  for (const SequenceRows& rows : plan.sequences) {
    if (rows.choice) chosen_for_.push_back(rows.state);
  }
  return Started{std::move(step), buffers.logits, {buffers.taps.begin(), buffers.taps.end()}};
}

int32_t LayeredModel::pass_number(bool update_draft_kv, std::span<const int32_t> taps) {
  const int32_t pass = update_draft_kv ? kUpdatesDraftKv : kPlain;
  if (taps.empty()) return pass;
  const auto known = std::ranges::find_if(
      tap_sets_, [&](const std::vector<int32_t>& set) { return std::ranges::equal(set, taps); });
  const auto place = static_cast<int32_t>(known - tap_sets_.begin());
  if (known == tap_sets_.end()) tap_sets_.emplace_back(taps.begin(), taps.end());
  return pass + (1 + place) * kPasses;
}

Result<std::vector<MatrixView>> LayeredModel::lay_out_taps(size_t n, int64_t rows) {
  std::vector<MatrixView> taps;
  if (n == 0) return taps;
  std::unique_ptr<MemoryRange>& range = tap_memory_[interleaving_ ? 1 : 0];
  const auto bytes_of = [&](size_t layers, int64_t layer_rows) {
    return layers * static_cast<size_t>(layer_rows * spec_.n_embd) * sizeof(float);
  };
  if (range == nullptr) {
    CHIMERE_TRY(range, ops_.memory().reserve(bytes_of(weights_.layers.size(), max_step_rows_)));
  }
  CHIMERE_CHECK_OK(range->commit(bytes_of(n, rows)));
  auto* at = reinterpret_cast<float*>(range->data());
  const int64_t stride = static_cast<int64_t>(n) * spec_.n_embd;
  for (size_t i = 0; i < n; ++i, at += spec_.n_embd) {
    taps.push_back({at, rows, spec_.n_embd, stride});
  }
  return taps;
}

Status LayeredModel::copy_tapped(const StepPlan& plan, const MatrixView& context) {
  Memory& memory = ops_.memory();
  const auto bytes_of = [](int64_t n) { return static_cast<size_t>(n) * sizeof(float); };
  int64_t first_row = 0;
  for (const SequenceRows& rows : plan.sequences) {
    const ConstMatrixView& first = rows.tapped.front();
    // As one model gives the outputs that another one reads.
    bool adjacent = first.stride == context.cols;
    for (size_t i = 0; i < rows.tapped.size(); ++i) {
      const auto begin = static_cast<int64_t>(i) * spec_.n_embd;
      adjacent = adjacent && rows.tapped[i].data == first.data + begin &&
                 rows.tapped[i].stride == first.stride;
    }
    if (adjacent) {
      CHIMERE_CHECK_OK(
          memory.copy(context.row(first_row), first.data, bytes_of(first.rows * context.cols)));
      first_row += first.rows;
      continue;
    }
    for (int64_t r = 0; r < first.rows; ++r, ++first_row) {
      float* to = context.row(first_row);
      for (const ConstMatrixView& tap : rows.tapped) {
        CHIMERE_CHECK_OK(memory.copy(to, tap.row(r), bytes_of(tap.cols)));
        to += tap.cols;
      }
    }
  }
  return {};
}

Status LayeredModel::finish_context() {
  if (!std::exchange(context_issued_, false)) return {};
  const auto done = ops_.wait_for_step();
  return done.ok() ? Status() : done.error();
}

Result<StepResult> LayeredModel::wait_for(const MatrixView& logits) {
  CHIMERE_TRY(const kernels::StepOutputs outputs, ops_.wait_for_step());
  CHIMERE_CHECK_OK(check_file());
  partial_rows_ = logits.rows_from(logits.rows - outputs.top.rows, outputs.top.rows);
  return StepResult{outputs.logits, outputs.top, outputs.selected, outputs.sums, outputs.chosen};
}

Result<StepResult> LayeredModel::forward(const StepPlan& plan) {
  if (is_context(plan)) {
    CHIMERE_CHECK_OK(finish_context());
    CHIMERE_TRY(Started started, start(plan));
    context_issued_ = true;
    started.step.finish();
    return StepResult();
  }
  CHIMERE_TRY(Started started, start(plan));
  const Status context = finish_context();
  CHIMERE_TRY(StepResult result, wait_for(started.logits));
  CHIMERE_CHECK_OK(context);
  started.step.finish();
  result.taps = taps_ = std::move(started.taps);
  return result;
}

Status LayeredModel::launch(const StepPlan& plan) {
  const bool chooses = std::ranges::all_of(plan.sequences, [](const SequenceRows& rows) {
    return rows.choice.has_value() || rows.logits_of.empty();
  });
  if (!chooses || in_flight_.size() > 1 || !supports_overlap()) {
    return invalid_argument(
        "every sequence of a launched step that requests logits needs a choice, at most two steps "
        "may be in flight, and the ops must support it");
  }
  if (!plan.taps.empty()) return invalid_argument("a launched step cannot have taps");
  if (spec_.block_draft) return invalid_argument("block drafters compute no launched steps");
  // Their vectors lie in memory of the host, like the embedding rows of a step in flight.
  if (std::ranges::any_of(plan.sequences,
                          [](const auto& rows) { return !rows.embeddings.empty(); }))
    return invalid_argument("a launched step cannot have embedding rows");
  CHIMERE_TRY(Started started, start(plan));
  started.step.finish();
  in_flight_.push_back(started.logits);
  return {};
}

Result<StepResult> LayeredModel::wait() {
  if (in_flight_.empty()) return Model::wait();
  const MatrixView logits = in_flight_.front();
  in_flight_.pop_front();
  Result<StepResult> result = wait_for(logits);
  if (!in_flight_.empty()) partial_rows_ = {};  // the next step writes there
  return result;
}

Status LayeredModel::read_logits(int64_t row, std::span<float> out) {
  if (row < 0 || row >= partial_rows_.rows ||
      out.size() != static_cast<size_t>(partial_rows_.cols)) {
    return Model::read_logits(row, out);
  }
  return ops_.memory().read(out.data(), partial_rows_.row(row), out.size_bytes());
}

Status LayeredModel::read_taps(int64_t first_row, std::span<float> out) {
  if (taps_.empty()) return Model::read_taps(first_row, out);
  const ConstMatrixView& first = taps_.front();
  const int64_t n = static_cast<int64_t>(out.size()) / first.stride;
  if (static_cast<int64_t>(out.size()) != n * first.stride || first_row < 0 ||
      first_row > first.rows - n) {
    return Model::read_taps(first_row, out);
  }
  return ops_.memory().read(out.data(), first.row(first_row), out.size_bytes());
}

Status LayeredModel::draft(std::span<const DraftStart> starts, int depth,
                           const ChooseDraft& choose) {
  if (!has_drafts()) return Model::draft(starts, depth, choose);
  partial_rows_ = {};
  taps_.clear();
  CHIMERE_TRY(DraftChains chains,
              DraftChains::prepare(starts, depth, *states_, spec_.n_vocab, max_step_rows_));
  const MtpHead& mtp = *weights_.mtp;
  for (int d = 0; d < depth && !chains.done(); ++d) {
    const kernels::BatchView batch = chains.view();
    CHIMERE_TRY(const StepBuffers buffers, lay_out(batch.n_rows, batch.n_rows));
    const MatrixView wanted = {buffers.logits.data, batch.n_rows, mtp.n_short(), mtp.n_short()};
    const bool first = d == 0;
    CHIMERE_TRY(const kernels::StepOutputs outputs,
                ops_.run_step({.batch = batch,
                               .tokens = chains.tokens(),
                               .wanted_rows = {},
                               .selected = {},
                               .pass = first ? kFirstDraft : kNextDraft},
                              {wanted, {}}, [&] {
                                // No row has a write slot, so `hidden` is not read.
                                if (first) mtp.shift(ops_, batch, buffers.mtp.hidden, buffers.mtp);
                                mtp.predict({.ops = ops_,
                                             .batch = batch,
                                             .x = buffers.all.x,
                                             .h = buffers.all.h,
                                             .classes = {},
                                             .buffers = buffers.sub_layer},
                                            chains.tokens(), buffers.mtp, wanted);
                              }));
    const std::vector<int32_t> kept = chains.advance(outputs.logits, choose);
    if (kept.empty()) break;
    CHIMERE_CHECK_OK(resume_from(buffers, kept));
  }
  return check_file();
}

Status LayeredModel::resume_from(const StepBuffers& from, std::span<const int32_t> rows) {
  const MatrixView& hidden = from.mtp.hidden;
  Memory& memory = ops_.memory();
  const auto n = static_cast<int64_t>(rows.size());
  const auto bytes_of = [&](int64_t count) {
    return static_cast<size_t>(count * hidden.cols) * sizeof(float);
  };
  // With fewer rows, `before` has another address and may overlap `hidden`.
  CHIMERE_TRY(const StepBuffers next, lay_out(n, n));
  if (n == hidden.rows) return memory.copy(next.mtp.before.data, hidden.data, bytes_of(n));
  const MatrixView packed = {from.all.x.data, n, hidden.cols, hidden.cols};
  for (int64_t i = 0; i < n; ++i) {
    CHIMERE_CHECK_OK(
        memory.copy(packed.row(i), hidden.row(rows[static_cast<size_t>(i)]), bytes_of(1)));
  }
  return memory.copy(next.mtp.before.data, packed.data, bytes_of(n));
}

}  // namespace chimere::model
