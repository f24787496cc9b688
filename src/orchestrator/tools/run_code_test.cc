#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/sandbox.h"
#include "orchestrator/tools/tool.h"

namespace chimere::orchestrator {
namespace {

Result<std::string> run_code(const std::string& language, const std::string& code) {
  return run_code_tool()->call(nlohmann::json{{"language", language}, {"code", code}}.dump(), {});
}

TEST(RunCode, NeedsApproval) {
  ToolBox tools;
  ASSERT_TRUE(tools.add(run_code_tool()));
  EXPECT_NE(ToolPolicy({"run_code"}, {}).refusal(tools, "run_code"), "");
  EXPECT_EQ(ToolPolicy({"run_code"}, {"run_code"}).refusal(tools, "run_code"), "");
}

TEST(RunCode, RunsInASandboxOrNotAtAll) {
  EXPECT_FALSE(run_code("cobol", "STOP RUN.").ok());
  EXPECT_FALSE(run_code("sh", "").ok());
  const auto sum = run_code("sh", "echo $((6 * 7))");
  if (!sandboxed({.words = {"true"}}).ok()) {
    ASSERT_FALSE(sum.ok());
    EXPECT_EQ(sum.error().code, Error::Code::kUnsupported);
    EXPECT_NE(sum.error().message.find("sandbox"), std::string::npos);
    return;
  }
  ASSERT_TRUE(sum.ok()) << sum.error().message;
  EXPECT_EQ(*sum, "42\n");
  const auto wrong = run_code("sh", "ls /home; exit 3");
  ASSERT_TRUE(wrong.ok());
  EXPECT_NE(wrong->find("[exit code 3]"), std::string::npos);
  const auto endless = run_code("sh", "yes");
  ASSERT_TRUE(endless.ok());
  EXPECT_NE(endless->find("[the output was cut"), std::string::npos);
  if (find_system_program("python3").empty()) return;
  const auto python = run_code("python",
                               "print(2**10)\nimport socket\n"
                               "s = socket.socket()\ns.settimeout(5)\n"
                               "s.connect(('127.0.0.1', 9))\n");
  ASSERT_TRUE(python.ok()) << python.error().message;
  EXPECT_EQ(python->substr(0, 5), "1024\n");
  EXPECT_NE(python->find("Error"), std::string::npos);
}

}  // namespace
}  // namespace chimere::orchestrator
