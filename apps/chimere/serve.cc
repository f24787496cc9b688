// chimere serve: models behind the OpenAI API.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/system.h"
#include "command.h"
#include "engine/service.h"
#include "json.h"
#include "odo_host.h"
#include "runtime/model_catalogue.h"
#include "runtime/model_facts.h"
#include "runtime/runtime.h"
#include "runtime/state_folder.h"
#include "served_folder.h"
#include "served_models.h"
#include "serving/api.h"
#include "serving/http_server.h"
#include "serving/log_line.h"
#include "serving/model_registry.h"
#include "serving/usage_file.h"

namespace chimere::app {
namespace {

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> items;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    if (!item.empty()) items.emplace_back(item);
  }
  return items;
}

serving::HttpOptions http_options(const Settings& s) {
  serving::HttpOptions out;
  out.host = s.get(settings::kHost);
  out.port = static_cast<uint16_t>(s.get(settings::kPort));
  out.tls_certificate = s.get(settings::kTlsCertificate);
  out.tls_key = s.get(settings::kTlsKey);
  out.max_connections = s.get(settings::kMaxConnections);
  out.max_body = static_cast<uint64_t>(s.get(settings::kMaxBody)) << 20;
  out.head_seconds = s.get(settings::kHeaderTimeout);
  out.body_seconds = 4 * out.head_seconds;
  out.idle_seconds = s.get(settings::kIdleTimeout);
  return out;
}

/// Writes events to standard error. Thread-safe.
class Log {
 public:
  explicit Log(bool json) : json_(json) {}
  void operator()(const serving::LogLine& event) {
    const std::string line = json_ ? event.json() : event.text();
    const std::lock_guard lock(mutex_);
    std::cerr << line << '\n';
  }

 private:
  const bool json_;
  std::mutex mutex_;
};

Result<std::unique_ptr<serving::KeyRing>> open_keys(const Settings& settings) {
  const std::string& path = settings.get(settings::kKeys);
  const std::string& host = settings.get(settings::kHost);
  if (!path.empty()) return serving::KeyRing::open(path);
  if (serving::is_loopback(host)) return std::unique_ptr<serving::KeyRing>();
  return invalid_argument(
      "On " + host +
      " any host that can reach this machine could use the model. Create a key "
      "with `chimere keys add NAME --keys FILE` and pass --keys FILE, or listen "
      "on 127.0.0.1.");
}

void announce(const CommandLine& line, const serving::HttpServer& server,
              const serving::ModelRegistry& models, Log& log) {
  const std::string& host = line.settings.get(settings::kHost);
  const bool v6 = host.find(':') != std::string::npos;
  const bool tls = !line.settings.get(settings::kTlsCertificate).empty();
  const std::string url = fmt::format("{}://{}:{}", tls ? "https" : "http",
                                      v6 ? "[" + host + "]" : host, server.port());
  const auto model = models.find("", serving::ModelKind::kText);
  const std::string id = model ? model->about.id : "";
  Json document = {{"url", url}, {"model", id}};
  if (model && model->loaded.text != nullptr) {
    const serving::ServedModel& text = *model->loaded.text;
    const engine::StateLimits limits = text.service.state_limits();
    document["context"] = text.service.context();
    document["trained_context"] = text.trained_context;
    document["max_state_bytes"] = limits.bytes;
    document["max_kv_tokens"] = limits.tokens;
    document["max_states"] = limits.states;
    log(serving::LogLine("memory")
            .add("context", text.service.context())
            .add("trained_context", text.trained_context)
            .add("max_state_bytes", limits.bytes)
            .add("max_kv_tokens", limits.tokens)
            .add("max_states", limits.states)
            .add("kv_bytes_per_token", limits.bytes_per_token)
            .add("state_bytes", limits.bytes_per_state));
  }
  if (serves_several(line.settings)) {
    document["models"] = Json::array();
    for (const serving::ModelStatus& m : models.list()) document["models"].push_back(m.about.id);
    document["models_memory"] = models.memory_limit();
    log(serving::LogLine("models")
            .add("number", static_cast<int64_t>(document["models"].size()))
            .add("memory", models.memory_limit()));
  }
  if (line.json) {
    print_json(document);
    std::cout.flush();
  }
  log(serving::LogLine("listening").add("url", url).add("model", id));
  notify_service_manager("READY=1");
}

/// Reads the models' file or folder again, on a thread of its own: at SIGHUP, and when the file or
/// a model in the folder changes.
class ModelReloader {
 public:
  ModelReloader(const ServeContext& context, serving::ModelRegistry& models)
      : context_(context), models_(models), seen_(fingerprint()), thread_([this] { run(); }) {}
  ~ModelReloader() {
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  ModelReloader(const ModelReloader&) = delete;
  ModelReloader& operator=(const ModelReloader&) = delete;

  void request() {
    {
      const std::scoped_lock lock(mutex_);
      requested_ = true;
    }
    changed_.notify_all();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      changed_.wait_for(lock, std::chrono::seconds(1), [&] { return stopping_ || requested_; });
      const std::string now = fingerprint();
      if (stopping_ || (!requested_ && now == seen_)) continue;
      requested_ = false;
      seen_ = now;
      lock.unlock();
      reload();
      lock.lock();
    }
  }

  /// Changes with the models' file and with the folder's models.
  std::string fingerprint() const {
    // The file may add the models of the folder.
    return runtime::file_fingerprint(context_.settings.get(settings::kModelsFile)) + "\n" +
           runtime::folder_fingerprint(context_.settings);
  }

  void reload() {
    auto models = served_models(context_, false);
    if (!models.ok()) {  // the present ones stay
      return context_.log(
          serving::LogLine("models_not_reloaded").add("why", models.error().message));
    }
    const auto number = static_cast<int64_t>(models->sources.size());
    models_.reload(std::move(models->sources));
    context_.log(serving::LogLine("models_reloaded").add("number", number));
  }

  const ServeContext& context_;
  serving::ModelRegistry& models_;
  std::string seen_;  ///< fingerprint() of what was read
  std::mutex mutex_;
  std::condition_variable changed_;
  bool requested_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

Status serve(const CommandLine& line) {
  const Settings& s = line.settings;
  CHIMERE_TRY(const auto keys, open_keys(s));
  CHIMERE_TRY(auto volatile_rules, protocol::parse_volatile_rules(s.get(settings::kVolatileLines)));
  Log log(s.get(settings::kLogFormat) == "json");
  const runtime::Runtime shared(s);
  const std::string folder = runtime::state_folder(s);
  const ServeContext context = {
      s, shared, "chimere-" CHIMERE_VERSION, std::ref(log),
      std::make_shared<SharedMemories>(folder.empty() ? "" : folder + "/engram")};
  CHIMERE_TRY(ServedModels served, served_models(context, true));
  serving::RegistryOptions registry_options;
  CHIMERE_TRY(registry_options.memory_bytes, models_memory(s));
  registry_options.keep_alive = std::chrono::seconds(s.get(settings::kKeepAlive));
  registry_options.max_waiting = s.get(settings::kMaxQueue);
  registry_options.strict_names = s.get(settings::kStrictNames);
  registry_options.log = std::ref(log);
  serving::ModelRegistry models(registry_options);
  models.reload(std::move(served.sources));
  for (const std::string& id : served.preload) CHIMERE_CHECK_OK(models.preload(id));

  serving::ApiOptions api_options;
  api_options.version = context.version;
  api_options.access = {.host = s.get(settings::kHost),
                        .keys = keys != nullptr,
                        .allowed_hosts = split(s.get(settings::kAllowedHosts)),
                        .cors_origins = split(s.get(settings::kCorsOrigins))};
  api_options.log_prompts = s.get(settings::kLogPrompts);
  api_options.log = std::ref(log);
  api_options.response_store_bytes = s.get(settings::kResponseStore) << 20;
  api_options.volatile_rules = std::move(volatile_rules);
  api_options.limits.strict_fields = s.get(settings::kStrictFields);
  std::unique_ptr<serving::ConversationStore> history;
  if (!folder.empty()) {
    auto opened = serving::ConversationStore::open(folder + "/history.db");
    if (opened.ok()) {
      history = *std::move(opened);
    } else {  // Studio then keeps conversations in the browser
      log(serving::LogLine("history_unavailable").add("why", opened.error().message));
    }
  }
  api_options.history = history.get();
  CHIMERE_TRY(const OdoHost odo, make_odo_host(s, std::ref(log)));
  api_options.orchestrator = odo.orchestrator.get();
  api_options.collections = odo.collections.get();
  ServedFolder model_files(s);
  if (served.with_folder) api_options.files = &model_files;
  serving::Api api(api_options, models, keys.get());
  std::unique_ptr<serving::UsageFile> usage;
  if (keys != nullptr && !folder.empty()) {
    std::error_code unwritable;  // reported when the file is written
    std::filesystem::create_directories(folder, unwritable);
    CHIMERE_TRY(usage,
                serving::UsageFile::open(folder + "/key-usage.json", api.usage(), std::ref(log)));
  }
  raise_open_file_limit();
  CHIMERE_TRY(const auto server, serving::HttpServer::create(http_options(s), api));
  api.count_connections_with([&server] { return server->connections(); });
  std::optional<ModelReloader> reloader;
  if (serves_several(s)) reloader.emplace(context, models);
  announce(line, *server, models, log);

  std::thread drain;
  server->run(
      [&] {
        log(serving::LogLine("stopping").add("grace_seconds", s.get(settings::kGrace)));
        notify_service_manager("STOPPING=1");
        api.drain();
        drain = std::thread([&] {
          models.drain(std::chrono::steady_clock::now() +
                       std::chrono::seconds(s.get(settings::kGrace)));
          server->stop(2);
        });
      },
      reloader ? std::function<void()>([&] { reloader->request(); }) : nullptr);
  if (drain.joinable()) drain.join();
  reloader.reset();
  api.stop();
  models.stop();
  log(serving::LogLine("stopped"));
  return {};
}

}  // namespace

const bool kWithServer = true;

void declare_serve(Command& app, CommandLine& line) {
  Command command = add_command(app, line, "serve", "Serves the OpenAI API over HTTP",
                                [&line] { return serve(line); });
  add_settings(command, line,
               {SettingGroup::kServer, SettingGroup::kPrefixCache, SettingGroup::kModel,
                SettingGroup::kDrafter, SettingGroup::kAdapters, SettingGroup::kChatTemplate,
                SettingGroup::kSampling, SettingGroup::kEngram, SettingGroup::kCollections});
}

}  // namespace chimere::app
