#include "base/nearest_word.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace chimere {
namespace {

TEST(NearestWord, CountsTypingErrors) {
  EXPECT_EQ(edit_distance("run", "run"), 0U);
  EXPECT_EQ(edit_distance("rnu", "run"), 1U);
  EXPECT_EQ(edit_distance("", "run"), 3U);
  EXPECT_EQ(edit_distance("--temprature", "--temperature"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  const std::vector<std::string> words = {"help", "run", "serve", "--temp"};
  EXPECT_EQ(nearest_word("hello", words), "");
  EXPECT_EQ(nearest_word("hlep", words), "help");
  EXPECT_EQ(nearest_word("ru", words), "");
  EXPECT_EQ(nearest_word("--tmep", words), "--temp");
}

}  // namespace
}  // namespace chimere
