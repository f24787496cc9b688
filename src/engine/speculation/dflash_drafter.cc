#include "engine/speculation/dflash_drafter.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/speculation/draft_sampler.h"
#include "model/block_draft.h"

namespace chimere::engine {
namespace {

/// Rows of a sequence from which on they are computed as chunks of a prompt.
constexpr int32_t kMinChunkRows = 16;

/// Places in a block with an acceptance rate of their own: 1, 2 and 3, 4 to 7, 8 and more.
constexpr int32_t kPlaceClasses = 4;

size_t place_class(int32_t place) {
  const auto octave = static_cast<int32_t>(std::bit_width(static_cast<uint32_t>(place))) - 1;
  return static_cast<size_t>(std::min(octave, kPlaceClasses - 1));
}

/// By the place of the draft, then by the drafter's probability for it.
std::vector<double> dflash_rates(bool greedy) {
  std::vector<double> rates;
  for (int32_t place = 0; place < kPlaceClasses; ++place) {
    for (const double rate : probability_rates((greedy ? 0.9 : 0.8) - 0.05 * place)) {
      rates.push_back(rate);
    }
  }
  return rates;
}

struct DflashState final : DrafterState {
  explicit DflashState(const sampling::SamplingParams& sampling) : sampler(sampling) {}

  DraftSampler sampler;
  /// Of the drafter's model: has the keys and values of consecutive rows of the generation.
  std::unique_ptr<state::SequenceState> rows;
  int32_t end = 0;    ///< position in the text after the last of these rows
  bool lost = false;  ///< there was no memory for its rows: the generation goes without drafts
};

class DflashDrafter final : public Drafter {
 public:
  explicit DflashDrafter(const DrafterModels& models)
      : model_(*models.draft),
        draft_(*models.draft->block_draft()),
        release_(models.release_context_rows) {}

  std::unique_ptr<DrafterState> start(const sampling::SamplingParams& sampling) override {
    return std::make_unique<DflashState>(sampling);
  }

  int32_t most_of_pass() const override { return draft_.block_size - 1; }
  std::span<const int32_t> taps() const override { return draft_.taps; }

  void observe(std::span<const ObservedRows> rows) override {
    model::StepPlan plan;
    int64_t n_rows = 0;
    for (const ObservedRows& o : rows) {
      auto& state = static_cast<DflashState&>(*o.state);
      if (state.lost) continue;
      // Rows in between were not observed: positions count from the first row after them.
      if (state.rows == nullptr || o.position != state.end) {
        state.rows = model_.states().create_sequence();
      }
      const auto n = static_cast<int64_t>(o.tokens.size());
      for (int64_t first = 0; first < n;) {
        if (n_rows == model_.max_step_rows()) compute(plan, n_rows);
        const int64_t count = std::min(n - first, model_.max_step_rows() - n_rows);
        plan.sequences.push_back(context_rows(o, first, count));
        n_rows += count;
        first += count;
        if (first < n) compute(plan, n_rows);  // a sequence is in a step once
      }
      state.end = o.position + static_cast<int32_t>(n);
    }
    compute(plan, n_rows);
    for (const ObservedRows& o : rows) {
      auto& state = static_cast<DflashState&>(*o.state);
      if (state.lost || std::ranges::find(failed_, state.rows.get()) == failed_.end()) continue;
      state.rows.reset();
      state.lost = state.short_of_memory = true;
    }
    failed_.clear();
  }

  void settle() override { (void)model_.finish_context(); }

  std::optional<state::Checkpoint> context_rows(const DrafterState& of,
                                                int32_t position) const override {
    const auto& state = static_cast<const DflashState&>(of);
    if (state.rows == nullptr || state.end != position) return std::nullopt;
    return state.rows->checkpoint();
  }

  void resume(DrafterState& of, const state::Checkpoint& rows, int32_t position) override {
    auto& state = static_cast<DflashState&>(of);
    state.rows = rows.restore();
    state.end = position;
  }

  Status propose(std::span<const DraftTarget> targets) override {
    std::vector<const DraftTarget*> ready;
    for (const DraftTarget& t : targets) {
      const auto& state = static_cast<const DflashState&>(*t.state);
      const auto computed = static_cast<int32_t>(t.history.size()) - 1;
      if (state.rows != nullptr && state.end == computed) ready.push_back(&t);
    }
    const auto at_once =
        static_cast<size_t>(std::max<int64_t>(1, model_.max_step_rows() / draft_.block_size));
    for (size_t first = 0; first < ready.size(); first += at_once) {
      const size_t n = std::min(at_once, ready.size() - first);
      CHIMERE_CHECK_OK(propose_blocks(std::span(ready).subspan(first, n)));
    }
    return {};
  }

 private:
  /// One step with a block for each target.
  Status propose_blocks(std::span<const DraftTarget* const> drafting) {
    model::StepPlan plan;
    for (const DraftTarget* t : drafting) {
      const auto& state = static_cast<const DflashState&>(*t->state);
      plan.sequences.push_back(block_rows(*state.rows, t->history.back(), t->proposal->most()));
      if (!model_.logits_on_gpu()) continue;
      plan.sequences.back().top = state.sampler.largest();
      plan.sequences.back().sums = state.sampler.sums();
    }
    const auto forwarded = forward(plan);
    if (!forwarded.ok()) {
      if (forwarded.error().code == Error::Code::kOutOfMemory) {
        for (const DraftTarget* t : drafting) t->state->short_of_memory = true;
      }
      return forwarded.error();
    }
    const model::StepResult& result = *forwarded;
    int64_t whole_row = 0;
    int64_t top_row = 0;
    for (size_t i = 0; i < drafting.size(); ++i) {
      auto& state = static_cast<DflashState&>(*drafting[i]->state);
      drafting[i]->proposal->count_pass();
      CHIMERE_CHECK_OK(state.rows->commit(0));
      const model::SequenceRows& rows = plan.sequences[i];
      const auto n = static_cast<int64_t>(rows.logits_of.size());
      int64_t& row = rows.top > 0 ? top_row : whole_row;
      add_drafts(*drafting[i], n, [&](int64_t draft, size_t position) {
        if (rows.top == 0) {
          const float* const logits = result.logits.row(row + draft);
          return state.sampler.sample({logits, static_cast<size_t>(result.logits.cols)}, position);
        }
        return state.sampler.sample(result.top.row(row + draft),
                                    rows.sums ? result.sums + row + draft : nullptr, position);
      });
      row += n;
    }
    return {};
  }

  /// A step of the drafter's model. Running generations take the memory of cached rows.
  Result<model::StepResult> forward(const model::StepPlan& plan) {
    // Releasing rows does not help against memory that others hold.
    constexpr int kMostInVain = 4;
    int in_vain = 0;
    while (true) {
      auto result = model_.forward(plan);
      const bool full = !result.ok() && result.error().code == Error::Code::kOutOfMemory;
      const int64_t pages = pages_in_use();
      if (!full || !release_ || in_vain == kMostInVain || !release_()) return result;
      if (pages_in_use() == pages) ++in_vain;
    }
  }

  int64_t pages_in_use() const {
    const state::StateStore& states = model_.states();
    return states.pages_in_use() + states.window_pages_in_use();
  }

  /// Computes the planned context rows, and begins another plan. Where memory does not suffice for
  /// all sequences, it may for some.
  void compute(model::StepPlan& plan, int64_t& n_rows) {
    if (!plan.sequences.empty() && !forward(plan).ok()) {
      for (model::SequenceRows& rows : plan.sequences) {
        model::StepPlan one;
        one.sequences.push_back(std::move(rows));
        if (!forward(one).ok()) failed_.push_back(one.sequences[0].state);
      }
    }
    plan.sequences.clear();
    n_rows = 0;
  }

  /// Rows `first` to `first + count` of those observed.
  static model::SequenceRows context_rows(const ObservedRows& o, int64_t first, int64_t count) {
    model::SequenceRows rows;
    rows.state = static_cast<DflashState&>(*o.state).rows.get();
    rows.tokens.assign(static_cast<size_t>(count), model::SequenceRows::kEmbeddingRow);
    for (const ConstMatrixView& tap : o.taps) {
      rows.tapped.emplace_back(tap.row(first), count, tap.cols, tap.stride);
    }
    if (count < kMinChunkRows) return rows;
    rows.row_class = model::RowClass::kPrefill;
    for (int64_t left = count; left > 0; left -= rows.chunks.back()) {
      rows.chunks.push_back(static_cast<int32_t>(std::min<int64_t>(left, kernels::kMaxChunkRows)));
    }
    return rows;
  }

  /// `most`: drafts.
  model::SequenceRows block_rows(state::SequenceState& state, int32_t newest, int32_t most) const {
    model::SequenceRows rows;
    rows.state = &state;
    rows.tokens.assign(static_cast<size_t>(draft_.block_size), draft_.mask_token);
    rows.tokens.front() = newest;
    for (int32_t i = 1; i < draft_.block_size && i <= most; ++i) rows.logits_of.push_back(i);
    rows.revocable = true;
    rows.block = draft_.block_size;  // masks that are missing would change the others
    return rows;
  }

  /// At most `n` drafts; sample(i, position) draws the i-th.
  template <class Sample>
  static void add_drafts(const DraftTarget& target, int64_t n, Sample sample) {
    ProposalBuilder& proposal = *target.proposal;
    for (int64_t i = 0; i < n; ++i) {
      const auto place = static_cast<int32_t>(i) + 1;
      const SampledDraft draft = sample(i, target.history.size() + static_cast<size_t>(i));
      if (draft.token < 0) return;
      const size_t evidence =
          place_class(place) * kProbabilityClasses + probability_class(draft.probability);
      if (!proposal.add({draft.token, evidence})) return;
    }
  }

  model::Model& model_;
  model::BlockDraft draft_;
  std::function<bool()> release_;                    ///< DrafterModels::release_context_rows
  std::vector<const state::SequenceState*> failed_;  ///< in observe()
};

}  // namespace

constexpr DrafterType kDflashDrafter = {
    .name = "dflash",
    .mode = "dflash",
    .computes = true,
    .expected_rates = dflash_rates,
    .create = [](const DrafterModels& models) -> std::unique_ptr<Drafter> {
      if (models.draft == nullptr || models.draft->block_draft() == nullptr) return nullptr;
      if (&models.draft->memory() != &models.target.memory()) return nullptr;  // nothing to read
      return std::make_unique<DflashDrafter>(models);
    },
};

}  // namespace chimere::engine
