// Reads GGUF version 2 and 3 files, whole models and split ones
// (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
#ifndef CHIMERE_GGUF_READER_H_
#define CHIMERE_GGUF_READER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "tensor/dtype.h"

namespace chimere::gguf {

/// Metadata arrays keep one element type. Integers of all widths are widened to (u)int64, floats to
/// double.
struct Array {
  std::variant<std::vector<int64_t>, std::vector<uint64_t>, std::vector<double>, std::vector<bool>,
               std::vector<std::string>>
      items;
  bool operator==(const Array&) const = default;
};
using Value = std::variant<int64_t, uint64_t, double, bool, std::string, Array>;

struct TensorInfo {
  std::string name;
  std::vector<int64_t> dims;  ///< GGUF order: dims[0] is contiguous
  DType type = DType::kF32;
  uint64_t offset = 0;  ///< from the start of the file that it is in
  uint64_t bytes = 0;
  const void* data = nullptr;  ///< into the mapping; valid while the Reader lives
};

/// A mapped, fully validated model: one file, or all files of a split one as if they were one.
/// Every count, string, type, shape, offset and overlap is checked against the file's size before
/// anything is trusted, so that no file can crash the reader or make it allocate more than a small
/// multiple of the file's own size.
class Reader {
 public:
  /// `path` may be any part of a split model; the others are found beside it. Errors: kNotFound (of
  /// a part too), kIo, kInvalidData (says what is wrong, and at which byte or tensor).
  static Result<std::unique_ptr<Reader>> open(const std::string& path);
  /// The same over bytes in memory, which must outlive the reader (fuzzing, tests).
  static Result<std::unique_ptr<Reader>> from_bytes(const void* data, size_t size);
  ~Reader();

  const std::string& path() const;  ///< as opened; empty after from_bytes()
  uint64_t file_bytes() const;      ///< of all files together
  uint32_t version() const;

  /// Keys in file order.
  const std::vector<std::string>& keys() const;
  const Value* find(std::string_view key) const;
  /// Typed look-ups that accept any integer width; an absent or differently typed key is an Error
  /// that names it.
  Result<int64_t> get_int(std::string_view key) const;
  Result<double> get_float(std::string_view key) const;
  Result<bool> get_bool(std::string_view key) const;
  Result<std::string> get_string(std::string_view key) const;
  Result<std::vector<int64_t>> get_int_array(std::string_view key) const;
  Result<std::vector<double>> get_float_array(std::string_view key) const;
  /// nullptr if absent or no array of strings (no copy: vocabularies are large).
  const std::vector<std::string>* find_strings(std::string_view key) const;

  const std::vector<TensorInfo>& tensors() const;
  const TensorInfo* find_tensor(std::string_view name) const;

  /// An Error if a file was cut or rewritten since open(), or could not be read; one system call a
  /// file. Call it after walking over tensor data (once per step): what was read in vain is zeros.
  Status check_unchanged() const;
  /// The mappings, for populate() and advise(); none after from_bytes().
  std::span<const MappedFile> files() const;

 private:
  Reader();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace chimere::gguf

#endif  // CHIMERE_GGUF_READER_H_
