// The versions of the Model Context Protocol that the server and the client speak.
#ifndef CHIMERE_ORCHESTRATOR_MCP_MCP_VERSIONS_H_
#define CHIMERE_ORCHESTRATOR_MCP_MCP_VERSIONS_H_

#include <array>
#include <string_view>

namespace chimere::orchestrator {

/// The newest first. https://modelcontextprotocol.io/specification/versioning
inline constexpr auto kMcpVersions =
    std::to_array<std::string_view>({"2025-06-18", "2025-03-26", "2024-11-05"});

}  // namespace chimere::orchestrator

#endif  // CHIMERE_ORCHESTRATOR_MCP_MCP_VERSIONS_H_
