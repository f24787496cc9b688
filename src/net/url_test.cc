#include "net/url.h"

#include <gtest/gtest.h>

namespace chimere::net {
namespace {

TEST(Url, OriginHasSchemeHostAndPort) {
  EXPECT_EQ(origin_of("https://Example.COM/a?b#c"), "https://example.com:443");
  EXPECT_EQ(origin_of("http://example.com:8080"), "http://example.com:8080");
  EXPECT_EQ(origin_of("http://[::1]:9/"), "http://[::1]:9");
  for (const char* text : {"", "example.com/x", "ftp://example.com/", "file:///etc/passwd",
                           "gopher://x/", "https://", "http://exa mple/", "javascript:alert(1)",
                           "http://example.com:0/", "http://example.com:99999/"}) {
    EXPECT_EQ(origin_of(text), "") << text;
  }
}

TEST(Url, HostIsTheOneThatIsConnectedTo) {
  const std::pair<const char*, const char*> cases[] = {
      {"http://user:secret@127.0.0.1/", "127.0.0.1"},
      {"http://public.test@127.0.0.1/", "127.0.0.1"},
      {"http://127.0.0.1#@public.test/", "127.0.0.1"},
      {"http://127.0.0.1?@public.test/", "127.0.0.1"},
      {"http://0x7f.1/", "127.0.0.1"},
      {"http://2130706433/", "127.0.0.1"},
      {"http://0177.0.0.1/", "127.0.0.1"},
      {"http://%31%32%37.0.0.1/", "127.0.0.1"},
      {"http://[::ffff:127.0.0.1]/", "::ffff:127.0.0.1"},
  };
  for (const auto& [text, host] : cases) {
    const auto url = parse_url(text);
    ASSERT_TRUE(url) << text;
    EXPECT_EQ(url->host, host) << text;
  }
  EXPECT_TRUE(parse_url("http://user:secret@127.0.0.1/")->credentials);
  EXPECT_FALSE(parse_url("http://127.0.0.1/@")->credentials);
  EXPECT_FALSE(parse_url(std::string("http://a.test\0.b.test/", 22)));
}

}  // namespace
}  // namespace chimere::net
