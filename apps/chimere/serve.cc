// chimere serve: a model behind the OpenAI API.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/system.h"
#include "command.h"
#include "engine/service.h"
#include "json.h"
#include "kernels/api.h"
#include "loading.h"
#include "runtime/constraint_factory.h"
#include "runtime/engram_memories.h"
#include "runtime/loaded_embedder.h"
#include "runtime/loaded_model.h"
#include "runtime/prefix_cache_options.h"
#include "runtime/request.h"
#include "runtime/state_folder.h"
#include "serving/api.h"
#include "serving/http_server.h"
#include "serving/log_line.h"

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

/// A file's name without folder and extension.
std::string name_of(const gguf::Reader& file) {
  return std::filesystem::path(file.path()).stem().string();
}

/// The model's id in the API.
std::string model_id(const Settings& settings, const runtime::LoadedModel& loaded) {
  const std::string& alias = settings.get(settings::kAlias);
  return alias.empty() ? name_of(*loaded.file) : alias;
}

/// Writes a line to standard error. Thread-safe.
void log(const std::string& line) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::cerr << line << '\n';
}

serving::ServedModel serve_model(const Settings& settings, const runtime::LoadedModel& loaded,
                                 engine::EngineService& service, const std::string& version) {
  serving::ServedModel out{.tokenizer = *loaded.tokenizer, .service = service};
  out.id = model_id(settings, loaded);
  out.trained_context = loaded.trained_context;
  out.created = std::chrono::duration_cast<std::chrono::seconds>(
                    std::chrono::system_clock::now().time_since_epoch())
                    .count();
  out.fingerprint = fmt::format("{}+{}+numerics-{}", version, out.id, kernels::kNumericsVersion);
  if (loaded.options.expert_top_p < 1)
    out.fingerprint += fmt::format("+experts-{}", loaded.options.expert_top_p);
  out.defaults = settings;
  const auto constraints =
      std::make_shared<runtime::ConstraintFactory>(*loaded.tokenizer, loaded.model->n_vocab());
  out.compile_constraint = [constraints](const constraints::ConstraintSpec& spec) {
    return constraints->compile(spec);
  };
  out.prompt_template = runtime::load_prompt_template(*loaded.file, *loaded.tokenizer);
  if (!out.prompt_template.ok()) {
    log(serving::LogLine("no_chat").add("reason", out.prompt_template.error().message).text());
  }
  return out;
}

/// Sets the functions of `model` that read and write engram tables.
void connect_engram(serving::ServedModel& model, runtime::RequestFactory& requests,
                    runtime::EngramMemories* memories) {
  model.make_request = [&requests, memories](
                           const Settings& s, const std::string& owner,
                           std::span<const std::string> names) -> Result<engine::Request> {
    engram::Memory::Tables tables;
    if (!names.empty() && memories == nullptr) return not_found("This server stores no memories.");
    if (memories != nullptr) {
      CHIMERE_TRY(tables, memories->tables(owner, names));
    }
    auto request = requests.make(s, tables);
    if (!request.ok() && request.error().code == Error::Code::kNotFound) {
      return io_error("A table that this server was started with (--engram) no longer exists.");
    }
    if (request.ok()) request->owner = owner;
    return request;
  };
  if (memories == nullptr) return;
  model.remember = [&tokenizer = model.tokenizer, memories](
                       const std::string& owner, const std::string& table,
                       const protocol::EngramRequest& asked) -> Result<serving::EngramReport> {
    std::vector<engram::Candidate> texts;
    for (const protocol::EngramRequest::Text& t : asked.texts) {
      texts.push_back({tokenizer.encode(t.text, false), t.score});
    }
    CHIMERE_TRY(engram::WriteReport done, memories->write(owner, table, texts, asked.source));
    return serving::EngramReport{static_cast<int64_t>(done.written), std::move(done.refused),
                                 static_cast<int64_t>(done.ngrams)};
  };
}

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
              const serving::ServedModel& model) {
  const std::string& host = line.settings.get(settings::kHost);
  const bool v6 = host.find(':') != std::string::npos;
  const bool tls = !line.settings.get(settings::kTlsCertificate).empty();
  const std::string url = fmt::format("{}://{}:{}", tls ? "https" : "http",
                                      v6 ? "[" + host + "]" : host, server.port());
  const engine::StateLimits limits = model.service.state_limits();
  if (line.json) {
    print_json({{"url", url},
                {"model", model.id},
                {"context", model.service.context()},
                {"trained_context", model.trained_context},
                {"max_state_bytes", limits.bytes},
                {"max_kv_tokens", limits.tokens},
                {"max_states", limits.states}});
    std::cout.flush();
  }
  log(serving::LogLine("memory")
          .add("context", model.service.context())
          .add("trained_context", model.trained_context)
          .add("max_state_bytes", limits.bytes)
          .add("max_kv_tokens", limits.tokens)
          .add("max_states", limits.states)
          .add("kv_bytes_per_token", limits.bytes_per_token)
          .add("state_bytes", limits.bytes_per_state)
          .text());
  log(serving::LogLine("listening").add("url", url).add("model", model.id).text());
  notify_service_manager("READY=1");
}

Status serve(const CommandLine& line) {
  const Settings& s = line.settings;
  CHIMERE_TRY(const auto keys, open_keys(s));
  const int64_t running = s.get(settings::kMaxRunning);
  // Few sequences fill their context, so all sequences share the capacity of this many full
  // contexts. When it is exhausted, the youngest ones are evicted and resumed later.
  constexpr int64_t kContexts = 8;
  const runtime::Runtime shared(s);
  CHIMERE_TRY(const runtime::LoadedModel loaded,
              load_shared(s,
                          {.contexts = std::min(running, kContexts),
                           .sequences = running,
                           .default_context = std::numeric_limits<int64_t>::max(),
                           .checkpoints = s.get(settings::kCacheStates),
                           .elastic = true},
                          shared));
  engine::ServiceOptions options;
  options.engine = {.max_step_rows = loaded.step_rows,
                    .max_running = static_cast<int32_t>(running),
                    .context = loaded.context,
                    .pool = loaded.pool.get()};
  const auto tell = [](const std::string& what) {
    log(serving::LogLine("prefix_cache").add("what", what).text());
  };
  options.cache = runtime::prefix_cache_options(s, *loaded.file, tell);
  const std::optional<std::string> notice = runtime::first_start_notice(options.cache);
  options.max_queue = static_cast<int32_t>(s.get(settings::kMaxQueue));
  CHIMERE_TRY(const auto service,
              engine::EngineService::create(*loaded.model, *loaded.tokenizer, options));
  std::error_code unreadable;  // the cache has warned already
  if (notice && std::filesystem::exists(options.cache->disk.folder, unreadable)) tell(*notice);
  const std::string version = "chimere-" CHIMERE_VERSION;
  serving::ServedModel model = serve_model(s, loaded, *service, version);
  runtime::RequestFactory requests(*loaded.tokenizer);
  // Reports invalid defaults, such as a missing table, at start and not with the first request.
  CHIMERE_TRY([[maybe_unused]] const engine::Request first, requests.make(s));
  std::optional<runtime::EngramMemories> memories;
  if (const std::string folder = runtime::state_folder(s); !folder.empty()) {
    memories.emplace(folder + "/engram", *loaded.tokenizer);
  }
  connect_engram(model, requests, memories ? &*memories : nullptr);
  std::optional<runtime::LoadedEmbedder> embedder;
  if (const std::string& name = s.get(settings::kEmbeddingModel); !name.empty()) {
    CHIMERE_TRY(auto file, open_model(s, name));
    CHIMERE_TRY(embedder, runtime::load_embedder(std::move(file), s, shared));
    model.embedder.emplace(name_of(*embedder->loaded.file), *embedder->embedder);
    if (model.embedder->id == model.id) model.embedder->id += "-embeddings";
  }

  serving::ApiOptions api_options;
  api_options.version = version;
  api_options.access = {.host = s.get(settings::kHost),
                        .keys = keys != nullptr,
                        .allowed_hosts = split(s.get(settings::kAllowedHosts)),
                        .cors_origins = split(s.get(settings::kCorsOrigins))};
  api_options.log_prompts = s.get(settings::kLogPrompts);
  api_options.log = log;
  serving::Api api(api_options, model, keys.get());
  raise_open_file_limit();
  CHIMERE_TRY(const auto server, serving::HttpServer::create(http_options(s), api));
  api.count_connections_with([&server] { return server->connections(); });
  announce(line, *server, model);

  std::thread drain;
  server->run([&] {
    log(serving::LogLine("stopping").add("grace_seconds", s.get(settings::kGrace)).text());
    notify_service_manager("STOPPING=1");
    api.drain();
    drain = std::thread([&] {
      service->drain(engine::EngineService::Clock::now() +
                     std::chrono::seconds(s.get(settings::kGrace)));
      server->stop(2);
    });
  });
  if (drain.joinable()) drain.join();
  api.stop();
  service->stop();
  log(serving::LogLine("stopped").text());
  return {};
}

}  // namespace

const bool kWithServer = true;

void declare_serve(Command& app, CommandLine& line) {
  Command command = add_command(app, line, "serve", "Serves the OpenAI API over HTTP",
                                [&line] { return serve(line); });
  add_settings(command, line,
               {SettingGroup::kServer, SettingGroup::kPrefixCache, SettingGroup::kModel,
                SettingGroup::kSampling, SettingGroup::kEngram});
}

}  // namespace chimere::app
