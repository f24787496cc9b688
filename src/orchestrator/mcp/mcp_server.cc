#include "orchestrator/mcp/mcp_server.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "orchestrator/mcp/mcp_versions.h"

namespace chimere::orchestrator {
namespace {

using McpJson = nlohmann::ordered_json;

// https://www.jsonrpc.org/specification, section 5.1
constexpr int kParseError = -32700;
constexpr int kInvalidRequest = -32600;
constexpr int kMethodNotFound = -32601;
constexpr int kInvalidParams = -32602;

std::string line_of(const McpJson& message) {
  return message.dump(-1, ' ', false, McpJson::error_handler_t::replace);
}

std::string failure(const McpJson& id, int code, const std::string& message) {
  return line_of(
      {{"jsonrpc", "2.0"}, {"id", id}, {"error", {{"code", code}, {"message", message}}}});
}

std::string success(const McpJson& id, McpJson result) {
  return line_of({{"jsonrpc", "2.0"}, {"id", id}, {"result", std::move(result)}});
}

std::string text_member(const McpJson& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

McpJson tool_json(const text::Tool& tool) {
  McpJson schema = McpJson::parse(tool.parameters, nullptr, false);
  if (!schema.is_object()) schema = {{"type", "object"}};
  return {{"name", tool.name}, {"description", tool.description}, {"inputSchema", schema}};
}

}  // namespace

McpServer::McpServer(const ToolBox& box, std::vector<std::string> names, ToolContext context,
                     std::string version)
    : box_(box),
      names_(std::move(names)),
      context_(std::move(context)),
      version_(std::move(version)) {}

bool McpServer::speaks(std::string_view version) {
  return std::ranges::find(kMcpVersions, version) != kMcpVersions.end();
}

std::optional<std::string> McpServer::handle(std::string_view line) {
  const McpJson message = McpJson::parse(line, nullptr, false);
  if (message.is_discarded()) return failure(nullptr, kParseError, "The line is no JSON.");
  if (!message.is_object() || text_member(message, "jsonrpc") != "2.0") {
    return failure(nullptr, kInvalidRequest, "The message is no JSON-RPC 2.0 object.");
  }
  const auto id_member = message.find("id");
  const std::string method = text_member(message, "method");
  if (id_member == message.end()) return std::nullopt;  // a notification
  const McpJson& id = *id_member;
  if (!id.is_string() && !id.is_number_integer()) {
    return failure(nullptr, kInvalidRequest, "'id' must be a text or a whole number.");
  }
  if (method.empty()) {
    // A response: this server asks nothing.
    if (message.contains("result") || message.contains("error")) return std::nullopt;
    return failure(id, kInvalidRequest, "'method' is missing.");
  }
  const auto params_member = message.find("params");
  const McpJson params = params_member != message.end() ? *params_member : McpJson::object();
  if (!params.is_object()) return failure(id, kInvalidParams, "'params' must be an object.");
  if (method == "ping") return success(id, McpJson::object());
  if (method == "initialize") {
    const std::string wanted = text_member(params, "protocolVersion");
    const bool known = speaks(wanted);
    return success(id, {{"protocolVersion", known ? wanted : std::string(kMcpVersions.front())},
                        {"capabilities", {{"tools", McpJson::object()}}},
                        {"serverInfo", {{"name", "chimere"}, {"version", version_}}}});
  }
  if (method == "tools/list") {
    McpJson tools = McpJson::array();
    for (const std::string& name : names_) {
      if (const Tool* const tool = box_.find(name)) tools.push_back(tool_json(tool->definition()));
    }
    return success(id, {{"tools", std::move(tools)}});
  }
  if (method == "tools/call") {
    const std::string name = text_member(params, "name");
    Tool* const tool = std::ranges::find(names_, name) == names_.end() ? nullptr : box_.find(name);
    if (tool == nullptr) return failure(id, kInvalidParams, "There is no tool '" + name + "'.");
    const auto arguments = params.find("arguments");
    const auto value = tool->call(arguments == params.end() ? "{}" : line_of(*arguments), context_);
    return success(
        id,
        {{"content", {{{"type", "text"}, {"text", value.ok() ? *value : value.error().message}}}},
         {"isError", !value.ok()}});
  }
  return failure(id, kMethodNotFound, "There is no method '" + method + "'.");
}

}  // namespace chimere::orchestrator
