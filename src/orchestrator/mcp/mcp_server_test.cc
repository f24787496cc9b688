#include "orchestrator/mcp/mcp_server.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace chimere::orchestrator {
namespace {

class Mcp : public testing::Test {
 protected:
  Mcp() {
    for (auto& tool : built_in_tools()) (void)box_.add(tool);
  }
  nlohmann::json reply(const std::string& line) {
    const auto out = server_.handle(line);
    EXPECT_TRUE(out.has_value()) << line;
    EXPECT_EQ(out.value_or("{}").find('\n'), std::string::npos);
    return nlohmann::json::parse(out.value_or("{}"));
  }

  ToolBox box_;
  McpServer server_{box_, {"calculate", "time"}, {}, "1"};
};

TEST_F(Mcp, NegotiatesTheVersion) {
  const auto known = reply(
      R"({"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05"}})");
  EXPECT_EQ(known["result"]["protocolVersion"], "2024-11-05");
  const auto other =
      reply(R"({"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"1"}})");
  EXPECT_EQ(other["result"]["protocolVersion"], "2025-06-18");
  EXPECT_EQ(other["id"], "a");
  EXPECT_FALSE(server_.handle(R"({"jsonrpc":"2.0","method":"notifications/initialized"})"));
  EXPECT_FALSE(server_.handle(R"({"jsonrpc":"2.0","id":1,"result":{}})"));
}

TEST_F(Mcp, ListsAndCallsTools) {
  const auto list = reply(R"({"jsonrpc":"2.0","id":2,"method":"tools/list"})");
  ASSERT_EQ(list["result"]["tools"].size(), 2U);
  EXPECT_EQ(list["result"]["tools"][0]["inputSchema"]["type"], "object");
  const auto value = reply(
      R"({"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"calculate","arguments":{"expression":"6*7"}}})");
  EXPECT_EQ(value["result"]["content"][0]["text"], "42");
  EXPECT_EQ(value["result"]["isError"], false);
  const auto failed = reply(
      R"({"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"calculate","arguments":{"expression":"6*"}}})");
  EXPECT_EQ(failed["result"]["isError"], true);
  // A tool that exists and is not offered.
  const auto hidden =
      reply(R"({"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"search"}})");
  EXPECT_EQ(hidden["error"]["code"], -32602);
}

TEST_F(Mcp, AnswersWhatIsNoRequest) {
  EXPECT_EQ(reply("{")["error"]["code"], -32700);
  EXPECT_EQ(reply("[]")["error"]["code"], -32600);
  EXPECT_EQ(reply(R"({"jsonrpc":"2.0","id":1.5,"method":"ping"})")["error"]["code"], -32600);
  EXPECT_EQ(reply(R"({"jsonrpc":"2.0","id":1,"method":"ping","params":[]})")["error"]["code"],
            -32602);
  EXPECT_EQ(reply(R"({"jsonrpc":"2.0","id":1,"method":"none"})")["error"]["code"], -32601);
  EXPECT_EQ(reply(R"({"jsonrpc":"2.0","id":1,"method":"ping"})")["result"],
            nlohmann::json::object());
}

}  // namespace
}  // namespace chimere::orchestrator
