#include "engine/dry_breakers.h"

#include <gtest/gtest.h>

#include "support/fake_model.h"

namespace chimere::engine {
namespace {

using test::FakeTokenizer;

/// Every token is one letter of "ABC..."; encode() returns the characters themselves.
TEST(DryBreakers, AreFoundInsideAndAcrossTokens) {
  const FakeTokenizer tokenizer;
  const auto id = [&](char letter) { return letter - 'A' + 2; };
  const std::vector<std::string> breakers = {"C", "DEF", ""};
  const auto made = make_dry_breakers(tokenizer, breakers);
  EXPECT_EQ(made->single, (std::unordered_set<int32_t>{id('C')}));
  ASSERT_EQ(made->longer.size(), 1U);
  const auto& rests = made->longer.at(id('D'));
  ASSERT_EQ(rests.size(), 1U);
  EXPECT_EQ(rests[0], tokenizer.encode("EF", false));
}

TEST(DryBreakers, AreBounded) {
  const FakeTokenizer tokenizer;
  const std::vector<std::string> breakers = {"A" + std::string(1000, 'B')};
  const auto made = make_dry_breakers(tokenizer, breakers);
  ASSERT_EQ(made->longer.size(), 1U);
  EXPECT_EQ(made->longer.begin()->second[0].size(), 20U);
}

}  // namespace
}  // namespace chimere::engine
