// A file that exists in memory only, for tests and fuzz targets: bytes for readers that take a
// path, at no disk's speed.
#ifndef CHIMERE_BASE_MEMORY_FILE_H_
#define CHIMERE_BASE_MEMORY_FILE_H_

#include <cstdint>
#include <span>
#include <string>

namespace chimere {

/// An anonymous file (memfd_create) with a path that any reader of this process can open, map, stat
/// and cut, but not replace by rename. The kernel frees it with the last descriptor or mapping. A
/// failure of the system ends the process with a message: it is a failure of the test.
class MemoryFile {
 public:
  explicit MemoryFile(std::span<const uint8_t> bytes);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  /// /proc/self/fd/N, valid while this object lives.
  const std::string& path() const { return path_; }

 private:
  int fd_;
  std::string path_;
};

}  // namespace chimere

#endif  // CHIMERE_BASE_MEMORY_FILE_H_
