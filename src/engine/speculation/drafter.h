// The interface of drafters: sources of draft tokens for speculative decoding.
#ifndef CHIMERE_ENGINE_SPECULATION_DRAFTER_H_
#define CHIMERE_ENGINE_SPECULATION_DRAFTER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/speculation/proposal.h"
#include "engine/speculation/speculation.h"
#include "model/model.h"
#include "sampling/params.h"
#include "state/sequence_state.h"
#include "tensor/view.h"

namespace chimere::engine {

/// What a drafter keeps for one generation.
class DrafterState {
 public:
  virtual ~DrafterState() = default;

  bool short_of_memory = false;  ///< drafts are or were missing for want of memory
};

/// A generation that a drafter proposes for, between two steps.
struct DraftTarget {
  std::span<const int32_t> history;  ///< prompt and generation; only grows during a generation
  state::SequenceState* sequence = nullptr;  ///< has seen all of `history` but the last token
  DrafterState* state = nullptr;             ///< from Drafter::start()
  ProposalBuilder* proposal = nullptr;       ///< receives the drafts; has room for at least one
};

/// Rows that a generation has added to its sequence: tokens of the prompt, or accepted ones.
struct ObservedRows {
  DrafterState* state = nullptr;
  std::span<const int32_t> tokens;
  int32_t position = 0;  ///< of the first row; rows from a prefix cache are not observed: resume()
  /// For each of Drafter::taps(), the layer's outputs [tokens, n_embd] in the target's
  /// Model::memory(), for work that is queued there during the call. The list is valid as long.
  std::span<const ConstMatrixView> taps;
};

/// Proposes draft tokens. The target model verifies them, so a drafter affects speed only, never
/// the output. One object serves all generations of an engine, in the engine's thread.
class Drafter {
 public:
  virtual ~Drafter() = default;

  /// The state for a generation with these sampling parameters; nullptr: the drafter does not serve
  /// it.
  virtual std::unique_ptr<DrafterState> start(const sampling::SamplingParams& sampling) = 0;

  /// Adds drafts for the tokens after each target's history to its proposal, one by one or a block,
  /// until the proposal is full or the drafter has no more. A drafter that computes handles all
  /// targets together and counts its forward passes (ProposalBuilder::count_pass()). On an error
  /// the drafts added so far are used; the step that follows reports errors of the model.
  virtual Status propose(std::span<const DraftTarget> targets) = 0;

  /// Drafts that one forward pass gives at most.
  virtual int32_t most_of_pass() const { return 1; }
  /// Layers of the target model, rising, whose outputs observe() is to receive; always the same.
  virtual std::span<const int32_t> taps() const { return {}; }
  /// With taps(): called after each step for the generations that use the drafter; in mode `auto`
  /// for decode rows only while drafting may pay, and for prompts once it does.
  virtual void observe(std::span<const ObservedRows> /*rows*/) {}
  /// Waits for work that observe() has queued.
  virtual void settle() {}
  /// What the drafter's own model has of the rows before `position`, for a generation that will
  /// begin with the same tokens; nothing if it lacks the last of them. The prefix cache keeps it
  /// with the target's state.
  virtual std::optional<state::Checkpoint> context_rows(const DrafterState& /*state*/,
                                                        int32_t /*position*/) const {
    return std::nullopt;
  }
  /// The generation begins with tokens up to `position` that are not observed, of which
  /// context_rows() of the same drafter has returned `rows`.
  virtual void resume(DrafterState& /*state*/, const state::Checkpoint& /*rows*/,
                      int32_t /*position*/) {}
};

/// The models that an engine has; they outlive its drafters.
struct DrafterModels {
  model::Model& target;
  /// A drafter's own model, on the target's device; nullptr: none was loaded.
  model::Model* draft = nullptr;
  /// Releases states of `draft` that only the prefix cache holds. False if there are none.
  std::function<bool()> release_context_rows = {};
};

/// An entry of drafter_types(): how the engine creates and judges a drafter.
struct DrafterType {
  std::string_view name;  ///< of the source in DraftCounts, one word
  std::string_view mode;  ///< the choice of `--speculate` that uses it; several types may share one
  /// Drafting takes time, which is measured; `auto` uses the drafter only while that pays. The
  /// drafts of the others cost nothing and are scored even if they are not verified.
  bool computes = false;
  bool rates_per_request = false;  ///< acceptance differs from request to request
  /// Steps must update the KV cache of the MTP head (StepPlan::update_draft_kv).
  bool reads_draft_kv = false;
  /// Initial acceptance rate for each kind of evidence (Draft::evidence).
  std::vector<double> (*expected_rates)(bool greedy) = nullptr;
  /// nullptr: the models lack what the drafter needs.
  std::unique_ptr<Drafter> (*create)(const DrafterModels& models) = nullptr;
};

/// All drafters. To add one: write a file that defines its DrafterType, and list it in
/// drafter_types.cc.
std::span<const DrafterType* const> drafter_types();

/// Some drafter of this setting reads the KV cache of the MTP head: load the model with
/// ModelOptions::drafts.
bool reads_draft_kv(const Speculation& speculation);

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_SPECULATION_DRAFTER_H_
