// A drafter that proposes a block of tokens with a model of its own: outputs of the target's layers
// become its input vectors, and one forward pass of non-causal rows gives all drafts, as in
// block-diffusion drafters (DFlash).
#ifndef CHIMERE_TESTS_SUPPORT_BLOCK_DRAFTER_H_
#define CHIMERE_TESTS_SUPPORT_BLOCK_DRAFTER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/speculation/drafter.h"
#include "sampling/params.h"

namespace chimere::test {

/// The tokens that it proposes, evenly distributed whatever its model prefers: one draft in three
/// is right by chance in a generation of only_block_tokens().
inline constexpr int32_t kBlockTokens[] = {5, 6, 7};
/// Biases that leave no other token of the vocabulary.
std::vector<sampling::LogitBias> only_block_tokens(int64_t n_vocab);

struct BlockDrafterCounts {
  int64_t observed = 0;   ///< rows
  int64_t proposals = 0;  ///< blocks
  /// Of those, blocks whose drafter had not observed all rows of the generation.
  int64_t incomplete = 0;
  std::string fault;  ///< how the engine broke the contract of Drafter; empty: it did not
};

/// Reads the outputs of the target's layers `taps` and needs DrafterModels::draft, a model without
/// recurrent layers. `counts` must outlive it.
std::unique_ptr<engine::Drafter> make_block_drafter(const engine::DrafterModels& models,
                                                    std::vector<int32_t> taps,
                                                    BlockDrafterCounts& counts);
/// For DrafterType::expected_rates.
std::vector<double> block_drafter_rates(bool greedy);

}  // namespace chimere::test

#endif  // CHIMERE_TESTS_SUPPORT_BLOCK_DRAFTER_H_
