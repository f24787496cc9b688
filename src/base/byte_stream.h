// Sequential sinks and sources of bytes.
#ifndef CHIMERE_BASE_BYTE_STREAM_H_
#define CHIMERE_BASE_BYTE_STREAM_H_

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/result.h"

namespace chimere {

class ByteSink {
 public:
  virtual ~ByteSink() = default;
  /// Errors: kOutOfSpace, kIo. After an error it is unspecified how much has been written.
  virtual Status write(std::span<const uint8_t> bytes) = 0;
};

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Bytes that are left.
  virtual uint64_t remaining() const = 0;
  /// Fills `out`. Errors: kInvalidData (fewer bytes are left), kIo.
  virtual Status read(std::span<uint8_t> out) = 0;
};

/// A sink that appends to a vector.
class VectorSink final : public ByteSink {
 public:
  explicit VectorSink(std::vector<uint8_t>& out) : out_(out) {}
  Status write(std::span<const uint8_t> bytes) override {
    out_.insert(out_.end(), bytes.begin(), bytes.end());
    return {};
  }

 private:
  std::vector<uint8_t>& out_;
};

/// A source that reads memory, which must outlive it.
class SpanSource final : public ByteSource {
 public:
  explicit SpanSource(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  uint64_t remaining() const override { return bytes_.size(); }
  Status read(std::span<uint8_t> out) override {
    if (out.size() > bytes_.size()) return invalid_data("the data ends too early");
    if (!out.empty()) std::memcpy(out.data(), bytes_.data(), out.size());
    bytes_ = bytes_.subspan(out.size());
    return {};
  }

 private:
  std::span<const uint8_t> bytes_;
};

}  // namespace chimere

#endif  // CHIMERE_BASE_BYTE_STREAM_H_
