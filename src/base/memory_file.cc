#include "base/memory_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace chimere {
namespace {

[[noreturn]] void fail(const char* call) {
  std::perror(call);
  std::abort();
}

}  // namespace

MemoryFile::MemoryFile(std::span<const uint8_t> bytes) : fd_(memfd_create("test", MFD_CLOEXEC)) {
  if (fd_ < 0) fail("memfd_create");
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail("write to a memory file");
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  path_ = "/proc/self/fd/" + std::to_string(fd_);
}

MemoryFile::~MemoryFile() { (void)close(fd_); }

}  // namespace chimere
