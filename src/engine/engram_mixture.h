// N-gram tables as the sampler's auxiliary language model.
#ifndef CHIMERE_ENGINE_ENGRAM_MIXTURE_H_
#define CHIMERE_ENGINE_ENGRAM_MIXTURE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "engram/memory.h"
#include "sampling/auxiliary_lm.h"
#include "text/reasoning_tags.h"

namespace chimere::engine {

struct EngramOptions {
  engram::Gating gating = engram::Gating::kLearned;
  bool while_thinking = false;  ///< also apply the tables inside reasoning
};

/// Holds the tables that were open when the request began, even if their files are replaced. Serves
/// one growing text. Between the tokens of reasoning tags the model's distribution is left
/// unchanged unless EngramOptions::while_thinking is set.
class EngramMixture final : public sampling::AuxiliaryLm {
 public:
  /// Errors: kInvalidData (a table's gate is malformed).
  static Result<std::shared_ptr<sampling::AuxiliaryLm>> create(engram::Memory::Tables tables,
                                                               const EngramOptions& options,
                                                               const text::ReasoningTags& tags);

  Status tokens(std::span<const int32_t> history, std::vector<int32_t>& out) override;
  Status mix(const sampling::AuxiliaryView& view, std::span<const int32_t> history,
             sampling::AuxiliaryMixture& mixture) override;
  sampling::TokenMass likeliest(std::span<const int32_t> history) override;

 private:
  EngramMixture(engram::Memory memory, const EngramOptions& options,
                const text::ReasoningTags& tags);
  bool thinking(std::span<const int32_t> history);

  engram::Memory memory_;
  bool while_thinking_;
  int32_t think_;  ///< -1: no such token
  int32_t end_think_;
  // Incremental scan of the text: its first `seen_` tokens end with `tail_`, and end inside
  // reasoning if `inside_`.
  size_t seen_ = 0;
  std::vector<int32_t> tail_;
  bool inside_ = false;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_ENGRAM_MIXTURE_H_
