// SHA-256 (FIPS 180-4), for checksums of downloads and digests of keys.
#ifndef CHIMERE_BASE_SHA256_H_
#define CHIMERE_BASE_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace chimere {

class Sha256 {
 public:
  void add(std::string_view bytes);
  /// SHA-256 of everything added, as 64 lower-case hexadecimal digits. The object must not be used
  /// afterwards.
  std::string finish();

 private:
  void compress(const uint8_t* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> pending_{};
  uint64_t bytes_ = 0;
};

}  // namespace chimere

#endif  // CHIMERE_BASE_SHA256_H_
