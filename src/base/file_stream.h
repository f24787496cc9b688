// Files as byte streams: atomic writes, sequential reads.
#ifndef CHIMERE_BASE_FILE_STREAM_H_
#define CHIMERE_BASE_FILE_STREAM_H_

#include <cstdint>
#include <span>
#include <string>

#include "base/byte_stream.h"
#include "base/result.h"

namespace chimere {

/// A new file that replaces `path` at commit(): a program that opens `path` reads either the
/// complete old content or the complete new content, even after a crash. Until then the bytes are
/// in a temporary file in the same folder, with access for the owner only and locked (flock) while
/// it is written. Move-only.
class AtomicFile final : public ByteSink {
 public:
  AtomicFile() = default;
  ~AtomicFile() override;  ///< without commit(), discards what was written
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;

  /// Errors: kIo (no such folder, no permission).
  static Result<AtomicFile> create(const std::string& path);
  /// Errors: kOutOfSpace (the disk is full), kIo.
  Status write(std::span<const uint8_t> bytes) override;
  /// Syncs to disk and renames. Errors: kOutOfSpace, kIo; `path` is unchanged then.
  Status commit();

 private:
  Error failure(const char* what) const;

  std::string path_;
  std::string partial_;
  int fd_ = -1;
};

/// Removes the unfinished file of an AtomicFile whose process ended. Returns false if a process is
/// still writing it, or if the file system has no locks.
bool remove_abandoned(const std::string& partial);

/// A file read sequentially from its start. Move-only.
class InputFile final : public ByteSource {
 public:
  InputFile() = default;
  ~InputFile() override;
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;

  /// Errors: kNotFound, kIo (not a regular file, no permission).
  static Result<InputFile> open(const std::string& path);
  uint64_t remaining() const override { return remaining_; }
  Status read(std::span<uint8_t> out) override;

 private:
  std::string path_;
  uint64_t remaining_ = 0;
  int fd_ = -1;
};

}  // namespace chimere

#endif  // CHIMERE_BASE_FILE_STREAM_H_
