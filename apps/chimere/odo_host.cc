#include "odo_host.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "collection_models.h"
#include "collection_service.h"
#include "orchestrator/mcp/mcp_client.h"
#include "orchestrator/orchestrator.h"
#include "runtime/state_folder.h"

namespace chimere::app {
namespace {

/// The embedder of collections for the examples of intents, loaded at its first use.
orchestrator::Embed intent_embedder(const Settings& settings) {
  struct Lazy {
    std::mutex mutex;
    std::shared_ptr<retrieval::TextEmbedder> embedder;
  };
  return [settings, lazy = std::make_shared<Lazy>()](
             const std::vector<std::string>& texts) -> Result<std::vector<std::vector<float>>> {
    std::shared_ptr<retrieval::TextEmbedder> embedder;
    {
      const std::scoped_lock lock(lazy->mutex);
      if (lazy->embedder == nullptr) {
        CHIMERE_TRY(lazy->embedder, collection_embedder(settings));
      }
      embedder = lazy->embedder;
    }
    if (embedder == nullptr) return unsupported("--embedding-model is none.");
    return embedder->embed(texts);
  };
}

/// The tools of the MCP servers that a file names; what does not work is logged and left out.
std::vector<std::shared_ptr<orchestrator::Tool>> tools_of_mcp_servers(const std::string& path,
                                                                      const ServeLog& log) {
  std::vector<std::shared_ptr<orchestrator::Tool>> out;
  std::error_code none;
  if (!std::filesystem::exists(path, none)) return out;
  const auto failed = [&](const std::string& server, const std::string& why) {
    log(serving::LogLine("mcp_server_failed").add("server", server).add("why", why));
  };
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto servers = orchestrator::parse_mcp_servers(text, path);
  if (!servers.ok()) {
    failed("", servers.error().message);
    return out;
  }
  std::set<std::string> names;
  for (const orchestrator::McpServerSpec& spec : *servers) {
    auto tools =
        orchestrator::mcp_tools(std::make_shared<orchestrator::McpClient>(spec, CHIMERE_VERSION));
    if (!tools.ok()) {
      failed(spec.name, tools.error().message);
      continue;
    }
    log(serving::LogLine("mcp_server")
            .add("server", spec.name)
            .add("tools", static_cast<int64_t>(tools->size())));
    for (auto& tool : *tools) {
      if (names.insert(tool->definition().name).second) out.push_back(std::move(tool));
    }
  }
  return out;
}

}  // namespace

Result<OdoHost> make_odo_host(const Settings& settings, const ServeLog& log) {
  orchestrator::OrchestratorOptions options;
  const std::string folder = runtime::state_folder(settings);
  if (!folder.empty()) {
    options.pipelines = folder + "/pipelines";
    options.intents = folder + "/intents";
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (!error) options.database = folder + "/odo.db";
  }
  options.log = [log](std::string_view what, const std::string& file, const std::string& why) {
    serving::LogLine line("pipeline_" + std::string(what));
    line.add("file", file);
    if (!why.empty()) line.add("why", why);
    log(line);
  };
  options.embed = intent_embedder(settings);
  OdoHost host;
  CHIMERE_TRY(auto service, CollectionService::create(settings));
  options.passages = service->passages();
  host.collections = std::move(service);
  if (!folder.empty()) options.tools = tools_of_mcp_servers(folder + "/mcp.json", log);
  CHIMERE_TRY(host.orchestrator, orchestrator::Orchestrator::create(std::move(options)));
  return host;
}

}  // namespace chimere::app
