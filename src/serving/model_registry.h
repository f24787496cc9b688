// The models of a server by name: loaded when a request names them, evicted when memory is needed.
#ifndef CHIMERE_SERVING_MODEL_REGISTRY_H_
#define CHIMERE_SERVING_MODEL_REGISTRY_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "protocol/api_error.h"
#include "serving/log_line.h"
#include "serving/response_stream.h"
#include "serving/served_model.h"

namespace chimere::serving {

/// Keeps a model loaded. One of the two is set, as the model's kind says.
struct ModelLease {
  std::shared_ptr<const ServedModel> text;
  std::shared_ptr<const ServedEmbedder> embedder;
};

/// A loaded model. Its destructor stops its threads and frees its memory; no request uses it then.
class ResidentModel {
 public:
  virtual ~ResidentModel() = default;
  virtual const ServedModel* text() const { return nullptr; }
  virtual const ServedEmbedder* embedder() const { return nullptr; }
  /// Upper bound of the memory that it takes: weights, states, prefix cache.
  virtual int64_t bytes() const = 0;
  /// Waits until the requests are finished, and cancels the rest at `deadline`.
  virtual void drain(std::chrono::steady_clock::time_point deadline) = 0;
};

/// What is known of a model before it is loaded.
struct ModelDescription {
  std::string id;                    ///< name in the API
  std::vector<std::string> aliases;  ///< further names
  /// Names of its adapters: NAME and id:NAME also name the model, with this adapter.
  std::vector<std::string> adapters = {};
  ModelKind kind = ModelKind::kText;
  int64_t created = 0;       ///< seconds since 1970
  std::string architecture;  ///< general.architecture
  std::string quantization;  ///< as file names give it, such as Q4_K_M; empty: unknown
  int64_t parameters = 0;
  int64_t trained_context = 0;   ///< tokens
  int64_t embedding_length = 0;  ///< of hidden states
  int64_t file_bytes = 0;
  /// What ResidentModel::bytes() is expected to be, or was when it was last loaded.
  int64_t memory_bytes = 0;
  std::optional<std::chrono::seconds> keep_alive;  ///< in place of RegistryOptions::keep_alive
  bool in_folder = false;   ///< its files are in the model folder, under its id
  bool configured = false;  ///< a flag or the models file names it: the server needs its files

  /// Whether `name` is that of an adapter, alone or behind the model's id.
  bool has_adapter(std::string_view name) const;
};

/// A model and how to load it.
struct ModelSource {
  ModelDescription about;
  /// Equal strings: reload() keeps the loaded model.
  std::string fingerprint;
  /// Loads the model on the calling thread and reports from 0 to 1. Errors: kOutOfMemory (it may
  /// fit when other models are evicted), any other one.
  using Progress = std::function<void(double)>;
  std::function<Result<std::unique_ptr<ResidentModel>>(const Progress&)> load;
};

/// The state of a model of the registry.
struct ModelStatus {
  enum class State : uint8_t { kAbsent, kLoading, kReady, kEvicting };

  ModelDescription about;
  State state = State::kAbsent;
  double progress = 0;   ///< of kLoading, 0 to 1
  int64_t bytes = 0;     ///< memory that it takes or has been promised
  int64_t requests = 0;  ///< that use it
  int64_t waiting = 0;   ///< requests that wait until it is loaded
  /// When it is evicted unless it is used before; absent: when memory is needed, or it is in use.
  std::optional<std::chrono::system_clock::time_point> expires;
  uint64_t loads = 0;
  uint64_t evictions = 0;
  uint64_t failures = 0;    ///< of loading
  double load_seconds = 0;  ///< of all loads together
  ModelLease loaded;        ///< with kReady; to be released soon: a leased model is not evicted
};
/// "absent", "loading", "ready" or "evicting".
const char* state_name(ModelStatus::State state);

struct RegistryOptions {
  int64_t memory_bytes = 0;  ///< of all loaded models together; 0: no limit
  /// From a model's last use to its eviction; negative: it stays until memory is needed.
  std::chrono::seconds keep_alive{-1};
  /// Requests that name no model of theirs are errors, also where there is only one.
  bool strict_names = false;
  int64_t max_waiting = 256;  ///< requests that may wait for models
  std::function<void(const LogLine&)> log = [](const LogLine&) {};
};

/// Thread-safe. Leases may be released on any thread; models are loaded and destroyed on a thread
/// of the registry.
///
/// A request for a model that is not loaded waits. Models are loaded one after the other, in the
/// order of the requests. If the next one does not fit, the least recently used models are evicted:
/// first those that no request uses; then others, which get no new requests and are evicted when
/// their last request is finished, so that models that are used all the time keep no other model
/// out.
class ModelRegistry {
 public:
  /// Receives the model, or an error.
  using Then = std::function<void(ModelLease, std::optional<protocol::ApiError>)>;

  explicit ModelRegistry(RegistryOptions options);
  ~ModelRegistry();  ///< stop()
  ModelRegistry(const ModelRegistry&) = delete;
  ModelRegistry& operator=(const ModelRegistry&) = delete;

  /// Replaces the models; the first one of a kind is its default. Names must be unique. A model
  /// with an unchanged fingerprint stays loaded. Another one that is loaded finishes the requests
  /// that use it and is evicted then; new requests get the new model of its name.
  void reload(std::vector<ModelSource> sources);
  /// Loads a model on the calling thread, before other threads use the registry. It is evicted only
  /// when memory is needed. Errors: kNotFound, kOutOfMemory (the budget), those of its load().
  Status preload(const std::string& id, const ModelSource::Progress& progress = {});

  /// The models in the order of the sources.
  std::vector<ModelStatus> list() const;
  /// The model of this id or alias, with or without ":latest"; an empty name stands for the default
  /// one of the kind. Absent: there is none.
  std::optional<ModelStatus> find(const std::string& name, ModelKind kind) const;

  /// False if requests of this kind can only mean one model, which is loaded, whatever they name:
  /// their bodies need not be read before it is known.
  bool has_choice(ModelKind kind) const;
  /// The error of a request that wants `name` as a model of this kind, if it has no such model; an
  /// empty name stands for the default one, and so does any name for the only one of its kind
  /// unless names are strict. Codes: model_not_found, model_does_not_write, model_does_not_embed.
  std::optional<protocol::ApiError> check(const std::string& name, ModelKind kind) const;
  /// The error for a model of this name that find() does not find.
  protocol::ApiError missing(const std::string& name, ModelKind kind) const;

  /// Calls `then` once: with the model, on this thread if it is loaded; else on another one when it
  /// is. Or with an error: those of check(); queue_full; model_unavailable (it cannot be loaded);
  /// cancelled (the client of `stream` has disconnected); stopping.
  void use(const std::string& name, ModelKind kind, const std::shared_ptr<ResponseStream>& stream,
           Then then);
  /// Sets how long this model stays loaded after its last use, until the next such call; negative:
  /// until memory is needed; zero: not at all. Absent: as configured.
  void keep_alive(const std::string& id, std::optional<std::chrono::seconds> time);

  int64_t memory_limit() const;
  /// Refuses waiting and further requests; waits for those that run, and cancels the rest at
  /// `deadline`.
  void drain(std::chrono::steady_clock::time_point deadline);
  /// Destroys all models when their leases are released.
  void stop();

 private:
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_MODEL_REGISTRY_H_
