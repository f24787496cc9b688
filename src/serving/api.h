// The routes of the server: authorisation and handlers.
#ifndef CHIMERE_SERVING_API_H_
#define CHIMERE_SERVING_API_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/api_error.h"
#include "protocol/requests.h"
#include "serving/access.h"
#include "serving/api_keys.h"
#include "serving/generation_job.h"
#include "serving/http_server.h"
#include "serving/metrics.h"
#include "serving/next_turn.h"
#include "serving/served_model.h"
#include "serving/work_queue.h"

namespace chimere::serving {

struct ApiOptions {
  std::string version;
  AccessRules access;
  protocol::RequestLimits limits;
  bool log_prompts = false;
  /// Receives one log line per event. Any thread.
  std::function<void(const std::string&)> log;
};

/// Prefixes of paths that continue with a name.
inline constexpr std::string_view kModels = "/v1/models/";
inline constexpr std::string_view kEngram = "/v1/engram/";

class Api final : public HttpHandler {
 public:
  /// `keys`: nullptr if no API key is required. Model and keys must outlive the API.
  Api(ApiOptions options, const ServedModel& model, KeyRing* keys);

  std::optional<HttpResponse> refuse(const HttpHead& head) override;
  void handle(HttpRequest request, std::shared_ptr<ResponseStream> stream) override;
  Headers extra_headers(const HttpHead& head) override;

  /// Source of the number of connections, for /metrics and /v1/status.
  void count_connections_with(std::function<int64_t()> connections) {
    connections_ = std::move(connections);
  }
  /// From now on /ready returns 503 and new work is refused. Any thread.
  void drain() { draining_ = true; }
  /// Joins the threads that prepare requests.
  void stop() {
    workers_.stop();
    embedding_worker_.stop();
  }

 private:
  struct Route;
  struct KeyUse {
    int64_t active = 0;
    int64_t this_minute = 0;
    std::chrono::steady_clock::time_point minute_began;
  };
  /// An admitted request until its response is complete.
  struct Call {
    HttpRequest request;
    std::shared_ptr<ResponseStream> stream;
    std::string route;
    std::shared_ptr<const ApiKey> key;
    bool counted = false;  ///< among the requests of its key
    std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
  };
  using CallPtr = std::shared_ptr<Call>;

  static const Route* find_route(std::string_view path);
  /// The owner for the engine and the engram tables: the key's name, or the anonymous owner.
  static const std::string& owner_of(const Call& call);
  std::shared_ptr<const ApiKey> presented_key(const HttpHead& head) const;
  std::optional<protocol::ApiError> begin_use(const ApiKey* key);
  void end_use(const ApiKey* key);

  /// `error_code`: of the log line.
  void respond(const CallPtr& call, HttpResponse response, const std::string& error_code = "");
  void respond(const CallPtr& call, const protocol::ApiError& error);
  void finish(const CallPtr& call, const GenerationReport& report);
  std::optional<protocol::ApiError> check_model(const std::string& name) const;
  std::optional<protocol::ApiError> unknown_model(const std::string& name) const;
  std::optional<protocol::ApiError> add_choices(const protocol::GenerationFields& fields,
                                                const Call& call, std::vector<int32_t> tokens,
                                                protocol::ReasoningSplitter::Start start,
                                                const std::string& echo,
                                                GenerationSpec& spec) const;
  void warmup_next_turn(NextTurn& turn, const std::string& owner, const protocol::Choice& answer);
  void generate(const CallPtr& call, const protocol::GenerationFields& fields, GenerationSpec spec);

  void page(const CallPtr& call);
  void health(const CallPtr& call);
  void ready(const CallPtr& call);
  void metrics(const CallPtr& call);
  void status(const CallPtr& call);
  void models(const CallPtr& call);
  void chat(const CallPtr& call);
  void completion(const CallPtr& call);
  void embeddings(const CallPtr& call);
  void embed(const CallPtr& call, const std::vector<std::vector<int32_t>>& texts,
             const protocol::EmbeddingsRequest& request);
  void tokenize(const CallPtr& call);
  void detokenize(const CallPtr& call);
  void remember(const CallPtr& call);

  const ApiOptions options_;
  const ServedModel& model_;
  KeyRing* const keys_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::function<int64_t()> connections_ = [] { return 0; };
  std::atomic<bool> draining_ = false;
  Metrics metrics_;
  std::mutex use_mutex_;
  std::map<std::string, KeyUse> use_;
  WorkQueue workers_;
  WorkQueue embedding_worker_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_API_H_
