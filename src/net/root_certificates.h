// Where this system keeps the certificates that TLS trusts.
#ifndef CHIMERE_NET_ROOT_CERTIFICATES_H_
#define CHIMERE_NET_ROOT_CERTIFICATES_H_

#include <span>
#include <string>
#include <string_view>

namespace chimere::net {

/// Where distributions have one file with all certificates.
std::span<const std::string_view> usual_certificate_files();

/// The file to give libcurl in place of `built_in`, where the libcurl in use looks; empty: that one
/// is there, or none of `files` is either. The portable tarball brings Debian's libcurl to other
/// distributions.
std::string other_certificate_file(const char* built_in, std::span<const std::string_view> files);

}  // namespace chimere::net

#endif  // CHIMERE_NET_ROOT_CERTIFICATES_H_
