#include "local_server.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "odo_host.h"
#include "protocol/chat_stream.h"
#include "runtime/runtime.h"
#include "runtime/state_folder.h"
#include "served_models.h"
#include "serving/api.h"
#include "serving/model_registry.h"

namespace chimere::app {

namespace {

/// --embedding-model and --rerank-model are those of collections here: no route serves them.
Settings without_other_models(Settings settings) {
  (void)settings.set(settings::kEmbeddingModel, "", "ask");
  (void)settings.set(settings::kRerankModel, "", "ask");
  return settings;
}

}  // namespace

struct LocalServer::Parts {
  explicit Parts(const Settings& s)
      : settings(s),
        served(without_other_models(s)),
        runtime(served),
        context{served, runtime, "chimere", [](const serving::LogLine&) {},
                std::make_shared<SharedMemories>(
                    runtime::state_folder(s).empty() ? "" : runtime::state_folder(s) + "/engram")} {
  }

  const Settings settings;
  const Settings served;  ///< of the model that answers
  const runtime::Runtime runtime;
  const ServeContext context;
  std::optional<serving::ModelRegistry> models;
  OdoHost odo;
  std::optional<serving::Api> api;
};

LocalServer::LocalServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

LocalServer::~LocalServer() {
  parts_->api->drain();
  parts_->models->drain(std::chrono::steady_clock::now());
  parts_->api->stop();
  parts_->models->stop();
}

Result<std::unique_ptr<LocalServer>> LocalServer::start(const Settings& settings) {
  auto parts = std::make_unique<Parts>(settings);
  CHIMERE_TRY(parts->odo, make_odo_host(parts->settings, parts->context.log));
  if (parts->odo.orchestrator == nullptr) {
    return unsupported(
        "This program was built without the orchestrator. `make serve`, in the folder of the "
        "sources, installs the libraries that it needs and builds a program with it.");
  }
  CHIMERE_TRY(ServedModels served, served_models(parts->context, true));
  parts->models.emplace(serving::RegistryOptions{});
  parts->models->reload(std::move(served.sources));
  for (const std::string& id : served.preload) CHIMERE_CHECK_OK(parts->models->preload(id));
  serving::ApiOptions options;
  options.version = parts->context.version;
  options.log = parts->context.log;
  options.orchestrator = parts->odo.orchestrator.get();
  parts->api.emplace(options, *parts->models, nullptr);
  return std::unique_ptr<LocalServer>(new LocalServer(std::move(parts)));
}

std::optional<protocol::ApiError> LocalServer::chat(
    const std::string& body, const std::function<bool(std::string_view)>& on_bytes) {
  std::mutex mutex;
  std::condition_variable changed;
  bool news = false;
  const auto stream =
      std::make_shared<serving::ResponseStream>([&](serving::ResponseStream::Urgency /*urgency*/) {
        // Notified under the lock, because the waiting thread may end this function.
        const std::scoped_lock lock(mutex);
        news = true;
        changed.notify_one();
      });
  serving::HttpRequest request;
  request.head.method = "POST";
  request.head.path = "/v1/chat/completions";
  request.body = body;
  parts_->api->handle(std::move(request), stream);
  int status = 200;
  std::string refusal;
  while (true) {
    serving::ResponseStream::Piece piece = stream->take();
    if (piece.head) {
      status = piece.head->status;
      refusal += piece.head->body;
    }
    if (!piece.bytes.empty() && !on_bytes(piece.bytes)) {
      stream->abandon();
    }
    if (piece.ended) break;
    std::unique_lock lock(mutex);
    changed.wait_for(lock, std::chrono::milliseconds(100), [&] { return news; });
    news = false;
  }
  if (status != 200) return protocol::error_of_body(status, refusal);
  return std::nullopt;
}

}  // namespace chimere::app
