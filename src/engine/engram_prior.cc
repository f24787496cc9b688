#include "engine/engram_prior.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace chimere::engine {

EngramPrior::EngramPrior(engram::Memory memory, const EngramOptions& options,
                         const text::Tokenizer& tokenizer)
    : memory_(std::move(memory)),
      while_thinking_(options.while_thinking),
      think_(tokenizer.find("<think>")),
      end_think_(tokenizer.find("</think>")) {}

Result<std::shared_ptr<sampling::Prior>> EngramPrior::create(engram::Memory::Tables tables,
                                                             const EngramOptions& options,
                                                             const text::Tokenizer& tokenizer) {
  CHIMERE_TRY(engram::Memory memory, engram::Memory::create(std::move(tables), options.gating));
  return std::shared_ptr<sampling::Prior>(new EngramPrior(std::move(memory), options, tokenizer));
}

bool EngramPrior::thinking(std::span<const int32_t> history) const {
  if (think_ < 0 || end_think_ < 0) return false;
  // The latest tag says it. Reading ids backwards takes a microsecond for thousands of them.
  for (const int32_t token : std::views::reverse(history)) {
    if (token == end_think_) return false;
    if (token == think_) return true;
  }
  return false;
}

Status EngramPrior::mix(std::span<const float> logits, const sampling::Candidate& largest,
                        std::span<const int32_t> history, sampling::PriorMixture& mixture) {
  mixture.shares.clear();
  if (!while_thinking_ && thinking(history)) return {};
  CHIMERE_TRY(const bool known, memory_.look_up(history));
  if (!known) return {};
  const sampling::Distribution d = sampling::summarise_f32(logits, largest.value);
  const engram::Belief belief{logits, d.log_sum, d.entropy, largest.id,
                              static_cast<double>(largest.value) - d.log_sum};
  mixture.log_sum = d.log_sum;
  for (const engram::Share& s : memory_.mix(belief))
    mixture.shares.push_back({static_cast<int32_t>(s.token), s.mass});
  return {};
}

sampling::PriorShare EngramPrior::likeliest(std::span<const int32_t> history) {
  engram::Share share;
  const auto known = memory_.likeliest(history, share);
  if (!known.ok() || !*known) return {-1, 0};
  return {static_cast<int32_t>(share.token), share.mass};
}

}  // namespace chimere::engine
