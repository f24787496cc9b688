// Writes GGUF version 3 files.
#ifndef CHIMERE_GGUF_WRITER_H_
#define CHIMERE_GGUF_WRITER_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"

namespace chimere::gguf {

/// Collects metadata and tensors, then writes the file (under a temporary name, then renamed).
/// Setting a key again replaces its value and keeps its position. An invalid key (empty or longer
/// than 65535 bytes) or alignment (not a power of two of at least 8) is reported by write().
class Writer {
 public:
  explicit Writer(uint32_t alignment = 32);

  void set_u32(std::string_view key, uint32_t v);
  void set_u64(std::string_view key, uint64_t v);
  void set_i32(std::string_view key, int32_t v);
  void set_f32(std::string_view key, float v);
  void set_bool(std::string_view key, bool v);
  void set_string(std::string_view key, std::string_view v);
  void set_strings(std::string_view key, const std::vector<std::string>& v);
  /// An array of bytes.
  void set_u8s(std::string_view key, std::string_view v);
  void set_i32s(std::string_view key, const std::vector<int32_t>& v);
  void set_f32s(std::string_view key, const std::vector<float>& v);
  void set_bools(std::string_view key, const std::vector<bool>& v);

  /// A value of metadata_bytes() (gguf/metadata_bytes.h). Not for general.alignment.
  void set_encoded(std::string_view key, std::span<const uint8_t> value);

  /// dims in GGUF order (contiguous dimension first). The bytes are copied.
  /// Errors: a duplicate name, a size that does not match shape and type.
  Status add_tensor(std::string_view name, const std::vector<int64_t>& dims, DType type,
                    const void* data, uint64_t bytes);

  /// The same for data that is computed when the file is written, one tensor at a time: `fill` must
  /// write all of a buffer of `bytes` bytes.
  using Fill = std::function<Status(std::span<uint8_t>)>;
  Status add_tensor(std::string_view name, const std::vector<int64_t>& dims, DType type,
                    uint64_t bytes, Fill fill);

  /// Errors: kIo, kInvalidArgument (keys, alignment), those of a Fill.
  Status write(const std::string& path) const;
  /// Writes "<prefix>-00001-of-0000N.gguf" and so on (gguf/split_set.h), each with at most
  /// `max_bytes` of tensors or with one tensor. The first holds the metadata, and no tensors if
  /// `metadata_apart`. Returns the paths. Errors: those of write(); parts written before the error
  /// remain.
  Result<std::vector<std::string>> write_split(const std::string& prefix, uint64_t max_bytes,
                                               bool metadata_apart = false) const;
  /// The bytes before the tensors' data, which follows in the order of add_tensor(), each tensor
  /// padded with zeros to a multiple of alignment(). Errors: those of write() that need no disk.
  Result<std::vector<uint8_t>> head() const;
  uint32_t alignment() const { return alignment_; }
  /// The file's bytes (tests, fuzzing); empty if write() would fail.
  std::vector<uint8_t> bytes() const;

 private:
  struct Tensor {
    std::string name;
    std::vector<int64_t> dims;
    DType type;
    uint64_t bytes;
    Fill fill;
  };
  struct Key {
    std::string name;
    std::vector<uint8_t> value;  // its type number, then its encoding
  };

  void set(std::string_view key, std::vector<uint8_t> value);
  Status check() const;
  /// The header and metadata of the file at `path`, and its tensors.
  Status write_file(const std::string& path, std::span<const Key> keys,
                    std::span<const Tensor> tensors) const;
  std::vector<uint8_t> header(std::span<const Key> keys, std::span<const Tensor> tensors) const;

  uint32_t alignment_;
  std::vector<Key> keys_;
  std::unordered_map<std::string, size_t> key_index_;
  std::vector<Tensor> tensors_;
  std::unordered_set<std::string> tensor_names_;
};

}  // namespace chimere::gguf

#endif  // CHIMERE_GGUF_WRITER_H_
