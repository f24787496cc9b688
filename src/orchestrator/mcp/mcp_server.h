// A server of the Model Context Protocol: offers tools to another program over lines of JSON-RPC.
// https://modelcontextprotocol.io/specification/2025-06-18
#ifndef CHIMERE_ORCHESTRATOR_MCP_MCP_SERVER_H_
#define CHIMERE_ORCHESTRATOR_MCP_MCP_SERVER_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/tools/tool.h"

namespace chimere::orchestrator {

/// Keeps nothing between messages. Thread-safe.
class McpServer {
 public:
  /// Offers the tools of `box` with these names. All outlive the server.
  McpServer(const ToolBox& box, std::vector<std::string> names, ToolContext context,
            std::string version);

  /// The response to a message, as one line without its end; absent: it needs none.
  std::optional<std::string> handle(std::string_view line);
  /// Whether it speaks this version of the protocol.
  static bool speaks(std::string_view version);

 private:
  const ToolBox& box_;
  const std::vector<std::string> names_;
  const ToolContext context_;
  const std::string version_;
};

}  // namespace chimere::orchestrator

#endif  // CHIMERE_ORCHESTRATOR_MCP_MCP_SERVER_H_
