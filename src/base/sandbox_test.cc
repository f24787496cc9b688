#include "base/sandbox.h"

#include <gtest/gtest.h>

#include <chrono>

namespace chimere {
namespace {

constexpr auto kLong = std::chrono::hours(1);

TEST(Sandbox, HasNoNetworkNoHomeAndNothingToWrite) {
  const auto shell = [](const std::string& script) {
    auto command = sandboxed({.words = {"sh", "-c", script}});
    if (!command.ok()) return std::string("no sandbox");
    const auto done = run_child(*command, "", kLong, 10000);
    return done.ok() ? done->text : done.error().message;
  };
  const auto possible = sandboxed({.words = {"true"}});
  if (!possible.ok()) {
    EXPECT_EQ(possible.error().code, Error::Code::kUnsupported);
    GTEST_SKIP() << possible.error().message;
  }
  EXPECT_EQ(shell("ls /; true").find("home"), std::string::npos);
  EXPECT_EQ(shell("ls /etc/passwd /root 2>/dev/null; echo end"), "end\n");
  EXPECT_EQ(shell("echo a > /usr/b || echo refused"), "refused\n");
  EXPECT_EQ(shell("echo a > /c || echo refused"), "refused\n");
  EXPECT_EQ(shell("echo a > /dev/d || echo refused"), "refused\n");
  EXPECT_EQ(shell("echo a > /tmp/b && cat /tmp/b"), "a\n");
  EXPECT_EQ(shell("head -c 30000000 /dev/zero > /tmp/b 2>/dev/null; test $(wc -c < /tmp/b) -le "
                  "16777216 && echo bounded"),
            "bounded\n");
}

TEST(Sandbox, NeedsAProgram) {
  const auto none = sandboxed({.words = {"no-such-program-here"}});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, Error::Code::kNotFound);
}

}  // namespace
}  // namespace chimere
