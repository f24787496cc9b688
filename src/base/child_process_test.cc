#include "base/child_process.h"

#include <gtest/gtest.h>

#include <string>

namespace chimere {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr size_t kPlenty = 1 << 20;

TEST(ChildProcess, GetsItsInputAndGivesItsOutput) {
  const auto done = run_child({.words = {"sh", "-c", "cat; exit 3"}}, "a\nb", hours(1), kPlenty);
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(done->text, "a\nb");
  EXPECT_EQ(done->code, 3);
  EXPECT_FALSE(done->timed_out || done->truncated);
}

TEST(ChildProcess, MayLeaveItsInputUnread) {
  const std::string much(8 << 20, 'x');
  const auto done = run_child({.words = {"sh", "-c", "echo done"}}, much, hours(1), kPlenty);
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(done->text, "done\n");
  const auto all = run_child({.words = {"wc", "-c"}}, much, hours(1), kPlenty);
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(std::stoll(all->text), 8 << 20);
}

TEST(ChildProcess, EndsWithItsLimits) {
  const auto late = run_child({.words = {"sh", "-c", "sleep 100000"}}, "", milliseconds(50), 10);
  ASSERT_TRUE(late.ok());
  EXPECT_TRUE(late->timed_out);
  const auto closed =
      run_child({.words = {"sh", "-c", "exec >&-; sleep 100000"}}, "", milliseconds(50), 10);
  ASSERT_TRUE(closed.ok());
  EXPECT_TRUE(closed->timed_out);
  const auto long_output = run_child({.words = {"yes"}}, "", hours(1), 1000);
  ASSERT_TRUE(long_output.ok());
  EXPECT_TRUE(long_output->truncated);
  EXPECT_EQ(long_output->text.size(), 1000U);
  const auto busy =
      run_child({.words = {"sh", "-c", "while :; do :; done"}, .cpu_seconds = 1}, "", hours(1), 10);
  ASSERT_TRUE(busy.ok());
  EXPECT_GT(busy->code, 128);
}

TEST(ChildProcess, InheritsNeitherEnvironmentNorDescriptors) {
  const auto done = run_child({.words = {"sh", "-c", "echo \"$HOME\"; ls /proc/self/fd | wc -l"}},
                              "", hours(1), kPlenty);
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(done->text, "/nonexistent\n4\n");  // ls opens the folder
}

TEST(ChildProcess, TalksLineByLine) {
  auto child = ChildProcess::start({.words = {"sh", "-c", "while read x; do echo \"<$x>\"; done"}});
  ASSERT_TRUE(child.ok());
  const auto far = ChildProcess::Clock::now() + hours(1);
  for (const std::string word : {"one", "two"}) {
    ASSERT_TRUE(child->write(word + "\n", far).ok());
    const auto line = child->read_line(kPlenty, far);
    ASSERT_TRUE(line.ok());
    EXPECT_EQ(line->value_or(""), "<" + word + ">");
  }
  const auto late = child->read_line(kPlenty, ChildProcess::Clock::now() + milliseconds(20));
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code, Error::Code::kCancelled);
  child->close_input();
  const auto end = child->read_line(kPlenty, far);
  ASSERT_TRUE(end.ok());
  EXPECT_FALSE(end->has_value());
}

TEST(ChildProcess, NeedsAProgram) {
  const auto none = run_child({.words = {"no-such-program-here"}}, "", hours(1), 10);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, Error::Code::kNotFound);
  EXPECT_EQ(find_program("/etc/passwd"), "");
}

}  // namespace
}  // namespace chimere
