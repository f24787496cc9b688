#include "base/byte_amount.h"

#include <gtest/gtest.h>

namespace chimere {
namespace {

TEST(ByteAmount, ReadsNumbersAndUnits) {
  EXPECT_EQ(*parse_byte_amount("123B"), 123);
  EXPECT_EQ(*parse_byte_amount("15.5GiB"), int64_t{31} << 29);
  EXPECT_EQ(*parse_byte_amount("900M"), 900'000'000);
  EXPECT_EQ(*parse_byte_amount("900MB"), 900'000'000);
  EXPECT_EQ(*parse_byte_amount("2Ki"), 2048);
  EXPECT_EQ(*parse_byte_amount("1e3K"), 1'000'000);
}

TEST(ByteAmount, RefusesTheRest) {
  for (const char* text : {"", "123", "8", "B", "5BB", "GiB", "-1G", "0", "0.2", "nan", "inf",
                           "1e300", "5 G", "5Q", "5iB"}) {
    EXPECT_FALSE(parse_byte_amount(text).ok()) << text;
  }
}

TEST(ByteAmount, IsWrittenInPowersOfThousand) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(999.6), "1.00 kB");
  EXPECT_EQ(human_bytes(1.5e9), "1.50 GB");
  EXPECT_EQ(human_bytes(1e16), "10000.00 TB");
}

}  // namespace
}  // namespace chimere
