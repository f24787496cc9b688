#include "engine/engram_mixture.h"

#include <algorithm>
#include <utility>

namespace chimere::engine {
namespace {

/// Last tokens that are compared to recognise the text of the previous call.
constexpr size_t kTail = 64;

}  // namespace

EngramMixture::EngramMixture(engram::Memory memory, const EngramOptions& options,
                             const text::ReasoningTags& tags)
    : memory_(std::move(memory)),
      while_thinking_(options.while_thinking),
      think_(tags.open.token),
      end_think_(tags.close.token) {}

Result<std::shared_ptr<sampling::AuxiliaryLm>> EngramMixture::create(
    engram::Memory::Tables tables, const EngramOptions& options, const text::ReasoningTags& tags) {
  CHIMERE_TRY(engram::Memory memory, engram::Memory::create(std::move(tables), options.gating));
  return std::shared_ptr<sampling::AuxiliaryLm>(
      new EngramMixture(std::move(memory), options, tags));
}

bool EngramMixture::thinking(std::span<const int32_t> history) {
  if (think_ < 0 || end_think_ < 0) return false;
  const bool grown =
      seen_ <= history.size() && std::ranges::equal(tail_, history.first(seen_).last(tail_.size()));
  if (!grown) {
    seen_ = 0;
    inside_ = false;
  }
  // The latest tag decides.
  for (const int32_t token : history.subspan(seen_)) {
    if (token == think_) inside_ = true;
    if (token == end_think_) inside_ = false;
  }
  seen_ = history.size();
  const auto tail = history.last(std::min(history.size(), kTail));
  tail_.assign(tail.begin(), tail.end());
  return inside_;
}

Status EngramMixture::tokens(std::span<const int32_t> history, std::vector<int32_t>& out) {
  return memory_.successors(history, out);
}

Status EngramMixture::mix(const sampling::AuxiliaryView& view, std::span<const int32_t> history,
                          sampling::AuxiliaryMixture& mixture) {
  mixture.shares.clear();
  if (!while_thinking_ && thinking(history)) return {};
  CHIMERE_TRY(const bool known, memory_.look_up(history));
  if (!known) return {};
  const sampling::Distribution d = sampling::distribution_of(
      view.sums != nullptr ? *view.sums : sampling::log_sum_exp(view.logits));
  const engram::ModelPrediction prediction{view.logits, d.log_sum, d.entropy, view.largest.id,
                                           static_cast<double>(view.largest.value) - d.log_sum};
  mixture.log_sum = d.log_sum;
  for (const engram::Share& s : memory_.mix(prediction))
    mixture.shares.push_back({static_cast<int32_t>(s.token), s.mass});
  return {};
}

sampling::TokenMass EngramMixture::likeliest(std::span<const int32_t> history) {
  engram::Share share;
  const auto known = memory_.likeliest(history, share);
  if (!known.ok() || !*known) return {-1, 0};
  return {static_cast<int32_t>(share.token), share.mass};
}

}  // namespace chimere::engine
