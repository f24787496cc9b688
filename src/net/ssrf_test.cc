// Attempts to reach inside through addresses that a page, document or request names: none may lead
// to a connection. Each address has the port of a server on this machine that counts its requests.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "net/http_client.h"
#include "net/test_server.h"

namespace chimere::net {
namespace {

/// Hosts as they stand in an address. "PORT" becomes the server's port.
const std::vector<std::string>& hosts() {
  static const std::vector<std::string> all = {
      // Plain addresses inside.
      "127.0.0.1", "127.0.0.2", "127.1.2.3", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1",
      "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1", "192.168.255.254",
      "169.254.169.254", "169.254.170.2", "169.254.0.1", "100.64.0.1", "100.100.100.200",
      "100.127.255.255", "192.0.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1", "198.18.0.1",
      "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1",
      "255.255.255.255",
      // Other notations of IPv4 addresses.
      "127.1", "127.0.1", "2130706433", "017700000001", "0x7f000001", "0x7f.0.0.1", "0x7f.1",
      "0177.0.0.1", "0177.0.0.01", "00000177.0.0.1", "127.0.0.1.", "0", "0.0", "00", "0x0",
      "3232235521", "0xc0a80001", "0300.0250.0.1", "192.168.1", "2852039166", "0xa9fea9fe",
      "0251.0376.0251.0376", "169.254.43518", "0xa9.254.0xa9.254", "10.1", "167772161", "012.1",
      "10.0x7f", "%31%32%37.0.0.1", "127.0.0.%31", "127%2e0%2e0%2e1", "%30x7f.1",
      // IPv6: loopback, unspecified, local, multicast, reserved.
      "[::1]", "[0:0:0:0:0:0:0:1]", "[0000::0001]", "[::]", "[::2]", "[fe80::1]",
      "[fe80::1%25eth0]", "[fe80::1%eth0]", "[febf::1]", "[fec0::1]", "[fc00::1]", "[fd00::1]",
      "[fd00:ec2::254]", "[ff02::1]", "[ff0e::1]", "[2001:db8::1]", "[2001::1]", "[2001:10::1]",
      "[2001:20::1]", "[3fff::1]", "[100::1]", "[1000::1]", "[4000::1]", "[5f00::1]", "[::1%25lo]",
      // IPv6 addresses that embed an IPv4 one: mapped, compatible, translated, NAT64, 6to4, Teredo.
      "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]", "[::ffff:10.0.0.1]",
      "[::ffff:a9fe:a9fe]", "[::ffff:169.254.169.254]", "[::ffff:192.168.0.1]", "[::ffff:0.0.0.0]",
      "[::ffff:100.64.0.1]", "[::ffff:172.16.0.1]", "[::127.0.0.1]", "[::7f00:1]", "[::10.0.0.1]",
      "[::ffff:0:127.0.0.1]", "[::ffff:0:7f00:1]", "[64:ff9b::127.0.0.1]", "[64:ff9b::7f00:1]",
      "[64:ff9b::10.0.0.1]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b::192.168.0.1]",
      "[64:ff9b:1::127.0.0.1]", "[64:ff9b:1::7f00:1]", "[64:ff9b:1:ffff::1]", "[2002:7f00:1::]",
      "[2002:7f00:1::1]", "[2002:a00:1::1]", "[2002:a9fe:a9fe::1]", "[2002:c0a8:1::1]",
      "[2001:0:4136:e378:8000:63bf:80ff:fffe]", "[2001:0:0:0:0:0:f5ff:fffe]",
      "[2001:0:0:0:0:0:5601:5601]",
      // Names that lead inside.
      "localhost", "LOCALHOST", "localhost.", "localhost.localdomain", "inside.test",
      "127.0.0.1.nip.test", "metadata.google.internal", "instance-data", "ip6-localhost",
      "%6c%6f%63%61%6c%68%6f%73%74", "xn--inside.test", "inside.test.", "a_b.inside.test",
      // Characters that other parsers take for dots, digits or ends.
      "127。0。0。1", "127．0．0．1", "127｡0｡0｡1", "①②⑦.⓪.⓪.①", "１２７.０.０.１", "ⓛⓞⓒⓐⓛⓗⓞⓢⓣ",
      "127.0.0.1\xe2\x80\x8b", "localhost\xc2\xad", "0x7f.0x0.0x0.0x1", "127.0.0.1%00.site.test",
      "site.test%00", "127.0.0.1%20", "%09127.0.0.1", "127.0.0.1%0d%0a"};
  return all;
}

/// Whole addresses with tricks in other parts.
const std::vector<std::string>& addresses() {
  static const std::vector<std::string> all = {"http://user@127.0.0.1:PORT/",
                                               "http://site.test@127.0.0.1:PORT/",
                                               "http://site.test:80@127.0.0.1:PORT/",
                                               "http://site.test%40127.0.0.1:PORT/",
                                               "http://127.0.0.1:PORT#@site.test/",
                                               "http://127.0.0.1:PORT?@site.test/",
                                               "http://127.0.0.1:PORT\\@site.test/",
                                               "http://site.test\\@127.0.0.1:PORT/",
                                               "http://site.test#@127.0.0.1:PORT/",
                                               "http://a:b@c@127.0.0.1:PORT/",
                                               "http:127.0.0.1:PORT/",
                                               "http:/127.0.0.1:PORT/",
                                               "http:///127.0.0.1:PORT/",
                                               "http:////127.0.0.1:PORT/",
                                               "http:\\\\127.0.0.1:PORT/",
                                               "//127.0.0.1:PORT/",
                                               "127.0.0.1:PORT/",
                                               "HTTP://127.0.0.1:PORT/",
                                               "hTTps://127.0.0.1:PORT/",
                                               "http://127.0.0.1:PORT:80/",
                                               "http://127.0.0.1:0PORT/",
                                               "http://[127.0.0.1]:PORT/",
                                               "http://[::1:PORT/",
                                               "http://::1:PORT/",
                                               "http://[::1]PORT/",
                                               "http://127.0.0.1 :PORT/",
                                               " http://127.0.0.1:PORT/",
                                               "\thttp://127.0.0.1:PORT/",
                                               "http://127.0.0.1\t:PORT/",
                                               "http://\n127.0.0.1:PORT/",
                                               "ht\ntp://127.0.0.1:PORT/",
                                               "http://127.0.0.1:PORT/\r\nHost: x",
                                               "file:///etc/passwd",
                                               "FILE:///etc/passwd",
                                               "file://127.0.0.1/etc/passwd",
                                               "gopher://127.0.0.1:PORT/_GET",
                                               "dict://127.0.0.1:PORT/d:x",
                                               "ftp://127.0.0.1:PORT/",
                                               "ftps://127.0.0.1:PORT/",
                                               "sftp://127.0.0.1:PORT/",
                                               "scp://127.0.0.1:PORT/x",
                                               "tftp://127.0.0.1:PORT/x",
                                               "telnet://127.0.0.1:PORT/",
                                               "ldap://127.0.0.1:PORT/",
                                               "ldaps://127.0.0.1:PORT/",
                                               "imap://127.0.0.1:PORT/",
                                               "pop3://127.0.0.1:PORT/",
                                               "smtp://127.0.0.1:PORT/",
                                               "smb://127.0.0.1/x",
                                               "rtsp://127.0.0.1:PORT/",
                                               "ws://127.0.0.1:PORT/",
                                               "mqtt://127.0.0.1:PORT/x",
                                               "data:text/html,x",
                                               "javascript:1",
                                               "jar:http://127.0.0.1:PORT/!/",
                                               "view-source:http://127.0.0.1:PORT/",
                                               "unix:/run/docker.sock",
                                               "http+unix://%2Frun%2Fdocker.sock/",
                                               "about:blank",
                                               "",
                                               "http://",
                                               "https://"};
  return all;
}

std::string with_port(std::string text, uint16_t port) {
  if (const size_t at = text.find("PORT"); at != std::string::npos)
    text.replace(at, 4, std::to_string(port));
  return text;
}

/// A client for which "inside" names lead to `inside`; others do not exist.
HttpClientOptions options_for(std::vector<IpAddress> inside) {
  HttpClientOptions options;
  options.resolve =
      [inside = std::move(inside)](const std::string& host) -> Result<std::vector<IpAddress>> {
    for (const char* name : {"inside", "localhost", "nip", "metadata", "instance"})
      if (lower_case(host).find(name) != std::string::npos) return inside;
    return not_found("The host " + host + " is not known.");
  };
  return options;
}

HttpResult get(const HttpClientOptions& options, const std::string& url) {
  auto client = HttpClient::create(options);
  EXPECT_TRUE(client.ok());
  HttpGet request;
  request.url = url;
  return (*client)->get(request);
}

/// Refused before a connection: by the policy, or because there is no such host.
void expect_refused(const HttpResult& result, const std::string& what) {
  ASSERT_FALSE(result.status.ok()) << what;
  const auto code = result.status.error().code;
  EXPECT_TRUE(code == Error::Code::kInvalidArgument || code == Error::Code::kNotFound ||
              code == Error::Code::kInvalidData)
      << what << ": " << result.status.error().message;
}

std::vector<std::string> all_addresses(uint16_t port) {
  std::vector<std::string> all;
  for (const std::string& host : hosts())
    all.push_back("http://" + host + ":" + std::to_string(port) + "/secret");
  for (const std::string& address : addresses()) all.push_back(with_port(address, port));
  return all;
}

TEST(Ssrf, NoAddressInsideIsContacted) {
  TestServer server([](const std::string&) { return response(200, "", "secret"); });
  const auto all = all_addresses(server.port());
  EXPECT_GE(all.size(), 150U);
  for (const std::string& url : all)
    expect_refused(get(options_for({*parse_ip("127.0.0.1")}), url), url);
  EXPECT_EQ(server.requests().size(), 0U);
}

TEST(Ssrf, NoRedirectLeadsInside) {
  TestServer inside([](const std::string&) { return response(200, "", "secret"); });
  std::string location;
  TestServer outside(
      [&](const std::string&) { return response(302, "Location: " + location + "\r\n", ""); });
  // 127.0.0.1 plays the site outside, the only address that the client may contact.
  size_t requests = 0;
  for (const std::string& host : hosts()) {
    HttpClientOptions options = options_for({*parse_ip("10.0.0.1")});
    location = "http://" + host + ":" + std::to_string(inside.port()) + "/";
    if (location.find_first_of("\r\n") != std::string::npos) continue;
    options.policy.allowed = {*parse_ip("127.0.0.1")};
    const Result<std::vector<IpAddress>> here = std::vector<IpAddress>{*parse_ip("127.0.0.1")};
    const auto others = options.resolve;
    options.resolve = [&](const std::string& name) {
      return name == "outside.test" ? here : others(name);
    };
    const auto parsed = parse_url(location);
    // These are 127.0.0.1, which this client may contact.
    if (parsed && (parsed->host == "127.0.0.1" || parsed->host == "0x7f.1" ||
                   parsed->host == "::ffff:127.0.0.1" || parsed->host == "::ffff:7f00:1" ||
                   parsed->host == "0:0:0:0:0:ffff:127.0.0.1"))
      continue;
    expect_refused(get(options, outside.url("outside.test")), location);
    ++requests;
  }
  EXPECT_GE(requests, 100U);
  EXPECT_EQ(inside.requests().size(), 0U);
  EXPECT_EQ(outside.requests().size(), requests);
}

TEST(Ssrf, NamesThatChangeTheirAddressAreResolvedOnce) {
  TestServer server([](const std::string&) { return response(200, "", "secret"); });
  // Every address inside, alone and beside a public one, in both orders.
  for (const char* inside : {"127.0.0.1", "10.1.2.3", "169.254.169.254", "192.168.1.1",
                             "172.20.0.1", "0.0.0.0", "::1", "fe80::1", "fd00::1",
                             "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::1", "::7f00:1"}) {
    const IpAddress bad = *parse_ip(inside);
    const IpAddress good = *parse_ip("93.184.216.34");
    for (const auto& answer : {std::vector<IpAddress>{bad}, std::vector<IpAddress>{good, bad},
                               std::vector<IpAddress>{bad, good}})
      expect_refused(get(options_for(answer), server.url("inside.test")), inside);
  }
  // A name server that answers inside from the second time on: the client asks once.
  int asked = 0;
  HttpClientOptions options;
  options.policy.allowed = {*parse_ip("127.0.0.1")};
  options.resolve = [&](const std::string&) -> Result<std::vector<IpAddress>> {
    return std::vector<IpAddress>{*parse_ip(++asked == 1 ? "127.0.0.1" : "127.0.0.2")};
  };
  EXPECT_TRUE(get(options, server.url("rebinding.test")).status.ok());
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(server.requests().size(), 1U);
}

}  // namespace
}  // namespace chimere::net
