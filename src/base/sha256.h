// SHA-256 (FIPS 180-4), for checksums of downloads and digests of keys; computed by libcrypto.
#ifndef CHIMERE_BASE_SHA256_H_
#define CHIMERE_BASE_SHA256_H_

#include <memory>
#include <string>
#include <string_view>

namespace chimere {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void add(std::string_view bytes);
  /// SHA-256 of everything added, as 64 lower-case hexadecimal digits; empty, which equals no
  /// digest, if libcrypto failed (its build lacks SHA-256, or there is no memory). The object must
  /// not be used afterwards.
  std::string finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;  ///< nullptr after a failure
};

}  // namespace chimere

#endif  // CHIMERE_BASE_SHA256_H_
