#include "base/reserved_memory.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>

namespace chimere {
namespace {

TEST(ReservedMemory, IsZeroAndStaysWhereItIs) {
  auto memory = ReservedMemory::reserve(size_t{1} << 36);
  ASSERT_TRUE(memory.ok()) << memory.error().message;
  const uint8_t* at = memory->data();
  ASSERT_TRUE(memory->commit(100).ok());
  memory->data()[99] = 7;
  ASSERT_TRUE(memory->commit(size_t{10} << 20).ok());
  EXPECT_EQ(memory->data(), at);
  EXPECT_EQ(memory->data()[99], 7);
  EXPECT_EQ(memory->data()[(size_t{10} << 20) - 1], 0);
  EXPECT_LT(memory->committed(), size_t{16} << 20);
}

TEST(ReservedMemory, RefusesWhatDoesNotFit) {
  EXPECT_FALSE(ReservedMemory::reserve(std::numeric_limits<size_t>::max()).ok());
  auto memory = ReservedMemory::reserve(1000);
  ASSERT_TRUE(memory.ok());
  const size_t before = memory->committed();
  EXPECT_EQ(memory->commit(size_t{1} << 40).error().code, Error::Code::kOutOfMemory);
  EXPECT_EQ(memory->committed(), before);
}

TEST(ReservedMemory, GivesBackWholePages) {
  auto memory = ReservedMemory::reserve(size_t{1} << 20);
  ASSERT_TRUE(memory->commit(size_t{1} << 20).ok());
  for (size_t i = 0; i < size_t{1} << 20; ++i) memory->data()[i] = 1;
  memory->give_back(100, size_t{1} << 19);
  EXPECT_EQ(memory->data()[99], 1);
  EXPECT_EQ(memory->data()[100], 1) << "a part of a page";
  EXPECT_EQ(memory->data()[size_t{1} << 18], 0);
  EXPECT_EQ(memory->data()[(size_t{1} << 19) + 100], 1);
  memory->data()[size_t{1} << 18] = 2;  // still usable
}

TEST(ReservedMemory, Moves) {
  auto a = ReservedMemory::reserve(1000);
  ASSERT_TRUE(a->commit(1000).ok());
  a->data()[0] = 1;
  ReservedMemory b = std::move(a).value();
  EXPECT_EQ(b.data()[0], 1);
  ReservedMemory c;
  c = std::move(b);
  EXPECT_EQ(c.data()[0], 1);
  EXPECT_EQ(c.reserved() > 0, true);
}

}  // namespace
}  // namespace chimere
