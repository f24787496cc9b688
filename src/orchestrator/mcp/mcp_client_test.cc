#include "orchestrator/mcp/mcp_client.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "net/test_server.h"

namespace chimere::orchestrator {
namespace {

/// A server that asks the client something first, pages its list, and echoes.
constexpr const char* kServer = R"(
import json, sys
def say(**m):
    print(json.dumps({"jsonrpc": "2.0", **m}), flush=True)
for line in sys.stdin:
    m = json.loads(line)
    method, params = m.get("method"), m.get("params", {})
    if method == "initialize":
        say(id="s1", method="ping")
        pong = json.loads(sys.stdin.readline())
        assert pong["id"] == "s1" and pong["result"] == {}, pong
        say(id="s2", method="roots/list")
        assert "error" in json.loads(sys.stdin.readline())
        say(method="notifications/message", params={})
        version = "2025-03-26" if len(sys.argv) < 2 else sys.argv[1]
        say(id=m["id"], result={"protocolVersion": version, "capabilities": {}})
    elif method == "tools/list" and "cursor" not in params:
        say(id=m["id"], result={"tools": [{"name": "echo text", "description": "Echoes.",
            "inputSchema": {"type": "object"}}], "nextCursor": "2"})
    elif method == "tools/list":
        say(id=m["id"], result={"tools": [{"name": "die"}]})
    elif method == "tools/call" and params["name"] == "die":
        sys.exit(1)
    elif method == "tools/call":
        text = params["arguments"].get("text", "")
        say(id=m["id"], result={"content": [{"type": "text", "text": text}, {"type": "image"}],
                                "isError": text == "bad"})
)";

std::shared_ptr<McpClient> client(std::vector<std::string> arguments = {}) {
  McpServerSpec spec;
  spec.name = "files";
  spec.command = {"python3", "-c", kServer};
  spec.command.insert(spec.command.end(), arguments.begin(), arguments.end());
  return std::make_shared<McpClient>(spec, "1");
}

TEST(McpClient, CallsToolsOfAProgram) {
  const auto server = client();
  const auto tools = mcp_tools(server);
  ASSERT_TRUE(tools.ok()) << tools.error().message;
  ASSERT_EQ(tools->size(), 2U);
  EXPECT_EQ((*tools)[0]->definition().name, "files__echo_text");
  EXPECT_EQ((*tools)[0]->definition().description, "Echoes.");
  EXPECT_EQ((*tools)[0]->effect(), Effect::kExternal);
  const auto echoed = (*tools)[0]->call(R"({"text": "hello\nyou"})", {});
  ASSERT_TRUE(echoed.ok()) << echoed.error().message;
  EXPECT_EQ(*echoed, "hello\nyou\n[image, which is no text]");
  EXPECT_FALSE((*tools)[0]->call(R"({"text": "bad"})", {}).ok());
  EXPECT_FALSE((*tools)[0]->call("no object", {}).ok());
  // A server that died is started again by the next call.
  EXPECT_FALSE((*tools)[1]->call("{}", {}).ok());
  EXPECT_TRUE((*tools)[0]->call(R"({"text": "again"})", {}).ok());
}

TEST(McpClient, RefusesVersionsItDoesNotKnow) {
  const auto tools = client({"1999-01-01"})->tools();
  ASSERT_FALSE(tools.ok());
  EXPECT_NE(tools.error().message.find("1999-01-01"), std::string::npos);
  McpServerSpec none;
  none.name = "none";
  none.command = {"no-such-program-here"};
  EXPECT_EQ(McpClient(none, "1").tools().error().code, Error::Code::kNotFound);
}

TEST(McpClient, CallsToolsOverHttp) {
  const net::TestServer server([](const std::string& request) {
    const auto has = [&](const char* text) { return request.find(text) != std::string::npos; };
    const std::string json = "Content-Type: application/json\r\n";
    if (has(R"("initialize")")) {
      return net::response(
          200, json + "Mcp-Session-Id: s7\r\n",
          R"({"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{}}})");
    }
    if (!has("Mcp-Session-Id: s7")) return net::response(404, json, "{}");
    if (has("notifications/initialized")) return net::response(202, "", "");
    if (has("tools/list")) {
      return net::response(200, "Content-Type: text/event-stream\r\n",
                           ": hello\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n"
                           "event: message\r\ndata: {\"jsonrpc\":\"2.0\",\"id\":2,\r\ndata: "
                           "\"result\":{\"tools\":[{\"name\":\"a\"}]}}\r\n\r\n");
    }
    return net::response(200, json, R"({"jsonrpc":"2.0","id":3,"error":{"message":"No such"}})");
  });
  McpServerSpec spec;
  spec.name = "web";
  spec.url = server.url("127.0.0.1", "/mcp");
  spec.headers = {"Authorization: Bearer k"};
  const auto client = std::make_shared<McpClient>(spec, "1");
  const auto tools = mcp_tools(client);
  ASSERT_TRUE(tools.ok()) << tools.error().message;
  ASSERT_EQ(tools->size(), 1U);
  EXPECT_EQ((*tools)[0]->definition().name, "web__a");
  const auto refused = (*tools)[0]->call("{}", {});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("No such"), std::string::npos);
  EXPECT_NE(server.requests().back().find("Authorization: Bearer k"), std::string::npos);
  EXPECT_NE(server.requests().back().find("MCP-Protocol-Version: 2025-06-18"), std::string::npos);
}

TEST(McpServers, AreReadFromTheUsualFile) {
  const auto read = parse_mcp_servers(
      R"({"mcpServers": {"files": {"command": "npx", "args": ["-y", "x"], "env": {"A": "b"}},
          "web": {"url": "http://127.0.0.1:1/mcp", "headers": {"Authorization": "Bearer k"}}}})",
      "mcp.json");
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(read->size(), 2U);
  EXPECT_EQ((*read)[0].command, (std::vector<std::string>{"npx", "-y", "x"}));
  EXPECT_EQ((*read)[0].environment, (std::vector<std::string>{"A=b"}));
  EXPECT_EQ((*read)[1].headers, (std::vector<std::string>{"Authorization: Bearer k"}));
  for (const char* wrong :
       {"", "[]", R"({"mcpServers": []})", R"({"mcpServers": {"a": 1}})",
        R"({"mcpServers": {"a": {}}})", R"({"mcpServers": {"a b": {"command": "c"}}})",
        R"({"mcpServers": {"a": {"command": "c", "url": "http://a"}}})",
        R"({"mcpServers": {"a": {"command": "c", "args": "d"}}})",
        R"({"mcpServers": {"a": {"command": "c", "args": [1]}}})"}) {
    EXPECT_FALSE(parse_mcp_servers(wrong, "mcp.json").ok()) << wrong;
  }
}

}  // namespace
}  // namespace chimere::orchestrator
