// A client of the Model Context Protocol: the tools of other programs and servers.
// https://modelcontextprotocol.io/specification/2025-06-18
#ifndef CHIMERE_ORCHESTRATOR_MCP_MCP_CLIENT_H_
#define CHIMERE_ORCHESTRATOR_MCP_MCP_CLIENT_H_

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "orchestrator/tools/tool.h"

namespace chimere::orchestrator {

/// A server: either a program that speaks on its standard input and output, or an address.
struct McpServerSpec {
  std::string name;                      ///< letters, digits and '-'
  std::vector<std::string> command;      ///< the program and its arguments
  std::vector<std::string> environment;  ///< "NAME=value", beside PATH, HOME and LANG
  std::string url;                       ///< of streamable HTTP
  std::vector<std::string> headers;      ///< "Name: value", for the address
};

/// Reads {"mcpServers": {NAME: {"command", "args", "env"} or {"url", "headers"}}}, the file that
/// other clients have, too. Errors: kInvalidData.
Result<std::vector<McpServerSpec>> parse_mcp_servers(std::string_view json,
                                                     const std::string& source);

/// How messages get to a server. Not thread-safe.
class McpTransport {
 public:
  virtual ~McpTransport() = default;
  /// Sends a request, returns the response with this id as JSON text. Errors: kCancelled (too
  /// late), kIo (the server is gone), kInvalidData.
  virtual Result<std::string> request(int64_t id, const std::string& message,
                                      std::chrono::steady_clock::time_point deadline) = 0;
  /// Sends what has no response.
  virtual Status notify(const std::string& message,
                        std::chrono::steady_clock::time_point deadline) = 0;
  /// The negotiated version, for the headers of later messages.
  virtual void set_version(const std::string& /*version*/) {}
};

/// Errors: kNotFound (no such program), kIo, kInvalidArgument (no http or https address).
Result<std::unique_ptr<McpTransport>> open_mcp_transport(const McpServerSpec& spec);

/// A connection to one server, which is made anew after it broke. Thread-safe: one call at a time.
class McpClient {
 public:
  McpClient(McpServerSpec spec, std::string version)
      : spec_(std::move(spec)), version_(std::move(version)) {}

  /// The tools as the server names them. Errors: those of the transport and of the server.
  Result<std::vector<text::Tool>> tools();
  /// The text of the result. `arguments`: JSON text of an object. Errors: also that the tool
  /// failed.
  Result<std::string> call(const std::string& tool, const std::string& arguments);
  const std::string& name() const { return spec_.name; }

 private:
  Status connect();
  /// The member `result` of the response, as JSON text.
  Result<std::string> request(const std::string& method, const std::string& params);

  const McpServerSpec spec_;
  const std::string version_;
  std::mutex mutex_;  ///< guards what follows
  std::unique_ptr<McpTransport> transport_;
  int64_t next_id_ = 0;
};

/// The tools of a server for pipelines, named SERVER__TOOL. All have effects, as far as we know:
/// a pipeline must approve of them. Errors: those of McpClient::tools().
Result<std::vector<std::shared_ptr<Tool>>> mcp_tools(const std::shared_ptr<McpClient>& client);

}  // namespace chimere::orchestrator

#endif  // CHIMERE_ORCHESTRATOR_MCP_MCP_CLIENT_H_
