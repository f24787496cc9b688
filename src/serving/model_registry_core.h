// The state of a ModelRegistry, and the thread that loads and evicts its models.
#ifndef CHIMERE_SERVING_MODEL_REGISTRY_CORE_H_
#define CHIMERE_SERVING_MODEL_REGISTRY_CORE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "serving/model_registry.h"

namespace chimere::serving {

/// Leases hold it, so that one that is released after the registry's end finds it. Functions
/// without a comment on locks require `mutex`, as do the members that change.
struct ModelRegistry::Core : std::enable_shared_from_this<ModelRegistry::Core> {
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;

  struct Waiter {
    uint64_t id;
    Then then;
  };
  struct Entry {
    ModelSource source;
    std::unique_ptr<ResidentModel> resident;
    bool loading = false;
    bool destroying = false;
    bool draining = false;  ///< gets no new requests and is evicted when the last one is finished
    bool retired = false;   ///< reload() has replaced or removed it
    bool preloaded = false;
    bool no_memory = false;  ///< its last load failed with kOutOfMemory: evict a model, try again
    int64_t bytes = 0;       ///< counted against the budget
    int64_t leases = 0;
    int64_t requests = 0;  ///< of these: leases of requests
    Clock::time_point last_use = Clock::now();
    /// Place of the last request in the order of all: a request that ends late does not count
    /// again.
    uint64_t last_request = 0;
    std::optional<std::chrono::seconds> keep_alive;
    std::deque<Waiter> waiters;
    std::atomic<double> progress = 0;
    uint64_t loads = 0;
    uint64_t evictions = 0;
    uint64_t failures = 0;
    double load_seconds = 0;

    bool ready() const { return resident != nullptr && !draining && !retired; }
  };
  using EntryPtr = std::shared_ptr<Entry>;
  struct Use;

  explicit Core(RegistryOptions given) : options(std::move(given)) {}
  void start() {
    thread = std::thread([this] { run(); });
  }

  EntryPtr find(const std::string& name, ModelKind kind) const;
  /// That of a request: where there is one model of the kind, any name that is no other's means it.
  EntryPtr wanted(const std::string& name, ModelKind kind) const;
  int64_t count(ModelKind kind) const;
  std::optional<protocol::ApiError> check(const std::string& name, ModelKind kind) const;
  protocol::ApiError missing(const std::string& name, ModelKind kind) const;
  ModelStatus status(const EntryPtr& entry);
  ModelLease lease(const EntryPtr& entry, bool request);

  // These lock.
  void reload(std::vector<ModelSource> sources);
  Status preload(const std::string& id, const ModelSource::Progress& progress);
  void use(const std::string& name, ModelKind kind, const std::shared_ptr<ResponseStream>& stream,
           Then then);
  void cancel(uint64_t waiter);
  void release(Entry& entry, bool request);
  void drain(Clock::time_point deadline);
  void stop();

  const RegistryOptions options;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<EntryPtr> entries;
  std::vector<EntryPtr> retired;    ///< loaded models that reload() has replaced
  std::deque<EntryPtr> load_queue;  ///< entries with waiters
  int64_t waiting = 0;              ///< waiters of all entries
  std::atomic<uint64_t> next_waiter = 1;
  uint64_t next_request = 1;  ///< requires the mutex
  bool stopping = false;
  std::thread thread;

 private:
  /// Calls that are made when the lock is released.
  using Calls = std::vector<std::function<void()>>;

  void run();
  /// Does one thing, with `lock` released meanwhile if it takes time. False: there is none to do.
  bool work(Lock& lock);
  void load(const EntryPtr& entry, Lock& lock);
  void destroy(const EntryPtr& entry, const char* why, Lock& lock);
  /// Gives the entry's waiters the model.
  void grant(const EntryPtr& entry, Calls& calls);
  void fail(Entry& entry, const protocol::ApiError& error, Calls& calls);
  /// Ends the drain of entries that need not be evicted.
  void resume_all_but(const std::vector<EntryPtr>& chosen, Calls& calls);
  /// The models to evict so that `bytes` more fit, the first to go first.
  std::vector<EntryPtr> victims(const EntryPtr& for_entry) const;
  /// When the entry, which is loaded and not in use, is evicted.
  std::optional<Clock::time_point> expiry(const Entry& entry) const;
  int64_t used_bytes() const;
  static void make(Calls& calls, Lock& lock);
  void log(const char* event, const ModelDescription& model, double seconds,
           const std::string& why) const;
};

}  // namespace chimere::serving

#endif  // CHIMERE_SERVING_MODEL_REGISTRY_CORE_H_
