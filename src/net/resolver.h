// Host names to addresses.
#ifndef CHIMERE_NET_RESOLVER_H_
#define CHIMERE_NET_RESOLVER_H_

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "net/address.h"

namespace chimere::net {

/// The addresses of a host, in the order of preference; not empty. Errors: kNotFound (no such
/// host), kIo (the name server does not answer). Called from a thread of its own.
using Resolve = std::function<Result<std::vector<IpAddress>>(const std::string& host)>;

/// getaddrinfo(3).
Result<std::vector<IpAddress>> resolve_host(const std::string& host);

/// Runs `resolve` on a thread of its own and polls `interrupted` (every 50 ms) meanwhile. Errors:
/// those of `resolve`; kCancelled (interrupted: the thread ends by itself later); kIo
/// (`seconds` have passed).
Result<std::vector<IpAddress>> resolve_interruptibly(const Resolve& resolve,
                                                     const std::string& host, double seconds,
                                                     const std::function<bool()>& interrupted);

}  // namespace chimere::net

#endif  // CHIMERE_NET_RESOLVER_H_
