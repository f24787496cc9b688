#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace chimere {
namespace {

int64_t modified_ns(const struct stat& s) {
  return int64_t{s.st_mtim.tv_sec} * 1'000'000'000 + s.st_mtim.tv_nsec;
}

std::string reason() { return std::strerror(errno); }

}  // namespace

MappedFile::~MappedFile() {
  guard_.stop();
  if (data_ != nullptr) munmap(const_cast<uint8_t*>(data_), size_);
  if (fd_ >= 0) close(fd_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(fd_, other.fd_);
  std::swap(modified_ns_, other.modified_ns_);
  std::swap(guard_, other.guard_);
  return *this;
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  MappedFile file;
  file.path_ = path;
  // O_NONBLOCK: opening a FIFO must not wait for a writer; it has no effect on regular files.
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.fd_ < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return not_found("there is no file " + path);
    return io_error("cannot open " + path + ": " + reason());
  }
  struct stat s {};
  if (fstat(file.fd_, &s) != 0) return io_error("cannot examine " + path + ": " + reason());
  if (S_ISDIR(s.st_mode)) return io_error(path + " is a directory; name a file in it");
  if (!S_ISREG(s.st_mode)) return io_error(path + " is not a regular file, so it cannot be mapped");
  file.modified_ns_ = modified_ns(s);
  const auto size = static_cast<size_t>(s.st_size);
  if (size > 0) {
    void* p = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd_, 0);
    if (p == MAP_FAILED) return io_error("cannot map " + path + ": " + reason());
    file.data_ = static_cast<const uint8_t*>(p);
    file.size_ = size;
    if (!file.guard_.start(p, size)) {
      return io_error("cannot map " + path + ": " + std::to_string(FaultGuard::kMax) +
                      " files are mapped already");
    }
  }
  return file;
}

Status MappedFile::check_unchanged() const {
  struct stat s {};
  if (fd_ < 0) return {};
  if (fstat(fd_, &s) != 0) return io_error("cannot examine " + path_ + ": " + reason());
  if (static_cast<size_t>(s.st_size) != size_ || modified_ns(s) != modified_ns_) {
    return io_error(path_ + " was changed while in use (" + std::to_string(size_) +
                    " bytes then, " + std::to_string(s.st_size) +
                    " now); load it again once it is complete");
  }
  if (guard_.damaged()) {
    return io_error("part of " + path_ +
                    " could not be read while it was in use; check the disk, or the program that "
                    "wrote the file, and load it again");
  }
  return {};
}

Result<FileIdentity> MappedFile::identity() const {
  struct stat s {};
  if (fstat(fd_, &s) != 0) return io_error("cannot examine " + path_ + ": " + reason());
  return FileIdentity{.device = s.st_dev,
                      .inode = s.st_ino,
                      .size = s.st_size,
                      .modified_ns = modified_ns(s),
                      .changed_ns = int64_t{s.st_ctim.tv_sec} * 1'000'000'000 + s.st_ctim.tv_nsec};
}

Status MappedFile::read(size_t offset, std::span<uint8_t> out) const {
  while (!out.empty()) {
    const ssize_t n = pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error("cannot read " + path_ + ": " + reason());
    if (n == 0) return io_error(path_ + " became shorter while in use; load it again");
    offset += static_cast<size_t>(n);
    out = out.subspan(static_cast<size_t>(n));
  }
  return {};
}

void MappedFile::forget(size_t offset, size_t bytes) const {
  if (bytes == 0) return;  // would mean all that follows
  posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_DONTNEED);
}

}  // namespace chimere
