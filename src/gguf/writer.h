// Writes GGUF version 3 files.
#ifndef CHIMERE_GGUF_WRITER_H_
#define CHIMERE_GGUF_WRITER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"

namespace chimere::gguf {

/// Collects metadata and tensors, then writes the file at once (to a temporary name, then renamed).
/// Setting a key again replaces its value and keeps its place. An impossible key (empty or longer
/// than 65535 bytes) or alignment (no power of two from 8 on) is remembered and reported by
/// write().
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
  void set_i32s(std::string_view key, const std::vector<int32_t>& v);
  void set_f32s(std::string_view key, const std::vector<float>& v);

  /// dims in GGUF order (contiguous first). The bytes are copied.
  /// Errors: a duplicate name, a size that does not fit the shape and type.
  Status add_tensor(std::string_view name, const std::vector<int64_t>& dims, DType type,
                    const void* data, uint64_t bytes);

  Status write(const std::string& path) const;
  /// The file's bytes (tests, fuzzing); empty where write() would report an error.
  std::vector<uint8_t> bytes() const;

 private:
  struct Tensor {
    std::string name;
    std::vector<int64_t> dims;
    DType type;
    std::vector<uint8_t> data;
  };
  struct Key {
    std::string name;
    std::vector<uint8_t> value;  // its type number, then its encoding
  };

  void set(std::string_view key, std::vector<uint8_t> value);
  Status check() const;
  std::vector<uint8_t> header() const;

  uint32_t alignment_;
  std::vector<Key> keys_;
  std::unordered_map<std::string, size_t> key_index_;
  std::vector<Tensor> tensors_;
  std::unordered_set<std::string> tensor_names_;
};

}  // namespace chimere::gguf

#endif  // CHIMERE_GGUF_WRITER_H_
