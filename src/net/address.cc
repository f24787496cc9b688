#include "net/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <span>

namespace chimere::net {
namespace {

constexpr std::array<uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

struct Ipv4Range {
  uint32_t network;
  int bits;
  AddressScope scope;
};

/// The registry of IPv4 special-purpose addresses, and multicast.
constexpr Ipv4Range kIpv4[] = {
    {0x00000000, 8, AddressScope::kSpecial},     // "this network"
    {0x0a000000, 8, AddressScope::kPrivate},     // 10/8
    {0x64400000, 10, AddressScope::kPrivate},    // 100.64/10, carrier-grade NAT
    {0x7f000000, 8, AddressScope::kLoopback},    // 127/8
    {0xa9fe0000, 16, AddressScope::kLinkLocal},  // 169.254/16
    {0xac100000, 12, AddressScope::kPrivate},    // 172.16/12
    {0xc0000000, 24, AddressScope::kSpecial},    // 192.0.0/24, protocol assignments
    {0xc0000200, 24, AddressScope::kSpecial},    // 192.0.2/24, documentation
    {0xc0586300, 24, AddressScope::kSpecial},    // 192.88.99/24, 6to4 relays
    {0xc0a80000, 16, AddressScope::kPrivate},    // 192.168/16
    {0xc6120000, 15, AddressScope::kSpecial},    // 198.18/15, benchmarking
    {0xc6336400, 24, AddressScope::kSpecial},    // 198.51.100/24, documentation
    {0xcb007100, 24, AddressScope::kSpecial},    // 203.0.113/24, documentation
    {0xe0000000, 4, AddressScope::kMulticast},   // 224/4
    {0xf0000000, 4, AddressScope::kSpecial},     // 240/4, reserved and broadcast
};

AddressScope ipv4_scope(uint32_t address) {
  for (const Ipv4Range& range : kIpv4) {
    if ((address ^ range.network) >> (32 - range.bits) == 0) return range.scope;
  }
  return AddressScope::kPublic;
}

uint32_t word(std::span<const uint8_t, 4> b) {
  return uint32_t{b[0]} << 24U | uint32_t{b[1]} << 16U | uint32_t{b[2]} << 8U | b[3];
}

bool has_prefix(const IpAddress& address, std::span<const uint8_t> prefix) {
  return std::equal(prefix.begin(), prefix.end(), address.bytes.begin());
}

AddressScope ipv6_scope(const IpAddress& address) {
  const auto& b = address.bytes;
  const std::span<const uint8_t, 16> all(b);
  constexpr std::array<uint8_t, 12> kNat64 = {0x00, 0x64, 0xff, 0x9b};  // 64:ff9b::/96
  constexpr std::array<uint8_t, 6> kLocalNat64 = {0x00, 0x64, 0xff, 0x9b, 0x00, 0x01};
  constexpr std::array<uint8_t, 4> kTeredo = {0x20, 0x01, 0x00, 0x00};
  constexpr std::array<uint8_t, 4> kDocumentation = {0x20, 0x01, 0x0d, 0xb8};
  constexpr std::array<uint8_t, 2> k6to4 = {0x20, 0x02};
  if (std::ranges::all_of(all.first<12>(), [](uint8_t x) { return x == 0; })) {
    const uint32_t low = word(all.last<4>());
    if (low == 0) return AddressScope::kSpecial;
    if (low == 1) return AddressScope::kLoopback;
    return AddressScope::kSpecial;  // IPv4-compatible, deprecated
  }
  if (has_prefix(address, kNat64)) return ipv4_scope(word(all.last<4>()));
  if (has_prefix(address, kLocalNat64)) return AddressScope::kPrivate;
  if (has_prefix(address, kTeredo)) {
    // The client's address is stored inverted (RFC 4380).
    const AddressScope client = ipv4_scope(~word(all.last<4>()));
    return client == AddressScope::kPublic ? AddressScope::kSpecial : client;
  }
  if (has_prefix(address, k6to4)) return ipv4_scope(word(all.subspan<2, 4>()));
  if (has_prefix(address, kDocumentation)) return AddressScope::kSpecial;
  if (b[0] == 0xff) return AddressScope::kMulticast;
  if (b[0] == 0xfe && (b[1] & 0xc0U) == 0x80) return AddressScope::kLinkLocal;
  if (b[0] == 0xfe && (b[1] & 0xc0U) == 0xc0)
    return AddressScope::kPrivate;  // site-local, RFC 3879
  if ((b[0] & 0xfeU) == 0xfc) return AddressScope::kPrivate;
  // 2001::/23: protocol assignments.
  if (b[0] == 0x20 && b[1] == 0x01 && (b[2] & 0xfeU) == 0) return AddressScope::kSpecial;
  // Global unicast is 2000::/3; of it, 3fff::/20 is documentation (RFC 9637).
  if (b[0] == 0x3f && b[1] == 0xff && (b[2] & 0xf0U) == 0) return AddressScope::kSpecial;
  return (b[0] & 0xe0U) == 0x20 ? AddressScope::kPublic : AddressScope::kSpecial;
}

}  // namespace

bool IpAddress::is_ipv4() const { return has_prefix(*this, kMapped); }

std::optional<IpAddress> parse_ip(std::string_view text) {
  const std::string terminated(text);
  if (terminated.size() != std::string_view(terminated.c_str()).size()) return std::nullopt;
  IpAddress address;
  if (inet_pton(AF_INET6, terminated.c_str(), address.bytes.data()) == 1) return address;
  std::ranges::copy(kMapped, address.bytes.begin());
  if (inet_pton(AF_INET, terminated.c_str(), address.bytes.data() + kMapped.size()) == 1) {
    return address;
  }
  return std::nullopt;
}

std::string to_string(const IpAddress& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool ipv4 = address.is_ipv4();
  const uint8_t* const bytes = address.bytes.data() + (ipv4 ? kMapped.size() : 0);
  return inet_ntop(ipv4 ? AF_INET : AF_INET6, bytes, text.data(), text.size()) != nullptr
             ? text.data()
             : "";
}

AddressScope scope_of(const IpAddress& address) {
  if (!address.is_ipv4()) return ipv6_scope(address);
  return ipv4_scope(word(std::span(address.bytes).last<4>()));
}

const char* scope_name(AddressScope scope) {
  switch (scope) {
    case AddressScope::kPublic:
      return "public";
    case AddressScope::kLoopback:
      return "loopback";
    case AddressScope::kPrivate:
      return "private";
    case AddressScope::kLinkLocal:
      return "link-local";
    case AddressScope::kMulticast:
      return "multicast";
    case AddressScope::kSpecial:
      return "special-purpose";
  }
  return "";
}

}  // namespace chimere::net
