// A file that is written from its end on and that only one program writes at a time.
#ifndef CHIMERE_BASE_OUTPUT_FILE_H_
#define CHIMERE_BASE_OUTPUT_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace chimere {

class OutputFile {
 public:
  /// Opens or creates the file; writing continues at its end. Errors: kIo, also when another
  /// program has it open in this way.
  static Result<OutputFile> append_to(const std::string& path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(OutputFile&&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  int64_t size() const { return size_; }
  /// Errors: kOutOfSpace if the disk is full (what fits is written), kIo.
  Status write(std::string_view bytes);
  /// Cuts the file to nothing.
  Status clear();
  /// Waits until everything is on the disk.
  Status sync();

 private:
  OutputFile(int descriptor, int64_t size, std::string path);

  int descriptor_;
  int64_t size_;
  std::string path_;
};

/// Gives a complete file its name, in place of an older one: either is there at any time. Errors:
/// kIo.
Status publish_file(const std::string& from, const std::string& to);

}  // namespace chimere

#endif  // CHIMERE_BASE_OUTPUT_FILE_H_
