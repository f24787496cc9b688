#include "net/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "net/test_server.h"

namespace chimere::net {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

IpAddress ip(const char* text) { return *parse_ip(text); }

/// A client that may contact 127.0.0.1 and public addresses, and for which every name leads to
/// `addresses`.
HttpClientOptions options_for(std::vector<IpAddress> addresses) {
  HttpClientOptions options;
  options.policy.allowed = {ip("127.0.0.1")};
  options.resolve = [addresses = std::move(addresses)](const std::string&) { return addresses; };
  return options;
}

struct Got {
  HttpResult result;
  std::string body;
};

Got get(const HttpClientOptions& options, const std::string& url) {
  const auto client = HttpClient::create(options);
  EXPECT_TRUE(client.ok());
  Got got;
  HttpGet request;
  request.url = url;
  request.on_data = [&](std::string_view bytes) -> Status {
    got.body += bytes;
    return {};
  };
  got.result = (*client)->get(request);
  return got;
}

TEST(HttpClient, GetsFromTheAddressThatWasChecked) {
  TestServer server([](const std::string&) { return response(200, "X-A: b\r\n", "hello"); });
  const Got got = get(options_for({ip("127.0.0.1")}), server.url("site.test", "/path?q"));
  ASSERT_TRUE(got.result.status.ok()) << got.result.status.error().message;
  EXPECT_EQ(got.result.response.status, 200);
  EXPECT_EQ(got.result.response.header("x-a"), "b");
  EXPECT_EQ(got.body, "hello");
  ASSERT_EQ(server.requests().size(), 1U);
  EXPECT_THAT(server.requests()[0], HasSubstr("GET /path?q HTTP/1.1\r\nHost: site.test:"));
}

TEST(HttpClient, RefusesForbiddenAddresses) {
  TestServer server([](const std::string&) { return response(200, "", "secret"); });
  HttpClientOptions options = options_for({ip("127.0.0.1")});
  options.policy.allowed.clear();
  for (const std::string host :
       {"127.0.0.1", "localhost", "site.test", "0x7f.1", "2130706433", "[::1]",
        "[::ffff:127.0.0.1]", "127.1", "localhost.", "%31%32%37.0.0.1"}) {
    const Got got = get(options, server.url(host));
    ASSERT_FALSE(got.result.status.ok()) << host;
    EXPECT_EQ(got.result.status.error().code, Error::Code::kInvalidArgument) << host;
    EXPECT_THAT(got.result.status.error().message, HasSubstr("loopback")) << host;
    EXPECT_FALSE(got.result.transient) << host;
  }
  for (const char* url : {"ftp://8.8.8.8/", "file:///etc/passwd", "gopher://127.0.0.1:1/", "x"}) {
    EXPECT_FALSE(get(options, url).result.status.ok()) << url;
  }
  EXPECT_TRUE(server.requests().empty());
}

TEST(HttpClient, OneForbiddenAddressAmongSeveralIsEnough) {
  TestServer server([](const std::string&) { return response(200, "", ""); });
  const Got got = get(options_for({ip("127.0.0.1"), ip("10.0.0.1")}), server.url("mixed.test"));
  ASSERT_FALSE(got.result.status.ok());
  EXPECT_THAT(got.result.status.error().message, HasSubstr("10.0.0.1, which is private"));
  EXPECT_TRUE(server.requests().empty());
}

TEST(HttpClient, ANameThatChangesItsAddressGainsNothing) {
  // The first look-up is allowed, all others lead inside.
  TestServer server(
      [](const std::string&) { return response(302, "Location: http://rebind.test:1/\r\n", ""); });
  HttpClientOptions options = options_for({});
  std::atomic<int> calls = 0;
  options.resolve = [&](const std::string&) -> Result<std::vector<IpAddress>> {
    return std::vector{calls++ == 0 ? ip("127.0.0.1") : ip("127.0.0.2")};
  };
  const Got got = get(options, server.url("rebind.test"));
  ASSERT_FALSE(got.result.status.ok());
  EXPECT_THAT(got.result.status.error().message, HasSubstr("127.0.0.2, which is loopback"));
  EXPECT_EQ(calls, 2);
}

TEST(HttpClient, ChecksEveryRedirect) {
  for (const char* to : {"http://127.0.0.2/", "http://[::1]/", "http://169.254.169.254/latest",
                         "file:///etc/passwd", "ftp://127.0.0.1/", "//10.1.2.3/x"}) {
    TestServer server([&](const std::string&) {
      return response(301, "Location: " + std::string(to) + "\r\n", "");
    });
    const Got got = get(options_for({ip("127.0.0.1")}), server.url("site.test"));
    EXPECT_FALSE(got.result.status.ok()) << to;
    EXPECT_EQ(server.requests().size(), 1U) << to;
  }
}

TEST(HttpClient, FollowsAllowedRedirectsUpToTheLimit) {
  TestServer server([](const std::string& request) {
    if (request.starts_with("GET /end")) return response(200, "", "arrived");
    if (request.starts_with("GET /start")) {
      return response(302, "X-Linked: yes\r\nLocation: /end\r\n", "");
    }
    return response(302, "Location: /again\r\n", "");
  });
  const Got got = get(options_for({ip("127.0.0.1")}), server.url("site.test", "/start"));
  ASSERT_TRUE(got.result.status.ok()) << got.result.status.error().message;
  EXPECT_EQ(got.body, "arrived");
  EXPECT_EQ(got.result.response.redirect_headers.at("x-linked"), "yes");
  EXPECT_THAT(got.result.response.url, HasSubstr("/end"));
  const Got circle = get(options_for({ip("127.0.0.1")}), server.url("site.test", "/circle"));
  ASSERT_FALSE(circle.result.status.ok());
  EXPECT_THAT(circle.result.status.error().message, HasSubstr("redirects too often"));
  EXPECT_EQ(server.requests().size(), 2U + 11U);
}

TEST(HttpClient, TheTokenStaysAtItsOrigin) {
  TestServer other([](const std::string&) { return response(200, "", "file"); });
  TestServer server([&](const std::string&) {
    return response(302, "Location: " + other.url("files.test") + "\r\n", "");
  });
  HttpClientOptions options = options_for({ip("127.0.0.1")});
  options.token = "secret";
  options.token_origin = origin_of(server.url("hub.test"));
  const Got got = get(options, server.url("hub.test"));
  EXPECT_EQ(got.body, "file");
  EXPECT_THAT(server.requests().at(0), HasSubstr("Authorization: Bearer secret\r\n"));
  EXPECT_THAT(other.requests().at(0), Not(HasSubstr("secret")));
  options.token = "a\r\nX: y";
  EXPECT_FALSE(HttpClient::create(options).ok());
}

TEST(HttpClient, UserAndPasswordInAnAddressAreRefused) {
  TestServer server([](const std::string&) { return response(200, "", ""); });
  const Got got = get(options_for({ip("127.0.0.1")}), server.url("name:password@site.test"));
  ASSERT_FALSE(got.result.status.ok());
  EXPECT_THAT(got.result.status.error().message, HasSubstr("user or password"));
}

TEST(HttpClient, IgnoresProxiesUnlessAllowed) {
  TestServer proxy([](const std::string&) { return response(200, "", "from the proxy"); });
  TestServer server([](const std::string&) { return response(200, "", "direct"); });
  ASSERT_EQ(setenv("http_proxy", proxy.url("127.0.0.1").c_str(), 1), 0);
  HttpClientOptions options = options_for({ip("127.0.0.1")});
  options.policy.proxies = true;  // has no effect without any_address
  EXPECT_EQ(get(options, server.url("site.test")).body, "direct");
  options.policy.any_address = true;
  EXPECT_EQ(get(options, server.url("site.test")).body, "from the proxy");
  unsetenv("http_proxy");
}

TEST(HttpClient, LimitsTheBody) {
  HttpClientOptions options = options_for({ip("127.0.0.1")});
  options.policy.max_body_bytes = 100'000;
  TestServer endless([](const std::string&) -> TestServer::Pieces {
    return [first = true]() mutable {
      return std::exchange(first, false) ? std::string("HTTP/1.1 200 OK\r\n\r\n")
                                         : std::string(4096, 'x');
    };
  });
  const Got got = get(options, endless.url("site.test"));
  ASSERT_FALSE(got.result.status.ok());
  EXPECT_EQ(got.result.status.error().code, Error::Code::kInvalidData);
  EXPECT_LE(got.body.size(), 100'000U);
}

std::string gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TEST(HttpClient, LimitsDecompression) {
  HttpClientOptions options = options_for({ip("127.0.0.1")});
  options.policy.decompress = true;
  std::string text = "compressed text";
  TestServer server(
      [&](const std::string&) { return response(200, "Content-Encoding: gzip\r\n", gzip(text)); });
  EXPECT_EQ(get(options, server.url("site.test")).body, text);
  text.assign(64 << 20, 'a');
  const Got bomb = get(options, server.url("site.test"));
  ASSERT_FALSE(bomb.result.status.ok());
  EXPECT_THAT(bomb.result.status.error().message, HasSubstr("expands"));
  EXPECT_LT(bomb.body.size(), size_t{32} << 20U);
  options.policy.max_body_bytes = 5000;
  EXPECT_LE(get(options, server.url("site.test")).body.size(), 5000U);
}

TEST(HttpClient, LimitsHeaders) {
  HttpClientOptions options = options_for({ip("127.0.0.1")});
  TestServer server([](const std::string&) -> TestServer::Pieces {
    return [first = true]() mutable {
      return std::exchange(first, false) ? std::string("HTTP/1.1 200 OK\r\n")
                                         : "X-Filler: " + std::string(1000, 'x') + "\r\n";
    };
  });
  const Got got = get(options, server.url("site.test"));
  ASSERT_FALSE(got.result.status.ok());
  EXPECT_FALSE(got.result.transient);
}

TEST(HttpClient, LimitsTime) {
  HttpClientOptions options = options_for({ip("127.0.0.1")});
  options.policy.total_seconds = 0.3;
  TestServer slow([](const std::string&) -> TestServer::Pieces {
    return [] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      return std::string("X");
    };
  });
  const auto began = std::chrono::steady_clock::now();
  EXPECT_FALSE(get(options, slow.url("site.test")).result.status.ok());
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
}

TEST(HttpClient, CanBeInterruptedWhileTheNameServerIsSilent) {
  HttpClientOptions options = options_for({});
  options.resolve = [](const std::string&) -> Result<std::vector<IpAddress>> {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    return not_found("late");
  };
  options.interrupted = [] { return true; };
  const Got got = get(options, "http://silent.test/");
  ASSERT_FALSE(got.result.status.ok());
  EXPECT_EQ(got.result.status.error().code, Error::Code::kCancelled);
}

TEST(HttpClient, ReportsUnknownHostsAndDeadServers) {
  HttpClientOptions options = options_for({ip("127.0.0.1")});
  uint16_t port = 0;
  {
    TestServer gone([](const std::string&) { return response(200, "", ""); });
    port = gone.port();
  }
  const Got dead = get(options, "http://site.test:" + std::to_string(port) + "/");
  ASSERT_FALSE(dead.result.status.ok());
  EXPECT_TRUE(dead.result.transport);
  options.resolve = [](const std::string& host) -> Result<std::vector<IpAddress>> {
    return not_found("The host " + host + " is not known.");
  };
  const Got unknown = get(options, "http://nowhere.test/");
  ASSERT_FALSE(unknown.result.status.ok());
  EXPECT_TRUE(unknown.result.transport);
  EXPECT_FALSE(unknown.result.transient);
}

}  // namespace
}  // namespace chimere::net
