// A file mapped into memory for reading. Mapping, advice and population are system calls, so they
// live here.
#ifndef CHIMERE_BASE_MAPPED_FILE_H_
#define CHIMERE_BASE_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/fault_guard.h"
#include "base/result.h"

namespace chimere {

/// Identifies the content of a file by its metadata. Equal identities mean equal content, except
/// for changes within one tick of the file system's clock (up to 2 s on FAT).
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t size = 0;         ///< bytes
  int64_t modified_ns = 0;  ///< since 1970; programs may set it
  int64_t changed_ns = 0;   ///< ctime, since 1970; every write advances it, and no program sets it

  bool operator==(const FileIdentity&) const = default;
};

/// Read-only private mapping of a regular file. Move-only.
///
/// Another program may truncate the file while it is mapped, or its disk may fail. Unreadable pages
/// then read as zeros (FaultGuard), and check_unchanged() returns an error from then on. Callers
/// must call it after reading pages and before using the results (once per step, not per read).
class MappedFile {
 public:
  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  /// Errors: kNotFound, kIo (not a regular file, no permission, no address space).
  static Result<MappedFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  /// nullptr for an empty file.
  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

  /// An error if the file's size or modification time differs from that at open(), or if a page
  /// could not be read since. One system call.
  Status check_unchanged() const;
  /// Identity of the open file, which may have been unlinked. Errors: kIo. One system call.
  Result<FileIdentity> identity() const;
  /// Reads from the file instead of the mapping: no page is mapped in, and a failure is an error.
  /// Errors: kIo (also where the file ends before the range does). Any thread.
  Status read(size_t offset, std::span<uint8_t> out) const;
  /// Tells the system that this range will not be read soon, so that it need not keep it in memory.
  void forget(size_t offset, size_t bytes) const;

 private:
  std::string path_;
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  int fd_ = -1;
  int64_t modified_ns_ = 0;
  FaultGuard guard_;
};

}  // namespace chimere

#endif  // CHIMERE_BASE_MAPPED_FILE_H_
