// A large output file that is written in order, survives interruptions and appears when complete.
#ifndef CHIMERE_QUANTIZE_RESUMABLE_FILE_H_
#define CHIMERE_QUANTIZE_RESUMABLE_FILE_H_

#include <cstdint>
#include <span>
#include <string>

#include "base/output_file.h"
#include "base/result.h"

namespace chimere::quantize {

/// Bytes go to PATH.partial. A journal beside it, PATH.partial.journal, names what the bytes depend
/// on and how many of them were on disk at each checkpoint, so that a later run with the same
/// inputs continues there, also after a power failure.
class ResumableFile {
 public:
  /// Continues PATH.partial if its journal has this `identity` (one line) and its bytes begin with
  /// `head`; otherwise begins it anew with `head`. Errors: kIo (also if another process is writing
  /// it), kOutOfSpace.
  static Result<ResumableFile> open(const std::string& path, std::span<const uint8_t> head,
                                    const std::string& identity);

  int64_t size() const { return data_.size(); }
  Status write(std::span<const uint8_t> bytes);
  /// Drops bytes beyond `size`, which may be less than the last checkpoint's.
  Status cut(int64_t size) { return data_.cut(size); }
  /// Puts everything written so far on disk and notes its size in the journal.
  Status checkpoint();
  /// Gives the complete file its name and removes the journal.
  Status publish();
  /// Removes both files.
  void discard();

 private:
  ResumableFile(std::string path, OutputFile data, OutputFile journal);

  std::string path_;
  OutputFile data_;
  OutputFile journal_;
};

}  // namespace chimere::quantize

#endif  // CHIMERE_QUANTIZE_RESUMABLE_FILE_H_
