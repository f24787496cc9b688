// Bounds-checked little-endian reading.
#ifndef CHIMERE_GGUF_CURSOR_H_
#define CHIMERE_GGUF_CURSOR_H_

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/result.h"

namespace chimere::gguf {

static_assert(std::endian::native == std::endian::little,
              "GGUF is read in place, as little endian");

/// `text` in quotes for a message: control and non-ASCII bytes are escaped, long text is truncated.
std::string in_quotes(std::string_view text);

/// A position in `size` bytes. Every read checks the remaining size first.
class Cursor {
 public:
  Cursor(const uint8_t* data, uint64_t size) : data_(data), size_(size) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return size_ - position_; }

  /// Errors: kInvalidData, naming `what` and the offset at which the file ends.
  template <typename T>
  Result<T> read(std::string_view what) {
    if (remaining() < sizeof(T)) return truncated(what);
    T v;
    std::memcpy(&v, data_ + position_, sizeof(T));
    position_ += sizeof(T);
    return v;
  }

  /// `bytes` raw bytes, not copied.
  Result<const uint8_t*> take(uint64_t bytes, std::string_view what) {
    if (remaining() < bytes) return truncated(what);
    const uint8_t* p = data_ + position_;
    position_ += bytes;
    return p;
  }

  /// A u64 length, then that many bytes, not copied.
  Result<std::string_view> read_string(std::string_view what);

 private:
  Error truncated(std::string_view what) const;

  const uint8_t* data_;
  uint64_t size_;
  uint64_t position_ = 0;
};

}  // namespace chimere::gguf

#endif  // CHIMERE_GGUF_CURSOR_H_
