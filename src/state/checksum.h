// XXH3 (64 and 128 bits, seed 0) of bytes that come in pieces, and streams that compute it on the
// way.
#ifndef CHIMERE_STATE_CHECKSUM_H_
#define CHIMERE_STATE_CHECKSUM_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/byte_stream.h"

namespace chimere::state {

class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum&) = delete;
  Checksum& operator=(const Checksum&) = delete;

  void update(std::span<const uint8_t> bytes);
  /// The checksum of everything added so far.
  uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

uint64_t checksum(std::span<const uint8_t> bytes);
/// 16 digits, for names of files.
std::string hexadecimal(uint64_t v);

/// A name of bytes: two contents do not share one by accident.
struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;
  bool operator==(const Hash128&) const = default;
};
static_assert(sizeof(Hash128) == 16);

/// XXH3 of 128 bits.
class Hasher128 {
 public:
  Hasher128();
  ~Hasher128();
  Hasher128(const Hasher128&) = delete;
  Hasher128& operator=(const Hasher128&) = delete;

  void update(std::span<const uint8_t> bytes);
  /// Of everything so far.
  Hash128 value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Writes to `to` and computes the checksum.
class SummedSink {
 public:
  explicit SummedSink(ByteSink& to) : to_(to) {}
  Status write(std::span<const uint8_t> bytes) {
    sum_.update(bytes);
    return to_.write(bytes);
  }
  /// Writes the checksum of everything before.
  Status finish();

 private:
  ByteSink& to_;
  Checksum sum_;
};

/// Reads from `from` and computes the checksum.
class SummedSource {
 public:
  explicit SummedSource(ByteSource& from) : from_(from) {}
  Status read(std::span<uint8_t> out) {
    CHIMERE_CHECK_OK(from_.read(out));
    sum_.update(out);
    return {};
  }
  /// Reads a checksum and compares it. Errors: kInvalidData, naming `what`.
  Status finish(const char* what);

 private:
  ByteSource& from_;
  Checksum sum_;
};

}  // namespace chimere::state

#endif  // CHIMERE_STATE_CHECKSUM_H_
