// Token files: tokenised texts on disk.
#ifndef CHIMERE_TRAIN_TOKEN_FILE_H_
#define CHIMERE_TRAIN_TOKEN_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace chimere::train {

/// A tokenised text. On disk, little-endian: the 8 bytes "CHTOKENS"; u32 size of the vocabulary;
/// u32 id that ends a document; u64 number of tokens; u64 bytes of the text they stand for
/// (documents' ends count none); u16 ids.
struct TokenFile {
  uint32_t n_vocab = 0;
  uint32_t end = 0;
  uint64_t text_bytes = 0;
  std::vector<uint16_t> ids;
  std::vector<int64_t> starts;  ///< where documents begin, rising

  /// Errors: kIo, kInvalidData (wrong magic or size, an id outside the vocabulary).
  static Result<TokenFile> read(const std::string& path);
  Status write(const std::string& path) const;
};

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_TOKEN_FILE_H_
