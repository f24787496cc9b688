#include "base/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

namespace chimere {
namespace {

Error failure(const std::string& path, const char* what) {
  const int code = errno;
  if (code == ENOSPC || code == EDQUOT) {
    return {Error::Code::kOutOfSpace, "The disk is full: '" + path + "' cannot be extended."};
  }
  return io_error("The file '" + path + "' cannot be " + what + ": " + std::strerror(code) + ".");
}

}  // namespace

OutputFile::OutputFile(int descriptor, int64_t size, std::string path)
    : descriptor_(descriptor), size_(size), path_(std::move(path)) {}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      path_(std::move(other.path_)) {}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) (void)close(descriptor_);
}

Result<OutputFile> OutputFile::append_to(const std::string& path) {
  CHIMERE_TRY(std::optional<OutputFile> file, try_append_to(path));
  if (file) return *std::move(file);
  return io_error("Another program is writing '" + path + "'; wait for it, or stop it.");
}

Result<std::optional<OutputFile>> OutputFile::try_append_to(const std::string& path) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0) return failure(path, "opened");
  OutputFile file(descriptor, 0, path);
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return failure(path, "locked");
    return std::optional<OutputFile>();
  }
  const off_t size = lseek(descriptor, 0, SEEK_END);
  if (size < 0) return failure(path, "measured");
  file.size_ = size;
  return std::optional<OutputFile>(std::move(file));
}

Status OutputFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failure(path_, "written");
    size_ += written;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

Status OutputFile::cut(int64_t size) {
  if (ftruncate(descriptor_, size) != 0) return failure(path_, "cut");
  size_ = size;
  return {};
}

Status OutputFile::clear() { return cut(0); }

Status OutputFile::sync() {
  if (fsync(descriptor_) != 0) return failure(path_, "synced to disk");
  return {};
}

Status publish_file(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) return failure(to, "written");
  // Sync the folder too: otherwise the rename may be lost in a power failure.
  const std::string folder = std::filesystem::path(to).parent_path().string();
  const int descriptor = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return {};
  (void)fsync(descriptor);  // not supported by all file systems; the file itself is safe
  (void)close(descriptor);
  return {};
}

}  // namespace chimere
