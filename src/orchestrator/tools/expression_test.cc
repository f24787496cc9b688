#include <gtest/gtest.h>

#include "orchestrator/tools/tool.h"

namespace chimere::orchestrator {
namespace {

TEST(Expression, HasTheUsualRules) {
  struct Case {
    const char* text;
    double value;
  };
  const Case cases[] = {{"1+2*3", 7},     {"(1+2)*3", 9}, {"2^3^2", 512},    {"-2^2", -4},
                        {"7 % 4", 3},     {"10/4", 2.5},  {"sqrt(16)", 4},   {"max(2, 3)", 3},
                        {"1.5e3", 1500},  {"2*-3", -6},   {"round(2.5)", 3}, {"0.1+0.2", 0.1 + 0.2},
                        {"6 × 7 − 2", 40}};
  for (const Case& c : cases) {
    const auto value = evaluate(c.text);
    ASSERT_TRUE(value.ok()) << c.text << ": " << value.error().message;
    EXPECT_DOUBLE_EQ(*value, c.value) << c.text;
  }
}

TEST(Expression, RefusesWhatIsNone) {
  for (const char* text : {"", "1+", "1/0", "5%0", "(1", "1)", "foo(1)", "x", "1 2", "2**3",
                           "sqrt(-1)", "system(1)", "1e999"}) {
    EXPECT_FALSE(evaluate(text).ok()) << text;
  }
  EXPECT_FALSE(evaluate(std::string(3000, '(')).ok());
  EXPECT_FALSE(evaluate(std::string(4000, '-') + "1").ok());
  EXPECT_FALSE(evaluate(std::string(5000, '1')).ok());
}

TEST(ToolPolicy, IsFixedBeforeTheModelSpeaks) {
  class Wipe final : public Tool {
   public:
    const text::Tool& definition() const override { return definition_; }
    Effect effect() const override { return Effect::kExternal; }
    Result<std::string> call(const std::string&, const ToolContext&) override {
      return std::string();
    }

   private:
    const text::Tool definition_ = {"wipe", "", "", false};
  };
  ToolBox tools;
  for (auto& tool : built_in_tools()) EXPECT_TRUE(tools.add(tool));
  EXPECT_TRUE(tools.add(std::make_shared<Wipe>()));
  EXPECT_FALSE(tools.add(std::make_shared<Wipe>()));
  const ToolPolicy policy({"calculate", "wipe"}, {});
  EXPECT_EQ(policy.refusal(tools, "calculate"), "");
  EXPECT_NE(policy.refusal(tools, "wipe"), "");
  EXPECT_NE(policy.refusal(tools, "time"), "");
  EXPECT_NE(policy.refusal(tools, "rm"), "");
  ASSERT_EQ(policy.offered(tools).size(), 1U);
  EXPECT_EQ(policy.offered(tools)[0].name, "calculate");
  EXPECT_EQ(ToolPolicy({"wipe"}, {"wipe"}).refusal(tools, "wipe"), "");
}

}  // namespace
}  // namespace chimere::orchestrator
