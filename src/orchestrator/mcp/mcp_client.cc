#include "orchestrator/mcp/mcp_client.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "orchestrator/mcp/mcp_versions.h"

namespace chimere::orchestrator {
namespace {

using ClientJson = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr auto kConnectTime = std::chrono::seconds(20);
constexpr auto kCallTime = std::chrono::seconds(60);
constexpr size_t kMostTools = 1000;
constexpr size_t kMostResult = 64 << 10;

std::string text_of(const ClientJson& value) {
  return value.dump(-1, ' ', false, ClientJson::error_handler_t::replace);
}

std::string member_text(const ClientJson& object, const char* name) {
  if (!object.is_object()) return "";
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

bool valid_server_name(std::string_view name) {
  return !name.empty() && name.size() <= 32 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
  });
}

/// The name for a model: names of functions have letters, digits, '_' and '-' only.
std::string function_name(const std::string& server, const std::string& tool) {
  std::string out = server + "__" + tool;
  for (char& c : out) {
    const bool allowed = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '_' || c == '-';
    if (!allowed) c = '_';
  }
  constexpr size_t kMostName = 64;
  if (out.size() > kMostName) out.resize(kMostName);
  return out;
}

class McpTool final : public Tool {
 public:
  McpTool(std::shared_ptr<McpClient> client, std::string name, text::Tool definition)
      : client_(std::move(client)), name_(std::move(name)), definition_(std::move(definition)) {}
  const text::Tool& definition() const override { return definition_; }
  Effect effect() const override { return Effect::kExternal; }
  Result<std::string> call(const std::string& arguments, const ToolContext& /*context*/) override {
    return client_->call(name_, arguments);
  }

 private:
  const std::shared_ptr<McpClient> client_;
  const std::string name_;  ///< as the server has it
  const text::Tool definition_;
};

Result<McpServerSpec> parse_server(const std::string& name, const ClientJson& entry,
                                   const std::string& source) {
  const auto wrong = [&](const std::string& what) {
    return invalid_data(source + ": the server '" + name.substr(0, 80) + "' " + what + ".");
  };
  McpServerSpec out;
  out.name = name;
  if (!valid_server_name(name)) return wrong("has a name of other than letters, digits and '-'");
  if (!entry.is_object()) return wrong("is no object");
  const std::string command = member_text(entry, "command");
  out.url = member_text(entry, "url");
  if (command.empty() == out.url.empty()) return wrong("needs one of 'command' and 'url'");
  if (!command.empty()) out.command.push_back(command);
  const auto texts = [&](const char* key, const std::string& between,
                         std::vector<std::string>& to) -> Status {
    const auto found = entry.find(key);
    if (found == entry.end()) return {};
    const bool list = between.empty();
    if (list ? !found->is_array() : !found->is_object()) {
      return wrong("has '" + std::string(key) + "' of the wrong type");
    }
    for (const auto& [member, value] : found->items()) {
      if (!value.is_string())
        return wrong("has a value in '" + std::string(key) + "' that is no text");
      to.push_back(list ? value.get<std::string>() : member + between + value.get<std::string>());
    }
    return {};
  };
  CHIMERE_CHECK_OK(texts("args", "", out.command));
  CHIMERE_CHECK_OK(texts("env", "=", out.environment));
  CHIMERE_CHECK_OK(texts("headers", ": ", out.headers));
  if (command.empty() && !out.command.empty()) return wrong("has 'args' without 'command'");
  return out;
}

}  // namespace

Result<std::vector<McpServerSpec>> parse_mcp_servers(std::string_view json,
                                                     const std::string& source) {
  const ClientJson document = ClientJson::parse(json, nullptr, false);
  if (!document.is_object() || !document.contains("mcpServers") ||
      !document["mcpServers"].is_object()) {
    return invalid_data(source + R"(: the file must be {"mcpServers": {NAME: {...}}}.)");
  }
  std::vector<McpServerSpec> out;
  for (const auto& [name, entry] : document["mcpServers"].items()) {
    CHIMERE_TRY(auto spec, parse_server(name, entry, source));
    out.push_back(std::move(spec));
  }
  return out;
}

Status McpClient::connect() {
  if (transport_) return {};
  const auto deadline = Clock::now() + kConnectTime;
  CHIMERE_TRY(auto transport, open_mcp_transport(spec_));
  const int64_t id = ++next_id_;
  const ClientJson hello = {{"jsonrpc", "2.0"},
                            {"id", id},
                            {"method", "initialize"},
                            {"params",
                             {{"protocolVersion", kMcpVersions.front()},
                              {"capabilities", ClientJson::object()},
                              {"clientInfo", {{"name", "chimere"}, {"version", version_}}}}}};
  CHIMERE_TRY(const std::string response, transport->request(id, text_of(hello), deadline));
  const ClientJson parsed = ClientJson::parse(response, nullptr, false);
  const std::string version =
      parsed.contains("result") ? member_text(parsed["result"], "protocolVersion") : "";
  if (std::ranges::find(kMcpVersions, version) == kMcpVersions.end()) {
    return unsupported("The MCP server '" + spec_.name + "' speaks version '" +
                       version.substr(0, 40) + "', which is unknown here.");
  }
  transport->set_version(version);
  CHIMERE_CHECK_OK(
      transport->notify(R"({"jsonrpc":"2.0","method":"notifications/initialized"})", deadline));
  transport_ = std::move(transport);
  return {};
}

Result<std::string> McpClient::request(const std::string& method, const std::string& params) {
  CHIMERE_CHECK_OK(connect());
  const int64_t id = ++next_id_;
  const ClientJson message = {{"jsonrpc", "2.0"},
                              {"id", id},
                              {"method", method},
                              {"params", ClientJson::parse(params, nullptr, false)}};
  auto response = transport_->request(id, text_of(message), Clock::now() + kCallTime);
  if (!response.ok()) {
    transport_.reset();  // the next call begins anew
    return Error{response.error().code,
                 "The MCP server '" + spec_.name + "': " + response.error().message};
  }
  const ClientJson parsed = ClientJson::parse(*response, nullptr, false);
  if (parsed.is_object() && parsed.contains("result")) return text_of(parsed["result"]);
  const std::string why =
      parsed.is_object() && parsed.contains("error") ? member_text(parsed["error"], "message") : "";
  return invalid_data("The MCP server '" + spec_.name +
                      "' refuses: " + (why.empty() ? "its answer is damaged" : why) + ".");
}

Result<std::vector<text::Tool>> McpClient::tools() {
  const std::scoped_lock lock(mutex_);
  std::vector<text::Tool> out;
  std::string cursor;
  do {
    const ClientJson params =
        cursor.empty() ? ClientJson::object() : ClientJson{{"cursor", cursor}};
    CHIMERE_TRY(const std::string result, request("tools/list", text_of(params)));
    const ClientJson parsed = ClientJson::parse(result, nullptr, false);
    const auto list = parsed.is_object() ? parsed.find("tools") : parsed.end();
    if (list == parsed.end() || !list->is_array()) break;
    for (const ClientJson& row : *list) {
      text::Tool tool;
      tool.name = member_text(row, "name");
      tool.description = member_text(row, "description");
      if (row.is_object() && row.contains("inputSchema") && row["inputSchema"].is_object()) {
        tool.parameters = text_of(row["inputSchema"]);
      }
      if (!tool.name.empty()) out.push_back(std::move(tool));
    }
    const std::string next = member_text(parsed, "nextCursor");
    if (next == cursor) break;
    cursor = next;
  } while (!cursor.empty() && out.size() < kMostTools);
  return out;
}

Result<std::string> McpClient::call(const std::string& tool, const std::string& arguments) {
  const ClientJson given = ClientJson::parse(arguments, nullptr, false);
  if (!given.is_object()) return invalid_argument("The arguments must be a JSON object.");
  const ClientJson params = {{"name", tool}, {"arguments", given}};
  const std::scoped_lock lock(mutex_);
  CHIMERE_TRY(const std::string result, request("tools/call", text_of(params)));
  const ClientJson parsed = ClientJson::parse(result, nullptr, false);
  std::string text;
  if (parsed.is_object() && parsed.contains("content") && parsed["content"].is_array()) {
    for (const ClientJson& part : parsed["content"]) {
      const std::string type = member_text(part, "type");
      if (!text.empty()) text += '\n';
      text += type == "text" ? member_text(part, "text") : "[" + type + ", which is no text]";
    }
  }
  if (text.size() > kMostResult) {
    text.resize(kMostResult);
    text += "\n[the result was cut after 64 KiB]";
  }
  const bool failed = parsed.is_object() && parsed.contains("isError") && parsed["isError"] == true;
  if (failed) return invalid_data(text);
  return text;
}

Result<std::vector<std::shared_ptr<Tool>>> mcp_tools(const std::shared_ptr<McpClient>& client) {
  CHIMERE_TRY(auto definitions, client->tools());
  std::vector<std::shared_ptr<Tool>> out;
  for (text::Tool& definition : definitions) {
    std::string name = definition.name;
    definition.name = function_name(client->name(), name);
    out.push_back(std::make_shared<McpTool>(client, std::move(name), std::move(definition)));
  }
  return out;
}

}  // namespace chimere::orchestrator
