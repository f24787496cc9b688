#include "serving/log_line.h"

#include <gtest/gtest.h>

namespace chimere::serving {
namespace {

TEST(LogLine, ValuesCannotInjectLines) {
  LogLine line("request");
  line.add("path", "/a\nevent=\"forged\" \x1b[31m").add("status", 200).add("plain", "/v1/x");
  const std::string text = line.text();
  EXPECT_TRUE(text.starts_with("time=2"));
  EXPECT_NE(text.find(R"(path="/a\x0aevent=\"forged\" \x1b[31m")"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with(" status=200 plain=/v1/x"));
}

TEST(LogLine, JsonIsOneLineOfTypedValues) {
  LogLine line("request");
  line.add("path", "/a\n\"b\" \xff").add("status", 200).add_seconds("ms", 0.25);
  const std::string text = line.json();
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  EXPECT_TRUE(text.starts_with(R"({"time":"2)")) << text;
  EXPECT_TRUE(text.ends_with(R"("status":200,"ms":250.0})")) << text;
  EXPECT_NE(text.find(R"("path":"/a\n\"b\" )"), std::string::npos) << text;
}

}  // namespace
}  // namespace chimere::serving
