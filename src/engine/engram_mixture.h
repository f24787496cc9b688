// N-gram tables as a sampler's prior.
#ifndef CHIMERE_ENGINE_ENGRAM_MIXTURE_H_
#define CHIMERE_ENGINE_ENGRAM_MIXTURE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "engram/memory.h"
#include "sampling/auxiliary_lm.h"
#include "text/tokenizer.h"

namespace chimere::engine {

struct EngramOptions {
  engram::Gating gating = engram::Gating::kLearned;
  bool while_thinking = false;  ///< also between the tags of reasoning
};

/// The tables stay the ones that were open when the request began, whatever replaces their files.
/// Serves one text that grows. Between the tokenizer's <think> and </think>, the model is left
/// alone unless asked otherwise.
class EngramMixture final : public sampling::AuxiliaryLm {
 public:
  /// Errors: kInvalidData (a table's gate).
  static Result<std::shared_ptr<sampling::AuxiliaryLm>> create(engram::Memory::Tables tables,
                                                               const EngramOptions& options,
                                                               const text::Tokenizer& tokenizer);

  Status tokens(std::span<const int32_t> history, std::vector<int32_t>& out) override;
  Status mix(const sampling::AuxiliaryView& view, std::span<const int32_t> history,
             sampling::AuxiliaryMixture& mixture) override;
  sampling::TokenMass likeliest(std::span<const int32_t> history) override;

 private:
  EngramMixture(engram::Memory memory, const EngramOptions& options,
                const text::Tokenizer& tokenizer);
  bool thinking(std::span<const int32_t> history);

  engram::Memory memory_;
  bool while_thinking_;
  int32_t think_;  ///< -1: no such token
  int32_t end_think_;
  // What is known of the text so far: its first `seen_` tokens, that end with `tail_`, end inside a
  // reasoning or not.
  size_t seen_ = 0;
  std::vector<int32_t> tail_;
  bool inside_ = false;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_ENGRAM_MIXTURE_H_
