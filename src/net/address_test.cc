#include "net/address.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/fresh_seed.h"

namespace chimere::net {
namespace {

AddressScope scope(const std::string& text) {
  const auto address = parse_ip(text);
  EXPECT_TRUE(address) << text;
  return address ? scope_of(*address) : AddressScope::kPublic;
}

TEST(Address, ScopesFollowTheRegistries) {
  const std::pair<const char*, AddressScope> cases[] = {
      {"8.8.8.8", AddressScope::kPublic},
      {"9.255.255.255", AddressScope::kPublic},
      {"10.0.0.0", AddressScope::kPrivate},
      {"10.255.255.255", AddressScope::kPrivate},
      {"11.0.0.0", AddressScope::kPublic},
      {"100.63.255.255", AddressScope::kPublic},
      {"100.64.0.0", AddressScope::kPrivate},
      {"100.127.255.255", AddressScope::kPrivate},
      {"100.128.0.0", AddressScope::kPublic},
      {"126.255.255.255", AddressScope::kPublic},
      {"127.0.0.1", AddressScope::kLoopback},
      {"127.255.255.254", AddressScope::kLoopback},
      {"169.254.169.254", AddressScope::kLinkLocal},
      {"172.15.255.255", AddressScope::kPublic},
      {"172.16.0.1", AddressScope::kPrivate},
      {"172.31.255.255", AddressScope::kPrivate},
      {"172.32.0.0", AddressScope::kPublic},
      {"192.0.0.8", AddressScope::kSpecial},
      {"192.0.2.1", AddressScope::kSpecial},
      {"192.88.99.1", AddressScope::kSpecial},
      {"192.168.1.1", AddressScope::kPrivate},
      {"192.169.0.0", AddressScope::kPublic},
      {"198.17.255.255", AddressScope::kPublic},
      {"198.18.0.1", AddressScope::kSpecial},
      {"198.19.255.255", AddressScope::kSpecial},
      {"198.51.100.7", AddressScope::kSpecial},
      {"203.0.113.9", AddressScope::kSpecial},
      {"224.0.0.1", AddressScope::kMulticast},
      {"239.255.255.255", AddressScope::kMulticast},
      {"240.0.0.1", AddressScope::kSpecial},
      {"255.255.255.255", AddressScope::kSpecial},
      {"0.0.0.0", AddressScope::kSpecial},
      {"::", AddressScope::kSpecial},
      {"::1", AddressScope::kLoopback},
      {"::2", AddressScope::kSpecial},
      {"::7f00:1", AddressScope::kSpecial},           // IPv4-compatible
      {"::ffff:127.0.0.1", AddressScope::kLoopback},  // mapped
      {"::ffff:8.8.8.8", AddressScope::kPublic},
      {"::ffff:a9fe:a9fe", AddressScope::kLinkLocal},
      {"64:ff9b::10.0.0.1", AddressScope::kPrivate},  // NAT64
      {"64:ff9b::8.8.8.8", AddressScope::kPublic},
      {"64:ff9b:1::8.8.8.8", AddressScope::kPrivate},  // local NAT64
      {"2002:7f00:1::1", AddressScope::kLoopback},     // 6to4
      {"2002:808:808::1", AddressScope::kPublic},
      {"2001:0:1:2:3:4:80ff:fffe", AddressScope::kLoopback},  // Teredo of 127.0.0.1
      {"2001:0:1:2:3:4:f7f7:f7f7", AddressScope::kSpecial},   // Teredo of 8.8.8.8
      {"2001:db8::1", AddressScope::kSpecial},
      {"2001:10::1", AddressScope::kSpecial},
      {"2001:4860:4860::8888", AddressScope::kPublic},
      {"2606:4700:4700::1111", AddressScope::kPublic},
      {"3fff:0:1::", AddressScope::kSpecial},
      {"4000::1", AddressScope::kSpecial},
      {"fc00::1", AddressScope::kPrivate},
      {"fdff::1", AddressScope::kPrivate},
      {"fe80::1", AddressScope::kLinkLocal},
      {"fec0::1", AddressScope::kPrivate},
      {"ff02::1", AddressScope::kMulticast},
      {"100::1", AddressScope::kSpecial},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_STREQ(scope_name(scope(text)), scope_name(expected)) << text;
  }
}

TEST(Address, ParsesOnlyStrictNotation) {
  using namespace std::string_literals;
  for (const std::string& text :
       {""s, "127.1"s, "2130706433"s, "0x7f000001"s, "0177.0.0.1"s, "127.0.0.01"s, "127.0.0.1."s,
        " 127.0.0.1"s, "127.0.0.1/8"s, "fe80::1%eth0"s, "[::1]"s, "::1]"s, "1::2::3"s, "256.1.1.1"s,
        "localhost"s, "127.0.0.1\0x"s}) {
    EXPECT_FALSE(parse_ip(text)) << text;
  }
}

TEST(Address, TextAndBytesAgree) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 1000; ++round) {
    IpAddress address;
    for (uint8_t& byte : address.bytes)
      byte = static_cast<uint8_t>(random() % 4 != 0 ? random() : 0);
    if (round % 2 == 0) {
      const auto mapped = parse_ip("1.2.3.4");
      ASSERT_TRUE(mapped && mapped->is_ipv4());
      std::copy_n(mapped->bytes.begin(), 12, address.bytes.begin());
    }
    const auto read = parse_ip(to_string(address));
    ASSERT_TRUE(read) << to_string(address);
    EXPECT_EQ(*read, address) << to_string(address);
  }
}

}  // namespace
}  // namespace chimere::net
