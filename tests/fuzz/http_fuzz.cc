// Parses arbitrary bytes as HTTP requests. The result must not depend on how they are split.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "fuzz.h"
#include "serving/access.h"
#include "serving/http_parser.h"

namespace serving = chimere::serving;

namespace {

constexpr std::string_view kSeeds[] = {
    "GET /health HTTP/1.1\r\nHost: localhost:8080\r\nOrigin: http://localhost:8080\r\n\r\n",
    "POST /v1/x?y HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET",
    "POST / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n{}",
};
constexpr size_t kMaxHead = 2048;
constexpr uint64_t kMaxBody = 1024;

void require(bool truth, const char* what) {
  if (truth) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

struct Result {
  serving::HttpParser::State state;
  std::string path;
  std::string body;
  size_t used;
};

Result parse(std::string_view bytes, size_t step) {
  using State = serving::HttpParser::State;
  serving::HttpParser parser(kMaxHead, kMaxBody);
  std::string held;
  size_t total = 0;
  for (size_t at = 0; at < bytes.size() && parser.state() < State::kDone; at += step) {
    held += bytes.substr(at, step);
    size_t used = 0;
    do {
      used = parser.push(held);
      require(used <= held.size(), "more was read than there is");
      held.erase(0, used);
      total += used;
    } while (used > 0 && parser.state() < State::kDone);
  }
  Result out{parser.state(), "", "", total};
  if (parser.state() == State::kFailed) {
    require(parser.error().status() >= 400 && !parser.error().message.empty(),
            "an error says nothing");
  } else if (parser.state() != State::kHead) {
    out.path = parser.head().path;
    (void)serving::check_access({.host = "127.0.0.1", .cors_origins = {"https://a.b"}},
                                parser.head());
    for (const auto& [name, value] :
         serving::cors_headers({.cors_origins = {"*"}}, parser.head())) {
      require(value.find_first_of("\r\n") == std::string::npos, "an answer's header can be split");
    }
  }
  if (parser.state() == State::kDone) {
    out.body = parser.take_body();
    require(out.body.size() <= kMaxBody, "a body is too large");
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Result whole = parse(bytes, std::max<size_t>(size, 1));
  const Result pieces = parse(bytes, 3);
  if (whole.state == serving::HttpParser::State::kDone) {
    require(pieces.state == whole.state && pieces.path == whole.path && pieces.body == whole.body &&
                pieces.used == whole.used,
            "the request depends on how it is split");
  }
  return 0;
}

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  std::vector<std::vector<uint8_t>> seeds;
  for (const std::string_view seed : kSeeds) seeds.emplace_back(seed.begin(), seed.end());
  return seeds;
}
