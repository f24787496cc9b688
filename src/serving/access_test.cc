#include "serving/access.h"

#include <gtest/gtest.h>

namespace chimere::serving {
namespace {

HttpHead head(const std::string& host, const std::string& origin = "") {
  HttpHead out;
  out.headers = {{"host", host}};
  if (!origin.empty()) out.headers.emplace_back("origin", origin);
  return out;
}

bool allowed(const AccessRules& rules, const std::string& host, const std::string& origin = "") {
  const auto error = check_access(rules, head(host, origin));
  return !error || error->status() != 403;
}

TEST(Access, WithoutKeysOnlyNamesOfThisMachine) {
  const AccessRules rules{.host = "127.0.0.1", .allowed_hosts = {"Box.example.org"}};
  EXPECT_TRUE(allowed(rules, "127.0.0.1:8080"));
  EXPECT_TRUE(allowed(rules, "localhost"));
  EXPECT_TRUE(allowed(rules, "[::1]:8080"));
  EXPECT_TRUE(allowed(rules, "box.example.org:80"));
  EXPECT_FALSE(allowed(rules, "evil.example.org:8080"));
  EXPECT_FALSE(allowed(rules, "localhost.example.org"));
  EXPECT_FALSE(allowed(rules, "127.0.0.1.example.org"));
  EXPECT_FALSE(allowed(rules, ""));
}

TEST(Access, WithKeysAnyNameUnlessThereIsAList) {
  EXPECT_TRUE(allowed({.host = "0.0.0.0", .keys = true}, "any.example.org"));
  EXPECT_FALSE(
      allowed({.host = "0.0.0.0", .keys = true, .allowed_hosts = {"a.b"}}, "any.example.org"));
}

TEST(Access, PagesOfOtherSitesMustBeAllowed) {
  const AccessRules rules{.host = "127.0.0.1", .cors_origins = {"https://chat.example.org"}};
  EXPECT_TRUE(allowed(rules, "localhost:8080", "http://localhost:8080"));
  EXPECT_TRUE(allowed(rules, "localhost:8080", "https://chat.example.org"));
  EXPECT_FALSE(allowed(rules, "localhost:8080", "http://localhost:9090"));
  EXPECT_FALSE(allowed(rules, "localhost:8080", "https://evil.example.org"));
  EXPECT_FALSE(allowed(rules, "localhost:8080", "null"));
  EXPECT_TRUE(allowed({.host = "127.0.0.1", .cors_origins = {"*"}}, "localhost", "null"));
}

TEST(Access, OnlyAllowedOriginsMayRead) {
  const AccessRules rules{.host = "127.0.0.1", .cors_origins = {"https://chat.example.org"}};
  EXPECT_TRUE(cors_headers(rules, head("localhost")).empty());
  EXPECT_TRUE(cors_headers(rules, head("localhost", "http://localhost")).empty());
  const Headers headers = cors_headers(rules, head("localhost", "https://chat.example.org"));
  ASSERT_EQ(headers.size(), 2U);
  EXPECT_EQ(headers[0].second, "https://chat.example.org");
}

TEST(Access, Loopback) {
  for (const auto* host : {"127.0.0.1", "127.1.2.3", "localhost", "::1"}) {
    EXPECT_TRUE(is_loopback(host)) << host;
  }
  for (const auto* host : {"0.0.0.0", "::", "192.168.1.1", "127.example.org", ""}) {
    EXPECT_FALSE(is_loopback(host)) << host;
  }
}

}  // namespace
}  // namespace chimere::serving
