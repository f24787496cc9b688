#include "base/wake_descriptor.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <thread>
#include <utility>

namespace chimere {
namespace {

TEST(WakeDescriptor, IsReadableAfterAnyNumberOfCallsAndThenNotAgain) {
  auto made = WakeDescriptor::create();
  ASSERT_TRUE(made.ok());
  const WakeDescriptor wake = *std::move(made);
  const int fd = wake.duplicate();
  ASSERT_GE(fd, 0);
  std::array<char, 8> count;
  EXPECT_EQ(read(fd, count.data(), count.size()), -1);  // it does not block
  std::thread other([&] {
    wake.notify();
    wake.notify();
  });
  other.join();
  EXPECT_EQ(read(fd, count.data(), count.size()), 8);
  EXPECT_EQ(read(fd, count.data(), count.size()), -1);
  wake.notify();
  EXPECT_EQ(read(fd, count.data(), count.size()), 8);
  close(fd);
}

}  // namespace
}  // namespace chimere
