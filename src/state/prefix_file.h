// One cached state on disk (docs/prefix-cache.md, "Files").
#ifndef CHIMERE_STATE_PREFIX_FILE_H_
#define CHIMERE_STATE_PREFIX_FILE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "state/checksum.h"
#include "state/state_image.h"
#include "state/state_store.h"

namespace chimere::state {

/// What determines the meaning and sizes of an image's bytes.
struct ImageLayout {
  /// `weights`: of the store's model (WeightsHash).
  ImageLayout(const StateStore& store, const Hash128& weights);

  uint64_t fingerprint;  ///< hash of the store's fingerprint and the weights
  int64_t page_tokens;
  int64_t page_bytes;  ///< 0: the model has no pages
  int64_t slot_bytes;  ///< 0: the model has no recurrent state
  /// Each window of the model's layers, and the bytes of its pages.
  std::vector<std::pair<int, int64_t>> windows = {};
  int64_t row_bytes;  ///< of an unfolded row; 0: the model has none
};

/// The key of a cached prefix.
struct PrefixName {
  std::string scope;            ///< only requests of this scope may use it
  std::vector<int32_t> tokens;  ///< the prefix whose state this is

  /// "0123456789abcdef.prefix".
  std::string file_name() const;
};

/// The header of a file, without the state.
struct PrefixFileInfo {
  PrefixName name;
  int32_t first_page = 0;
  int64_t file_bytes = 0;
};

/// Writes the image, which must have a slot, to folder/name.file_name(), atomically. Returns the
/// file's size in bytes. Errors: kOutOfSpace, kIo.
Result<int64_t> write_prefix_file(const std::string& folder, const PrefixName& name,
                                  const StateImage& image, const ImageLayout& layout);

/// Errors: kNotFound, kIo, kInvalidData (damaged), kUnsupported (of another model, cache type or
/// version); each says what is wrong with the file.
Result<PrefixFileInfo> read_prefix_info(const std::string& path, const ImageLayout& layout);

/// Whether an error of the functions here means that the file itself is of no use, so that it may
/// be removed. After other errors (kIo, kNotFound) it may be intact.
bool is_unusable(const Error& error);

/// Without `with_slot` reads only the pages. Errors: the same, and kInvalidData if the file holds
/// another prefix than `name`.
Result<StateImage> read_prefix_file(const std::string& folder, const PrefixName& name,
                                    bool with_slot, const ImageLayout& layout);

}  // namespace chimere::state

#endif  // CHIMERE_STATE_PREFIX_FILE_H_
