#include "protocol/volatile_lines.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace chimere::protocol {
namespace {

std::vector<ChatMessage> conversation(const std::string& system) {
  std::vector<ChatMessage> out(2);
  out[0].role = "system";
  out[0].content = system;
  out[1].role = "user";
  out[1].content = "hi";
  return out;
}

TEST(VolatileLines, AreDroppedOrMoved) {
  const auto rules = *parse_volatile_rules("billing,tokens,clock");
  auto messages = conversation(
      "x-anthropic-billing-header: cc_version=2; cch=1a2b3;\n"
      "You are an agent.\n"
      "- Token usage: 12/200; 188 remaining\n"
      "Today's date: 2026-11-24\n"
      "current time: 2026-11-24 09:30:00\n"
      "Be at the office at 09:30.");
  const VolatileLines lines(rules, messages);
  EXPECT_EQ(messages[0].content,
            "You are an agent.\nToday's date: 2026-11-24\nBe at the office at 09:30.");
  EXPECT_EQ(lines.rules(), (std::vector<std::string>{"billing", "tokens", "clock"}));
  lines.append_moved(messages);
  EXPECT_EQ(messages[1].content,
            "hi\n\n- Token usage: 12/200; 188 remaining\ncurrent time: 2026-11-24 09:30:00");
}

TEST(VolatileLines, OnlyTheNamedRulesApplyAndOnlyToSystemMessages) {
  const std::string text = "Token usage: 1\nx-anthropic-billing-header: cch=1;";
  auto messages = conversation(text);
  messages[1].content = text;
  const auto rules = *parse_volatile_rules("billing");
  const VolatileLines lines(rules, messages);
  EXPECT_EQ(messages[0].content, "Token usage: 1\n");
  EXPECT_EQ(messages[1].content, text);
  lines.append_moved(messages);
  EXPECT_EQ(messages[1].content, text);
  EXPECT_TRUE(parse_volatile_rules("none")->empty());
  EXPECT_FALSE(parse_volatile_rules("billing,tea").ok());
}

}  // namespace
}  // namespace chimere::protocol
