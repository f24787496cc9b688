#include "serving/http_writer.h"

#include <gtest/gtest.h>

namespace chimere::serving {
namespace {

TEST(HttpWriter, Responses) {
  const std::string text = http_text({429, "{}", "application/json", {{"Retry-After", "2"}}}, true);
  EXPECT_TRUE(text.starts_with("HTTP/1.1 429 Too Many Requests\r\n"));
  EXPECT_NE(text.find("\r\nRetry-After: 2\r\n"), std::string::npos);
  EXPECT_NE(text.find("\r\nConnection: keep-alive\r\n"), std::string::npos);
  EXPECT_TRUE(text.ends_with("\r\nContent-Length: 2\r\n\r\n{}"));
}

TEST(HttpWriter, Streams) {
  EXPECT_TRUE(http_stream_head({}, false, true).ends_with("Transfer-Encoding: chunked\r\n\r\n"));
  EXPECT_EQ(http_stream_head({}, false, false).find("Transfer-Encoding"), std::string::npos);
  EXPECT_EQ(http_chunk(std::string(26, 'x')), "1a\r\n" + std::string(26, 'x') + "\r\n");
}

}  // namespace
}  // namespace chimere::serving
