// Incremental XXH3 (64 and 128 bits, seed 0), and streams that compute it while they read or
// write.
#ifndef CHIMERE_STATE_CHECKSUM_H_
#define CHIMERE_STATE_CHECKSUM_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

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
/// Appends 8 bytes, least significant first, to what is to be hashed or stored.
void append_u64(std::vector<uint8_t>& out, uint64_t v);
/// 16 hexadecimal digits, for file names.
std::string hexadecimal(uint64_t v);

/// A 128-bit content hash: accidental collisions are negligible, deliberate ones are not excluded.
struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;
  bool operator==(const Hash128&) const = default;
};
static_assert(sizeof(Hash128) == 16);

/// Incremental 128-bit XXH3.
class Hasher128 {
 public:
  Hasher128();
  ~Hasher128();
  Hasher128(const Hasher128&) = delete;
  Hasher128& operator=(const Hasher128&) = delete;

  void update(std::span<const uint8_t> bytes);
  /// The hash of everything added so far.
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
  /// Writes the checksum of all bytes written before.
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
  /// Reads a checksum and compares it with that of all bytes read before. Errors: kInvalidData
  /// (they differ; the message names `what`), those of the source.
  Status finish(const char* what);

 private:
  ByteSource& from_;
  Checksum sum_;
};

}  // namespace chimere::state

#endif  // CHIMERE_STATE_CHECKSUM_H_
