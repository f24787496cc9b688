#include "engine/service.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace chimere::engine {
namespace {

using Clock = EngineService::Clock;

constexpr auto kLongestSave = std::chrono::seconds(5);
/// Between two updates of the statistics while no request begins or ends.
constexpr auto kSnapshotInterval = std::chrono::milliseconds(20);

}  // namespace

/// `mutex` guards the data that other threads pass to the service's thread; the engine is used by
/// that thread alone. A generated token takes no lock.
struct EngineService::Impl {
  struct Arrival {
    RequestId id;
    Request request;
  };

  /// A call of use_model(), which waits for `result`.
  struct ModelUse {
    const std::function<Status()>* use = nullptr;
    std::optional<Status> result;
  };

  struct WarmUps {
    std::string owner;
    std::vector<std::vector<int32_t>> prefixes;
    std::optional<std::string> shared_cache;
    RequestAdapters adapters;
    Speculation speculation;
  };

  Impl(model::Model& m, const ServiceOptions& o) : options(o), states(m.states()) {
    snapshot.kv_limit = states.max_pages() * states.page_stride();
    snapshot.slot_limit = recurrent_bytes(states.max_slots(), states.max_pending_rows());
    snapshot.resident_limit = limits().bytes;
  }

  int64_t recurrent_bytes(int64_t slots, int64_t pending_rows) const {
    return slots * states.bytes_per_slot() + pending_rows * states.bytes_per_pending_row();
  }
  StateLimits limits() const;
  Status start(model::Model& model, const text::Tokenizer& tokenizer);
  Result<RequestId> submit(Request request);
  void observe(Request& request);
  void work();
  bool take_arrivals(bool busy);
  void run_uses(std::span<ModelUse* const> calls);
  void notify();
  void update_snapshot(bool idle_engine);

  ServiceOptions options;
  state::StateStore& states;

  mutable Mutex mutex;
  std::condition_variable_any wake;  ///< new input for the engine, or `ended`
  std::condition_variable_any idle;  ///< no request is in flight
  std::vector<Arrival> arrivals;
  std::vector<WarmUps> warmups;
  std::vector<ModelUse*> uses;
  std::condition_variable_any used;  ///< a ModelUse has its result
  std::vector<RequestId> cancelled;
  RequestId next_id = 1;
  bool woken = false;               ///< the prefix cache or the engine has completions to run
  bool closed = false;              ///< refuse new requests
  bool cancel_all = false;          ///< cancel the requests in flight
  bool ended = false;               ///< end the thread
  std::atomic<bool> input = false;  ///< one of the above has changed
  ServiceStats snapshot;

  // Used by the service's thread.
  Histogram first_token;
  Histogram inter_token;
  bool snapshot_due = false;
  Clock::time_point snapshot_time;

  // Declared after the members that their threads use: destruction joins the threads first.
  std::unique_ptr<PrefixCache> cache;
  std::unique_ptr<Engine> engine;
  std::thread thread;
};

StateLimits EngineService::Impl::limits() const {
  StateLimits out;
  out.bytes_per_token = states.bytes_per_token();
  out.bytes_per_state = states.bytes_per_slot();
  out.tokens = out.bytes_per_token > 0 ? states.max_pages() * states.spec().page_tokens : 0;
  out.states = out.bytes_per_state > 0 ? states.max_slots() : 0;
  const int64_t all =
      out.tokens * out.bytes_per_token + recurrent_bytes(out.states, states.max_pending_rows());
  out.bytes = states.max_bytes() > 0 ? std::min(all, states.max_bytes()) : all;
  return out;
}

Result<RequestId> EngineService::Impl::submit(Request request) {
  CHIMERE_CHECK_OK(engine->check(request));
  observe(request);
  const std::scoped_lock lock(mutex);
  if (closed) {
    return Error{Error::Code::kCancelled, "The server is stopping and accepts no new requests."};
  }
  if (snapshot.in_flight >= int64_t{options.engine.max_running} + options.max_queue) {
    ++snapshot.refused;
    return Error{Error::Code::kOutOfMemory,
                 "The server is busy: " + std::to_string(snapshot.in_flight) +
                     " requests are running or waiting, which is the limit (--max-queue). Try "
                     "again in a moment."};
  }
  ++snapshot.in_flight;
  ++snapshot.accepted;
  const RequestId id = next_id++;
  arrivals.push_back({id, std::move(request)});
  notify();
  return id;
}

/// Requires `mutex`.
void EngineService::Impl::notify() {
  input.store(true, std::memory_order_release);
  wake.notify_one();
}

/// Wraps the callbacks to update the statistics.
void EngineService::Impl::observe(Request& request) {
  request.on_token = [this, last = Clock::now(), first = true,
                      then = std::move(request.on_token)](const TokenEvent& event) mutable {
    const Clock::time_point now = Clock::now();
    (first ? first_token : inter_token).add(std::chrono::duration<double>(now - last).count());
    first = false;
    last = now;
    if (then) then(event);
  };
  request.on_finish = [this, then = std::move(request.on_finish)](Outcome outcome) {
    const FinishReason reason = outcome.reason;
    if (then) then(std::move(outcome));
    snapshot_due = true;
    const std::scoped_lock lock(mutex);
    snapshot.first_token = first_token;
    snapshot.inter_token = inter_token;
    ++snapshot.finished;
    snapshot.cancelled += reason == FinishReason::kCancelled;
    snapshot.failed += reason == FinishReason::kError;
    if (--snapshot.in_flight == 0) idle.notify_all();
  };
}

Status EngineService::Impl::start(model::Model& model, const text::Tokenizer& tokenizer) {
  const auto wake_engine = [this] {
    const std::scoped_lock lock(mutex);
    woken = true;
    notify();
  };
  if (options.cache) {
    options.cache->wake = wake_engine;
    CHIMERE_TRY(cache, PrefixCache::create(states, *options.cache));
  }
  options.engine.cache = cache.get();
  options.engine.wake = wake_engine;
  CHIMERE_TRY(engine, Engine::create(model, tokenizer, options.engine));
  thread = std::thread([this] { work(); });
  return {};
}

/// Passes new requests and cancellations to the engine; blocks while there is no work. False if the
/// thread must end.
bool EngineService::Impl::take_arrivals(bool busy) {
  if (busy && !input.load(std::memory_order_acquire)) return true;
  std::vector<Arrival> new_requests;
  std::vector<WarmUps> warm;
  std::vector<RequestId> gone;
  std::vector<ModelUse*> calls;
  bool all = false;
  {
    std::unique_lock lock(mutex);
    if (!busy) {
      wake.wait(lock, [this] {
        return !arrivals.empty() || !warmups.empty() || !uses.empty() || !cancelled.empty() ||
               woken || ended;
      });
      if (ended && arrivals.empty() && uses.empty() && engine->idle()) return false;
    }
    woken = false;
    input = false;
    new_requests.swap(arrivals);
    warm.swap(warmups);
    gone.swap(cancelled);
    calls.swap(uses);
    all = cancel_all;
  }
  snapshot_due = true;
  for (Arrival& a : new_requests) engine->add(a.id, std::move(a.request));
  for (WarmUps& w : warm) {
    // The engine runs the newest warm-up first.
    for (size_t i = w.prefixes.size(); i-- > 0;) {
      engine->warmup(w.owner, std::move(w.prefixes[i]), w.shared_cache, w.adapters, w.speculation);
    }
  }
  for (const RequestId id : gone) engine->cancel(id);
  if (all) engine->cancel_all();
  if (!calls.empty()) run_uses(calls);
  return true;
}

void EngineService::Impl::run_uses(std::span<ModelUse* const> calls) {
  engine->settle();
  for (ModelUse* call : calls) {
    Status result = (*call->use)();
    while (!result.ok() && result.error().code == Error::Code::kOutOfMemory &&
           engine->release_cached()) {
      result = (*call->use)();
    }
    const std::scoped_lock lock(mutex);
    call->result = std::move(result);
  }
  used.notify_all();
}

/// Updates the statistics that other threads read, if requests have begun or ended, if the engine
/// has become idle, or after kSnapshotInterval.
void EngineService::Impl::update_snapshot(bool idle_engine) {
  const Clock::time_point now = Clock::now();
  if (!snapshot_due && !idle_engine && now - snapshot_time < kSnapshotInterval) return;
  snapshot_due = false;
  snapshot_time = now;
  const EngineCounters counters = engine->counters();
  const std::scoped_lock lock(mutex);
  snapshot.engine = counters;
  snapshot.first_token = first_token;
  snapshot.inter_token = inter_token;
  if (cache != nullptr) snapshot.cache = cache->stats();
  snapshot.kv_bytes = states.pages_in_use() * states.page_stride();
  snapshot.slot_bytes = recurrent_bytes(states.slots_in_use(), states.pending_rows_in_use());
  snapshot.resident_bytes = states.resident_bytes();
}

void EngineService::Impl::work() {
  bool busy = true;
  while (take_arrivals(busy)) {
    busy = engine->step();
    update_snapshot(!busy);
  }
  if (cache != nullptr) cache->save_all(Clock::now() + kLongestSave);
}

EngineService::EngineService(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

EngineService::~EngineService() { stop(); }

Result<std::unique_ptr<EngineService>> EngineService::create(model::Model& model,
                                                             const text::Tokenizer& tokenizer,
                                                             const ServiceOptions& options) {
  if (options.max_queue < 0) {
    return invalid_argument("A queue of " + std::to_string(options.max_queue) +
                            " requests is not possible; use 0 or more (--max-queue).");
  }
  auto impl = std::make_unique<Impl>(model, options);
  CHIMERE_CHECK_OK(impl->start(model, tokenizer));
  return std::unique_ptr<EngineService>(new EngineService(std::move(impl)));
}

Result<RequestId> EngineService::submit(Request request) {
  return impl_->submit(std::move(request));
}

void EngineService::cancel(RequestId id) {
  const std::scoped_lock lock(impl_->mutex);
  impl_->cancelled.push_back(id);
  impl_->notify();
}

Status EngineService::use_model(const std::function<Status()>& use) {
  Impl::ModelUse call{&use, {}};
  std::unique_lock lock(impl_->mutex);
  if (impl_->closed) return Error{Error::Code::kCancelled, "The model is being unloaded."};
  impl_->uses.push_back(&call);
  impl_->notify();
  impl_->used.wait(lock, [&] { return call.result.has_value(); });
  return *std::move(call.result);
}

bool EngineService::has_prefix_cache() const { return impl_->cache != nullptr; }

void EngineService::warmup(const std::string& owner, std::vector<std::vector<int32_t>> prefixes,
                           std::optional<std::string> shared_cache, RequestAdapters adapters,
                           Speculation speculation) {
  if (impl_->cache == nullptr || prefixes.empty()) return;
  const std::scoped_lock lock(impl_->mutex);
  if (impl_->closed) return;
  impl_->warmups.push_back(
      {owner, std::move(prefixes), std::move(shared_cache), std::move(adapters), speculation});
  impl_->notify();
}

ServiceStats EngineService::stats() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->snapshot;
}

StateLimits EngineService::state_limits() const { return impl_->limits(); }

int64_t EngineService::context() const { return impl_->engine->context(); }

bool EngineService::drain(Clock::time_point deadline) {
  std::unique_lock lock(impl_->mutex);
  impl_->closed = true;
  const auto nothing_left = [&] { return impl_->snapshot.in_flight == 0; };
  if (impl_->idle.wait_until(lock, deadline, nothing_left)) return true;
  impl_->cancel_all = true;
  impl_->notify();
  impl_->idle.wait(lock, nothing_left);
  return false;
}

void EngineService::stop() {
  if (!impl_->thread.joinable()) return;
  {
    const std::scoped_lock lock(impl_->mutex);
    impl_->closed = true;
    impl_->cancel_all = true;
    impl_->ended = true;
    impl_->notify();
  }
  impl_->thread.join();
}

}  // namespace chimere::engine
