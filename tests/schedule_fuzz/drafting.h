// Generations with every kind of drafter and with n-gram tables, through the engine, in random
// batches.
#ifndef CHIMERE_TESTS_SCHEDULE_FUZZ_DRAFTING_H_
#define CHIMERE_TESTS_SCHEDULE_FUZZ_DRAFTING_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/model.h"

namespace chimere::fuzz {

/// Where the drafts of a generation come from.
enum class DraftSource { kBlock, kTables, kMtp, kLookup, kDflash, kAny, kAuto };
inline constexpr std::array<std::string_view, 7> kDraftSourceNames = {
    "block drafter", "n-gram tables", "MTP head", "prompt lookup", "DFlash", "any of them", "auto"};

struct DraftingCounts {
  struct Drafts {
    int64_t drafted = 0;
    int64_t accepted = 0;
  };
  std::array<Drafts, kDraftSourceNames.size()> drafts;  ///< by DraftSource
  int64_t greedy = 0;                                   ///< generations that equalled the reference
  int64_t sampled = 0;
  int64_t with_tables = 0;  ///< of both, those into whose distributions n-gram tables were mixed
  int64_t cancelled = 0;    ///< of both, those that equalled it up to then
  int64_t from_cache = 0;   ///< of both, those that continued from a state
  int64_t suspended = 0;    ///< times that a generation was evicted and came back

  void add(const DraftingCounts& other);
  const Drafts& of(DraftSource source) const { return drafts[static_cast<size_t>(source)]; }
};

/// Runs random requests with drafters, n-gram tables, adapters, reasoning budgets and samplers on
/// `model`, several at a time and some of the same prompt; some are cancelled. Every generation
/// must have the tokens and log-probabilities that it has alone, on `solo`, without drafts and
/// cache. `draft_model`: of support/block_drafter.h, or a DFlash model. `folder`: for the tables'
/// files. Returns the failure, if any.
std::optional<std::string> drafted_generations(model::Model& model, model::Model& draft_model,
                                               model::Model& solo, uint32_t seed,
                                               const std::string& folder, DraftingCounts& counts);

}  // namespace chimere::fuzz

#endif  // CHIMERE_TESTS_SCHEDULE_FUZZ_DRAFTING_H_
