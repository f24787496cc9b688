// A file that exists in memory only, for tests and fuzz targets: passes bytes to readers that take
// a path, without disk access.
#ifndef CHIMERE_BASE_MEMORY_FILE_H_
#define CHIMERE_BASE_MEMORY_FILE_H_

#include <cstdint>
#include <span>
#include <string>

namespace chimere {

/// An anonymous file (memfd_create) with a path that this process can open, map, stat and truncate,
/// but not replace by rename. The kernel frees it with the last descriptor or mapping. A failing
/// system call ends the process with a message.
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
