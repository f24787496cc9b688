#include "base/system.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace chimere {
namespace {

TEST(System, AnswersForThisProcess) {
  EXPECT_TRUE(std::filesystem::exists(std::filesystem::path(program_folder()) / "base_test"));
  EXPECT_GT(available_memory(), int64_t{1} << 20);
  ASSERT_EQ(setenv("CHIMERE_SYSTEM_TEST", "1", 1), 0);
  bool found = false;
  for (const char* const* e = environment(); *e != nullptr; ++e)
    found |= std::string_view(*e) == "CHIMERE_SYSTEM_TEST=1";
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace chimere
