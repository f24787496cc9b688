#include "serving/log_line.h"

#include <gtest/gtest.h>

namespace chimere::serving {
namespace {

TEST(LogLine, ValuesCannotInjectLines) {
  LogLine line("request");
  line.add("path", "/a\nevent=\"forged\" \x1b[31m").add("status", 200).add("plain", "/v1/x");
  const std::string& text = line.text();
  EXPECT_TRUE(text.starts_with("time=2"));
  EXPECT_NE(text.find(R"(path="/a\x0aevent=\"forged\" \x1b[31m")"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with(" status=200 plain=/v1/x"));
}

}  // namespace
}  // namespace chimere::serving
