#include "net/resolver.h"

#include <netdb.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "net/socket_address.h"

namespace chimere::net {

Result<std::vector<IpAddress>> resolve_host(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* raw = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &raw);
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(raw, freeaddrinfo);
  if (error == EAI_AGAIN) return io_error("The name server does not answer for " + host + ".");
  if (error != 0) return not_found("The host " + host + " is not known.");
  std::vector<IpAddress> addresses;
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
    const auto address = address_of(*at->ai_addr);
    if (address && std::ranges::find(addresses, *address) == addresses.end()) {
      addresses.push_back(*address);
    }
  }
  if (addresses.empty()) return not_found("The host " + host + " has no IP address.");
  return addresses;
}

Result<std::vector<IpAddress>> resolve_interruptibly(const Resolve& resolve,
                                                     const std::string& host, double seconds,
                                                     const std::function<bool()>& interrupted) {
  using Addresses = Result<std::vector<IpAddress>>;
  using Clock = std::chrono::steady_clock;
  std::promise<Addresses> promise;
  std::future<Addresses> future = promise.get_future();
  try {
    // Detached: getaddrinfo() cannot be interrupted. The thread owns all that it uses.
    std::thread([promise = std::move(promise), resolve, host]() mutable {
      promise.set_value(resolve(host));
    }).detach();
  } catch (const std::system_error&) {
    return out_of_memory("No thread can be started to look up " + host + ".");
  }
  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  while (future.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
    if (interrupted && interrupted()) {
      return Error{Error::Code::kCancelled, "The look-up of " + host + " was stopped."};
    }
    if (Clock::now() > deadline) {
      return io_error("The name server does not answer for " + host + ".");
    }
  }
  return future.get();
}

}  // namespace chimere::net
