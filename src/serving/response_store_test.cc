#include "serving/response_store.h"

#include <gtest/gtest.h>

#include <string>

namespace chimere::serving {
namespace {

StoredResponse of_size(size_t bytes) {
  StoredResponse out;
  out.body = std::string(bytes, 'x');
  return out;
}

TEST(ResponseStore, DropsTheOldestOfTheLargestOwner) {
  ResponseStore store(10'000);
  store.put("ann", "a", of_size(1000));
  for (int i = 0; i < 100; ++i) {
    store.put("bob", "b" + std::to_string(i), of_size(1000));
    EXPECT_LE(store.bytes(), 10'000);
  }
  EXPECT_NE(store.find("ann", "a"), nullptr);
  EXPECT_EQ(store.find("bob", "b0"), nullptr);
  EXPECT_NE(store.find("bob", "b99"), nullptr);
}

TEST(ResponseStore, OwnersDoNotSeeEachOther) {
  ResponseStore store(10'000);
  store.put("ann", "a", of_size(10));
  EXPECT_EQ(store.find("bob", "a"), nullptr);
  EXPECT_FALSE(store.erase("bob", "a"));
  EXPECT_TRUE(store.erase("ann", "a"));
  EXPECT_FALSE(store.erase("ann", "a"));
  EXPECT_EQ(store.bytes(), 0);
}

TEST(ResponseStore, RefusesWhatIsLargerThanItself) {
  ResponseStore store(1000);
  store.put("ann", "small", of_size(10));
  store.put("ann", "large", of_size(2000));
  EXPECT_EQ(store.find("ann", "large"), nullptr);
  EXPECT_NE(store.find("ann", "small"), nullptr);
}

}  // namespace
}  // namespace chimere::serving
