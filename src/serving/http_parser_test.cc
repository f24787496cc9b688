#include "serving/http_parser.h"

#include <gtest/gtest.h>

#include <string>

namespace chimere::serving {
namespace {

using State = HttpParser::State;

struct Parsed {
  State state;
  HttpHead head;
  std::string body;
  int status = 0;
  std::string rest;
};

Parsed parse(const std::string& bytes, size_t step) {
  HttpParser parser(4096, 100);
  std::string held;
  size_t at = 0;
  for (; at < bytes.size() && parser.state() < State::kDone; at += step) {
    held += bytes.substr(at, step);
    size_t used = 0;
    do {  // push() returns after the head, before the body
      used = parser.push(held);
      held.erase(0, used);
    } while (used > 0 && parser.state() < State::kDone);
  }
  Parsed out{parser.state(), parser.head(), "", parser.error().status(),
             held + (at < bytes.size() ? bytes.substr(at) : "")};
  if (parser.state() == State::kDone) out.body = parser.take_body();
  return out;
}

TEST(HttpParser, TheResultDoesNotDependOnThePieces) {
  const std::string request =
      "POST /v1/x?y=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\n";
  for (const size_t step : {size_t{1}, size_t{7}, request.size()}) {
    const Parsed p = parse(request, step);
    ASSERT_EQ(p.state, State::kDone);
    EXPECT_EQ(p.head.method, "POST");
    EXPECT_EQ(p.head.path, "/v1/x");
    EXPECT_EQ(p.body, "hello");
    EXPECT_TRUE(p.head.keep_alive);
    EXPECT_EQ(p.rest, "GET / HTTP/1.1\r\n");
  }
  const Parsed chunked = parse(
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
      "Chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
      4);
  ASSERT_EQ(chunked.state, State::kDone);
  EXPECT_EQ(chunked.body, "abcde");
}

TEST(HttpParser, RejectsAmbiguousRequests) {
  const std::pair<const char*, int> cases[] = {
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: "
       "chunked\r\n\r\n0\r\n\r\n",
       400},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: "
       "3\r\n\r\n0\r\n\r\n",
       400},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400},
      {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\na", 400},
      {"POST / HTTP/1.1\r\nHost : a\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n 2\r\n\r\n", 400},
      {"GET / HTTP/1.1\nHost: a\n\n", 400},
      {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 400},
      {"\x16\x03\x01\x02", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n\r\n", 413},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n", 413},
      {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
  };
  for (const auto& [bytes, status] : cases) {
    const Parsed p = parse(bytes, 1000);
    EXPECT_EQ(p.state, State::kFailed) << bytes;
    EXPECT_EQ(p.status, status) << bytes;
  }
  EXPECT_EQ(parse("GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(5000, 'x'), 1000).status, 431);
}

TEST(HttpParser, WaitsForTheRest) {
  EXPECT_EQ(parse("GET / HTTP/1.1\r\nHost: a\r\n", 5).state, State::kHead);
  EXPECT_EQ(parse("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc", 5).state,
            State::kBody);
}

TEST(HttpParser, OldClientsAndExpectations) {
  const Parsed old = parse("GET /health HTTP/1.0\r\n\r\n", 3);
  ASSERT_EQ(old.state, State::kDone);
  EXPECT_TRUE(old.head.http_1_0);
  EXPECT_FALSE(old.head.keep_alive);
  EXPECT_TRUE(parse("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: "
                    "1\r\n\r\n",
                    100)
                  .head.expects_continue);
}

}  // namespace
}  // namespace chimere::serving
