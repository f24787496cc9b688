#include "net/socket_address.h"

#include <netinet/in.h>

#include <cstring>

namespace chimere::net {

std::optional<IpAddress> address_of(const sockaddr& from) {
  IpAddress address;
  if (from.sa_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &from, sizeof v6);
    std::memcpy(address.bytes.data(), &v6.sin6_addr, address.bytes.size());
    return address;
  }
  if (from.sa_family != AF_INET) return std::nullopt;
  sockaddr_in v4{};
  std::memcpy(&v4, &from, sizeof v4);
  address.bytes[10] = address.bytes[11] = 0xff;
  std::memcpy(address.bytes.data() + 12, &v4.sin_addr, sizeof v4.sin_addr);
  return address;
}

}  // namespace chimere::net
