#include "base/file_stream.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/output_file.h"

namespace chimere {
namespace {

/// A system call moves at most about 2 GB.
constexpr size_t kMaxPiece = size_t{1} << 30;

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) close(fd_);
  if (!partial_.empty()) unlink(partial_.c_str());
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept { *this = std::move(other); }

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(partial_, other.partial_);
  std::swap(fd_, other.fd_);
  return *this;
}

Error AtomicFile::failure(const char* what) const {
  if (errno == ENOSPC || errno == EDQUOT) {
    return {Error::Code::kOutOfSpace, "There is no space left in " + folder_of(path_) + " for " +
                                          path_ + "; free some, or name a file on another disk."};
  }
  return io_error("Cannot " + std::string(what) + " " + path_ + ": " + std::strerror(errno) + ".");
}

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  while (true) {
    AtomicFile file;
    file.path_ = path;
    std::string name = path + ".XXXXXX";
    file.fd_ = mkostemp(name.data(), O_CLOEXEC);
    if (file.fd_ < 0) return file.failure("write");
    file.partial_ = std::move(name);
    // remove_abandoned() of another program may have locked or removed it before this lock.
    struct stat s {};
    const bool locked = flock(file.fd_, LOCK_EX | LOCK_NB) == 0;
    const bool taken = locked ? fstat(file.fd_, &s) == 0 && s.st_nlink == 0 : errno == EWOULDBLOCK;
    if (!taken) return file;
  }
}

bool remove_abandoned(const std::string& partial) {
  const int fd = ::open(partial.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (fd < 0) return false;
  const bool removed = flock(fd, LOCK_EX | LOCK_NB) == 0 && unlink(partial.c_str()) == 0;
  close(fd);
  return removed;
}

Status AtomicFile::write(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), std::min(bytes.size(), kMaxPiece));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failure("write");
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Status AtomicFile::commit() {
  if (fsync(fd_) != 0) return failure("write");
  // Renamed while it is locked: an unlocked file of this name is an abandoned one.
  CHIMERE_CHECK_OK(publish_file(partial_, path_));
  partial_.clear();
  close(std::exchange(fd_, -1));  // the bytes are on the disk
  return {};
}

InputFile::~InputFile() {
  if (fd_ >= 0) close(fd_);
}

InputFile::InputFile(InputFile&& other) noexcept { *this = std::move(other); }

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(remaining_, other.remaining_);
  std::swap(fd_, other.fd_);
  return *this;
}

Result<InputFile> InputFile::open(const std::string& path) {
  InputFile file;
  file.path_ = path;
  // O_NONBLOCK: opening a FIFO must not wait for a writer; it has no effect on regular files.
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.fd_ < 0) {
    if (errno == ENOENT) return not_found("There is no file " + path + ".");
    return io_error("Cannot open " + path + ": " + std::strerror(errno) + ".");
  }
  struct stat s {};
  if (fstat(file.fd_, &s) != 0 || !S_ISREG(s.st_mode)) {
    return io_error(path + " is not a regular file.");
  }
  file.remaining_ = static_cast<uint64_t>(s.st_size);
  return file;
}

Status InputFile::read(std::span<uint8_t> out) {
  while (!out.empty()) {
    const ssize_t n = ::read(fd_, out.data(), std::min(out.size(), kMaxPiece));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error("Cannot read " + path_ + ": " + std::strerror(errno) + ".");
    if (n == 0) return invalid_data(path_ + " ends too early; it was truncated.");
    out = out.subspan(static_cast<size_t>(n));
    remaining_ -= std::min(remaining_, static_cast<uint64_t>(n));
  }
  return {};
}

}  // namespace chimere
