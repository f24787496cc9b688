// The files in archives and compressed files.
#ifndef CHIMERE_RETRIEVAL_ARCHIVE_H_
#define CHIMERE_RETRIEVAL_ARCHIVE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace chimere::retrieval {

/// What unpacking may cost, counted over an archive and all archives in it.
struct ArchiveBudget {
  int64_t bytes = int64_t{512} << 20;       ///< unpacked
  int64_t entry_bytes = int64_t{64} << 20;  ///< of one entry
  int64_t entries = 50'000;
  double ratio = 200;  ///< of unpacked to packed bytes, from 4 MiB on
  int nesting = 2;     ///< archives in archives
};

/// Unpacks tar, zip and 7-Zip archives, compressed (gzip, bzip2, xz, zstd) or not, in memory; calls
/// `take` for each file with its name inside, and `skip` with a sentence for an entry that cannot
/// be read. Links, devices and encrypted files are left out; nothing is written. Takes from
/// `budget`. Errors: kInvalidData (no archive, damaged, a limit exceeded), those of `take`.
Status unpack(std::string_view bytes, ArchiveBudget& budget,
              const std::function<Status(const std::string& name, std::string bytes)>& take,
              const std::function<void(std::string)>& skip);

/// The content of one compressed file. Errors: kInvalidData.
Result<std::string> decompress(std::string_view bytes, ArchiveBudget& budget);

}  // namespace chimere::retrieval

#endif  // CHIMERE_RETRIEVAL_ARCHIVE_H_
