#include "engine/overlap_pipeline.h"

#include <algorithm>

#include "engine/layer_outputs.h"
#include "engine/speculation/sequence_drafts.h"
#include "kernels/token_choice.h"

namespace chimere::engine {

void LaunchedStep::make_plan() {
  plan.sequences.resize(planned.size());
  plan.update_draft_kv = false;
  plan.taps.clear();
  for (size_t i = 0; i < planned.size(); ++i) {
    const PlannedRows& p = planned[i];
    if (p.decodes()) {
      p.generation->decode_rows(plan.sequences[i]);
    } else {
      p.generation->prompt_rows(p.prompt_rows, plan.sequences[i]);
    }
    const SequenceDrafts* const drafts = p.generation->drafts();
    if (drafts != nullptr) drafts->add_needs(plan, !p.decodes());
    add_taps(p.generation->request().taps, plan);
  }
}

void LaunchedStep::advance() {
  kept.clear();
  for (size_t i = 0; i < planned.size(); ++i) {
    const PlannedRows& p = planned[i];
    if (p.decodes()) {
      p.generation->advance_decode();
      continue;
    }
    p.generation->advance_prompt(p.prompt_rows);
    if (p.generation->at_point()) {
      kept.push_back({i, p.generation->position(), p.generation->checkpoint()});
    }
  }
}

bool LaunchedStep::drop_finished() {
  bool live = false;
  for (PlannedRows& p : planned) {
    if (p.generation != nullptr && p.generation->finished()) p.generation = nullptr;
    live |= p.generation != nullptr;
  }
  return live;
}

bool OverlapPipeline::launch(std::span<const PlannedRows> planned) {
  if (size_ == steps_.size() || planned.empty() || !model_.supports_overlap()) return false;
  const auto sampling = std::ranges::count_if(planned, &PlannedRows::samples);
  if (sampling > kernels::kMaxChoices) return false;
  const auto may_launch = [](const PlannedRows& p) {
    return p.generation->may_launch(p.decodes(), p.samples);
  };
  if (!std::ranges::all_of(planned, may_launch)) return false;
  LaunchedStep& step = steps_[(first_ + size_) % steps_.size()];
  step.planned.assign(planned.begin(), planned.end());
  step.make_plan();
  if (!step.plan.taps.empty()) return false;
  for (size_t i = 0; i < planned.size(); ++i) {
    if (planned[i].samples) planned[i].generation->choose_on_device(step.plan.sequences[i]);
  }
  step.launched = now_();
  if (!model_.launch(step.plan).ok()) return false;
  step.advance();
  for (const PlannedRows& p : planned) {
    if (p.samples) p.generation->token_launched();
  }
  ++size_;
  return true;
}

Result<model::StepResult> OverlapPipeline::wait() {
  first_ = (first_ + 1) % steps_.size();
  --size_;
  return model_.wait();
}

void OverlapPipeline::discard() {
  while (!empty()) (void)wait();
}

}  // namespace chimere::engine
