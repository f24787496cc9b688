// The operating system's socket addresses.
#ifndef CHIMERE_NET_SOCKET_ADDRESS_H_
#define CHIMERE_NET_SOCKET_ADDRESS_H_

#include <sys/socket.h>

#include <optional>

#include "net/address.h"

namespace chimere::net {

/// Nothing for families other than AF_INET and AF_INET6. `from` must be as large as its family
/// says.
std::optional<IpAddress> address_of(const sockaddr& from);

}  // namespace chimere::net

#endif  // CHIMERE_NET_SOCKET_ADDRESS_H_
