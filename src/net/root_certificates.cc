#include "net/root_certificates.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

namespace chimere::net {
namespace {

bool is_file(std::string_view path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

constexpr auto kFiles = std::to_array<std::string_view>({
    "/etc/ssl/certs/ca-certificates.crt",                 // Debian, Ubuntu, Alpine, Arch
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // Fedora, RHEL
    "/etc/pki/tls/certs/ca-bundle.crt",                   // older ones
    "/etc/ssl/ca-bundle.pem",                             // openSUSE
    "/etc/ssl/cert.pem",                                  // Alpine without ca-certificates
});

}  // namespace

std::span<const std::string_view> usual_certificate_files() { return kFiles; }

std::string other_certificate_file(const char* built_in, std::span<const std::string_view> files) {
  if (built_in == nullptr || is_file(built_in)) return "";
  const auto found = std::ranges::find_if(files, is_file);
  return found == files.end() ? "" : std::string(*found);
}

}  // namespace chimere::net
