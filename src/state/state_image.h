// A checkpoint's bytes outside its store.
#ifndef CHIMERE_STATE_STATE_IMAGE_H_
#define CHIMERE_STATE_STATE_IMAGE_H_

#include <cstdint>
#include <memory>
#include <vector>

namespace chimere::state {

/// The pages, recurrent state and unfolded rows of a checkpoint, without the leading pages that the
/// image of a shorter prefix of the same tokens already has: the turns of a conversation store each
/// page once. Copies share the bytes. Only StateStore::assemble() of a store with the same
/// fingerprint can use them.
struct StateImage {
  using Bytes = std::shared_ptr<const std::vector<uint8_t>>;

  int32_t position = 0;    ///< tokens seen
  int32_t first_page = 0;  ///< number of the first page in `pages`
  Bytes pages;             ///< whole pages up to the position; the last one may be partly filled
  /// The recurrent state, then `unfolded` row blocks. nullptr: only the pages remain, for images of
  /// longer prefixes.
  Bytes slot;
  int32_t unfolded = 0;  ///< the last tokens, whose rows are not part of the recurrent state

  int64_t bytes() const {
    return static_cast<int64_t>((pages ? pages->size() : 0) + (slot ? slot->size() : 0));
  }
};

}  // namespace chimere::state

#endif  // CHIMERE_STATE_STATE_IMAGE_H_
