#include "support/block_drafter.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <iterator>
#include <random>
#include <span>
#include <utility>

#include "model/model.h"
#include "tensor/memory.h"

namespace chimere::test {
namespace {

using engine::DraftTarget;
using engine::ObservedRows;

constexpr int32_t kBlock = 4;       ///< the newest token and three masks
constexpr size_t kMaxContext = 24;  ///< rows for one proposal; older ones are dropped

class BlockState final : public engine::DrafterState {
 public:
  explicit BlockState(model::Model& model) : sequence(model.states().create_sequence()) {}

  int32_t end() const { return first + static_cast<int32_t>(observed.size()); }

  std::unique_ptr<state::SequenceState> sequence;  ///< of the drafter's model
  std::vector<float> context;                      ///< input vectors that it has not seen
  std::vector<int32_t> observed;                   ///< tokens of consecutive rows
  int32_t first = 0;                               ///< position of the first of them
};

class BlockDrafter final : public engine::Drafter {
 public:
  BlockDrafter(const engine::DrafterModels& models, std::vector<int32_t> taps,
               BlockDrafterCounts& counts)
      : model_(*models.draft),
        target_memory_(models.target.memory()),
        taps_(std::move(taps)),
        counts_(counts),
        n_embd_(static_cast<size_t>(models.draft->n_embd())),
        target_embd_(static_cast<size_t>(models.target.n_embd())) {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> uniform(-0.2F, 0.2F);
    projection_.resize(n_embd_ * target_embd_);
    for (float& v : projection_) v = uniform(random);
    mask_.resize(n_embd_);
    for (float& v : mask_) v = uniform(random);
  }

  std::unique_ptr<engine::DrafterState> start(
      const sampling::SamplingParams& /*sampling*/) override {
    return std::make_unique<BlockState>(model_);
  }

  std::span<const int32_t> taps() const override { return taps_; }

  void observe(std::span<const ObservedRows> rows) override {
    for (const ObservedRows& o : rows) {
      auto& state = static_cast<BlockState&>(*o.state);
      if (o.taps.size() != taps_.size()) fault("rows without the outputs of all layers");
      if (o.position < state.end()) fault("a row was observed twice");
      if (o.position != state.end()) {
        state.observed.clear();
        state.first = o.position;
      }
      state.observed.insert(state.observed.end(), o.tokens.begin(), o.tokens.end());
      for (size_t r = 0; r < o.tokens.size(); ++r) {
        append(o.taps, static_cast<int64_t>(r), state.context);
      }
      counts_.observed += static_cast<int64_t>(o.tokens.size());
      const size_t most = kMaxContext * n_embd_;
      if (state.context.size() > most) {
        state.context.erase(state.context.begin(),
                            state.context.end() - static_cast<std::ptrdiff_t>(most));
      }
    }
  }

  Status propose(std::span<const DraftTarget> targets) override {
    Status status = propose_blocks(targets);
    if (!status.ok()) fault("a block could not be computed: " + status.error().message);
    return status;
  }

 private:
  Status propose_blocks(std::span<const DraftTarget> targets) {
    model::StepPlan plan;
    for (const DraftTarget& t : targets) {
      auto& state = static_cast<BlockState&>(*t.state);
      check_observed(state, t.history.first(t.history.size() - 1));
      plan.sequences.push_back(rows_of(state, t.history.back()));
      t.proposal->count_pass();
      ++counts_.proposals;
    }
    CHIMERE_TRY(const model::StepResult result, model_.forward(plan));
    int64_t row = 0;
    for (const DraftTarget& t : targets) {
      auto& state = static_cast<BlockState&>(*t.state);
      CHIMERE_CHECK_OK(
          state.sequence->commit(static_cast<int32_t>(state.context.size() / n_embd_)));
      state.context.clear();
      bool more = true;
      for (int32_t i = 1; i < kBlock; ++i, ++row) {
        more = more && t.proposal->add({choose(result.logits.row(row)), 0});
      }
    }
    return {};
  }

  /// `computed`: the tokens whose rows the target has computed.
  void check_observed(const BlockState& state, std::span<const int32_t> computed) {
    if (static_cast<size_t>(state.end()) > computed.size()) {
      return fault("rows were observed that are not part of the generation");
    }
    const auto same = computed.subspan(static_cast<size_t>(state.first), state.observed.size());
    if (!std::ranges::equal(state.observed, same)) fault("rows of other tokens were observed");
    counts_.incomplete += state.observed.size() == computed.size() ? 0 : 1;
  }

  /// The mean of the layers' outputs, projected.
  void append(std::span<const ConstMatrixView> taps, int64_t row, std::vector<float>& to) {
    std::vector<std::vector<float>> outputs;
    for (const ConstMatrixView& tap : taps) {
      std::vector<float>& output = outputs.emplace_back(target_embd_);
      const Status read =
          target_memory_.read(output.data(), tap.row(row), target_embd_ * sizeof(float));
      if (!read.ok()) fault("a row could not be read: " + read.error().message);
    }
    for (size_t i = 0; i < n_embd_; ++i) {
      float sum = 0;
      for (const std::vector<float>& output : outputs) {
        for (size_t k = 0; k < target_embd_; ++k) {
          sum += projection_[i * target_embd_ + k] * output[k];
        }
      }
      to.push_back(sum / static_cast<float>(taps.size()));
    }
  }

  model::SequenceRows rows_of(const BlockState& state, int32_t newest) const {
    model::SequenceRows rows;
    rows.state = state.sequence.get();
    const size_t context = state.context.size() / n_embd_;
    rows.tokens.assign(context, model::SequenceRows::kEmbeddingRow);
    rows.tokens.push_back(newest);
    rows.embeddings = state.context;
    for (int32_t i = 1; i < kBlock; ++i) {
      rows.logits_of.push_back(static_cast<int32_t>(rows.tokens.size()));
      rows.tokens.push_back(model::SequenceRows::kEmbeddingRow);
      rows.embeddings.insert(rows.embeddings.end(), mask_.begin(), mask_.end());
    }
    rows.revocable = true;
    rows.block = kBlock;
    return rows;
  }

  /// Depends on the pass, and is evenly distributed whatever the models prefer.
  static int32_t choose(const float* logits) {
    return kBlockTokens[std::bit_cast<uint32_t>(logits[0]) % std::size(kBlockTokens)];
  }

  void fault(const std::string& what) {
    if (counts_.fault.empty()) counts_.fault = what;
  }

  model::Model& model_;
  Memory& target_memory_;
  std::vector<int32_t> taps_;
  BlockDrafterCounts& counts_;
  size_t n_embd_;
  size_t target_embd_;
  std::vector<float> projection_;  ///< [n_embd, target_embd]
  std::vector<float> mask_;        ///< [n_embd]
};

}  // namespace

std::vector<sampling::LogitBias> only_block_tokens(int64_t n_vocab) {
  std::vector<sampling::LogitBias> biases;
  for (int32_t id = 0; id < n_vocab; ++id) {
    const bool used = std::ranges::find(kBlockTokens, id) != std::end(kBlockTokens);
    if (!used) biases.push_back({id, -1e9F});
  }
  return biases;
}

std::unique_ptr<engine::Drafter> make_block_drafter(const engine::DrafterModels& models,
                                                    std::vector<int32_t> taps,
                                                    BlockDrafterCounts& counts) {
  if (models.draft == nullptr) return nullptr;
  return std::make_unique<BlockDrafter>(models, std::move(taps), counts);
}

std::vector<double> block_drafter_rates(bool /*greedy*/) { return {0.4}; }

}  // namespace chimere::test
