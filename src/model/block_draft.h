// What a model that drafts blocks of tokens for another model reads and proposes.
#ifndef CHIMERE_MODEL_BLOCK_DRAFT_H_
#define CHIMERE_MODEL_BLOCK_DRAFT_H_

#include <cstdint>
#include <vector>

namespace chimere::model {

/// Rows of a block.
inline constexpr int kMinDraftBlock = 2;
inline constexpr int kMaxDraftBlock = 64;

/// A block drafter (DFlash, arXiv:2602.06036) has two kinds of rows, in steps of their own:
/// - A context row is a row that the target model has computed. Its input vector is the
///   concatenation of the outputs of the target's layers `taps`; it leaves keys and values in every
///   layer, and has no output.
/// - A block has the newest token, which the target has not seen, and masks in place of the tokens
///   after it. The logits of a mask are those of the token there.
struct BlockDraft {
  std::vector<int32_t> taps;  ///< layers of the target, rising
  int32_t block_size = 0;     ///< rows of a block as trained, with the newest token
  int32_t mask_token = 0;
};

}  // namespace chimere::model

#endif  // CHIMERE_MODEL_BLOCK_DRAFT_H_
