// Reads GGUF files of versions 2 and 3, whole or split models
// (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).
#ifndef CHIMERE_GGUF_READER_H_
#define CHIMERE_GGUF_READER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "gguf/metadata.h"

namespace chimere::gguf {

/// A mapped, fully validated model: one file, or all files of a split model as one. Every count,
/// string, type, shape, offset and overlap is checked against the file's size before use, so no
/// file can crash the reader or make it allocate more than a small multiple of the file's size.
class Reader {
 public:
  /// `path` may be any part of a split model; the other parts must lie beside it. Errors: kNotFound
  /// (also for a missing part), kIo, kInvalidData (says what is wrong, and at which byte or
  /// tensor).
  static Result<std::unique_ptr<Reader>> open(const std::string& path);
  /// The same for bytes in memory, which must outlive the reader (fuzzing, tests).
  static Result<std::unique_ptr<Reader>> from_bytes(const void* data, size_t size);
  ~Reader();

  const std::string& path() const;  ///< as opened; empty after from_bytes()
  uint64_t file_bytes() const;      ///< of all files
  uint32_t version() const;

  /// Keys in file order.
  const std::vector<std::string>& keys() const;
  const Value* find(std::string_view key) const;
  /// Typed look-ups. Integers of any width are accepted; a missing or differently typed key is an
  /// error that names it.
  Result<int64_t> get_int(std::string_view key) const;
  Result<double> get_float(std::string_view key) const;
  Result<bool> get_bool(std::string_view key) const;
  Result<std::string> get_string(std::string_view key) const;
  Result<std::vector<int64_t>> get_int_array(std::string_view key) const;
  Result<std::vector<double>> get_float_array(std::string_view key) const;
  /// nullptr if missing or not an array of strings. No copy, because vocabularies are large.
  const std::vector<std::string>* find_strings(std::string_view key) const;

  const std::vector<TensorInfo>& tensors() const;
  const TensorInfo* find_tensor(std::string_view name) const;

  /// An error if a file was truncated or rewritten since open(), or could not be read; one system
  /// call per file. Call it after reading tensor data (once per step), because unreadable data
  /// reads as zeros.
  Status check_unchanged() const;
  /// Copies bytes of tensor data, `data` being a pointer into them, without mapping their pages
  /// into this process. Errors: kIo. Any thread.
  Status read(const uint8_t* data, std::span<uint8_t> out) const;
  /// Tells the system that these bytes need not stay in memory; they can still be read.
  void forget(const uint8_t* data, size_t bytes) const;
  /// The mappings; none after from_bytes().
  std::span<const MappedFile> files() const;

 private:
  Reader();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace chimere::gguf

#endif  // CHIMERE_GGUF_READER_H_
