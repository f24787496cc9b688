#include "base/sha256.h"

#include <openssl/evp.h>

#include <array>

namespace chimere {

struct Sha256::Context {
  EVP_MD_CTX* const evp = EVP_MD_CTX_new();

  Context() = default;
  ~Context() { EVP_MD_CTX_free(evp); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  if (context_->evp == nullptr || EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr) != 1) {
    context_.reset();
  }
}

Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::add(std::string_view bytes) {
  if (context_ == nullptr) return;
  if (EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) != 1) context_.reset();
}

std::string Sha256::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (context_ == nullptr || EVP_DigestFinal_ex(context_->evp, digest.data(), &size) != 1) {
    return "";
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (unsigned i = 0; i < size; ++i) {
    text += kDigits[digest[i] >> 4U];
    text += kDigits[digest[i] & 15U];
  }
  return text;
}

}  // namespace chimere
