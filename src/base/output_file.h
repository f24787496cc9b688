// An append-only file with one writer at a time.
#ifndef CHIMERE_BASE_OUTPUT_FILE_H_
#define CHIMERE_BASE_OUTPUT_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace chimere {

class OutputFile {
 public:
  /// Opens or creates the file and continues at its end. Errors: kIo, also when another program has
  /// it open for writing through this class.
  static Result<OutputFile> append_to(const std::string& path);
  /// The same; nullopt if another program has the file open.
  static Result<std::optional<OutputFile>> try_append_to(const std::string& path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(OutputFile&&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  int64_t size() const { return size_; }
  /// Errors: kOutOfSpace if the disk is full (as much as fits is written), kIo.
  Status write(std::string_view bytes);
  /// Truncates the file to its first `size` bytes. Errors: kIo.
  Status cut(int64_t size);
  /// Truncates the file to zero bytes.
  Status clear();
  /// Returns when everything is on disk.
  Status sync();

 private:
  OutputFile(int descriptor, int64_t size, std::string path);

  int descriptor_;
  int64_t size_;
  std::string path_;
};

/// Renames a complete file to its final name, atomically replacing an older one. Errors: kIo.
Status publish_file(const std::string& from, const std::string& to);

}  // namespace chimere

#endif  // CHIMERE_BASE_OUTPUT_FILE_H_
