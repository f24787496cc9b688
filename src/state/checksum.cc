#include "state/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <cstring>
#include <string>
#include <string_view>

namespace chimere::state {

struct Checksum::State {
  XXH3_state_t xxh;
};

Checksum::Checksum() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->xxh); }
Checksum::~Checksum() = default;

void Checksum::update(std::span<const uint8_t> bytes) {
  XXH3_64bits_update(&state_->xxh, bytes.data(), bytes.size());
}

uint64_t Checksum::value() const { return XXH3_64bits_digest(&state_->xxh); }

uint64_t checksum(std::span<const uint8_t> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

void append_u64(std::vector<uint8_t>& out, uint64_t v) {
  for (int shift = 0; shift < 64; shift += 8) out.push_back(static_cast<uint8_t>(v >> shift));
}

std::string hexadecimal(uint64_t v) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (int shift = 60; shift >= 0; shift -= 4) out += kDigits[(v >> shift) & 15];
  return out;
}

struct Hasher128::State {
  XXH3_state_t xxh;
};

Hasher128::Hasher128() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }
Hasher128::~Hasher128() = default;

void Hasher128::update(std::span<const uint8_t> bytes) {
  XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size());
}

Hash128 Hasher128::value() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh);
  return {hash.low64, hash.high64};
}

Status SummedSink::finish() {
  std::array<uint8_t, sizeof(uint64_t)> bytes{};
  const uint64_t sum = sum_.value();
  std::memcpy(bytes.data(), &sum, sizeof sum);
  return to_.write(bytes);
}

Status SummedSource::finish(const char* what) {
  std::array<uint8_t, sizeof(uint64_t)> bytes{};
  CHIMERE_CHECK_OK(from_.read(bytes));
  uint64_t stored = 0;
  std::memcpy(&stored, bytes.data(), sizeof stored);
  if (stored == sum_.value()) return {};
  return invalid_data(std::string(what) + " is damaged: its checksum does not match");
}

}  // namespace chimere::state
