// IP addresses and what they can reach.
#ifndef CHIMERE_NET_ADDRESS_H_
#define CHIMERE_NET_ADDRESS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace chimere::net {

/// An IPv6 address in network byte order; IPv4 addresses are mapped (::ffff:a.b.c.d, RFC 4291).
struct IpAddress {
  std::array<uint8_t, 16> bytes{};

  bool is_ipv4() const;
  bool operator==(const IpAddress&) const = default;
};

/// Strict notation: four decimal numbers without leading zeros, or RFC 4291 text without a zone.
/// Nothing for anything else, such as "127.1" or "0x7f000001".
std::optional<IpAddress> parse_ip(std::string_view text);
/// "192.0.2.1" or "2001:db8::1".
std::string to_string(const IpAddress& address);

/// Where packets to an address can arrive, after the special-purpose registries of IANA (RFC 6890
/// and its successors).
enum class AddressScope {
  kPublic,
  kLoopback,
  kPrivate,    ///< RFC 1918, carrier-grade NAT (RFC 6598), unique local (RFC 4193)
  kLinkLocal,  ///< includes the metadata services of clouds (169.254.169.254)
  kMulticast,
  kSpecial,  ///< unspecified, broadcast, documentation, benchmarking, reserved, unassigned
};
/// An IPv6 address that embeds an IPv4 one (mapped, compatible, NAT64, 6to4, Teredo) has the scope
/// of the embedded address if that is not kPublic.
AddressScope scope_of(const IpAddress& address);
/// "public", "loopback", "private", "link-local", "multicast", "special-purpose".
const char* scope_name(AddressScope scope);

}  // namespace chimere::net

#endif  // CHIMERE_NET_ADDRESS_H_
