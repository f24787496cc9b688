#include "serving/model_registry_core.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/byte_amount.h"

namespace chimere::serving {

using protocol::ApiError;

/// What the pointers of a lease share.
struct ModelRegistry::Core::Use {
  Use(std::shared_ptr<Core> of, EntryPtr used, bool by_request)
      : core(std::move(of)), entry(std::move(used)), request(by_request) {
    ++entry->leases;
    if (!request) return;
    ++entry->requests;
    entry->last_use = Clock::now();
    entry->last_request = core->next_request++;
  }
  ~Use() { core->release(*entry, request); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  const std::shared_ptr<Core> core;
  const EntryPtr entry;
  const bool request;
};

namespace {

constexpr std::string_view kLatest = ":latest";

/// What models of a kind do.
const char* what(ModelKind kind) {
  switch (kind) {
    case ModelKind::kEmbedding:
      return "computes embeddings";
    case ModelKind::kReranking:
      return "scores pairs of texts";
    default:
      return "generates text";
  }
}

ApiError stopping_error() { return {"stopping", "This server is stopping.", "", 5}; }

std::string bytes_text(int64_t bytes) { return human_bytes(static_cast<double>(bytes)); }

}  // namespace

bool ModelDescription::has_adapter(std::string_view name) const {
  return std::ranges::any_of(
      adapters, [&](const std::string& a) { return name == a || name == id + ":" + a; });
}

ModelRegistry::Core::EntryPtr ModelRegistry::Core::find(const std::string& name,
                                                        ModelKind kind) const {
  const auto named = [&](const std::string& wanted) -> EntryPtr {
    for (const EntryPtr& entry : entries) {
      const ModelDescription& about = entry->source.about;
      if (about.id == wanted || std::ranges::find(about.aliases, wanted) != about.aliases.end()) {
        return entry;
      }
      if (about.has_adapter(wanted)) return entry;
    }
    return nullptr;
  };
  if (name.empty()) {
    const auto first = std::ranges::find_if(
        entries, [&](const EntryPtr& entry) { return entry->source.about.kind == kind; });
    return first == entries.end() ? nullptr : *first;
  }
  EntryPtr found = named(name);
  if (found == nullptr && name.ends_with(kLatest)) {
    found = named(name.substr(0, name.size() - kLatest.size()));
  }
  return found;
}

ModelRegistry::Core::EntryPtr ModelRegistry::Core::wanted(const std::string& name,
                                                          ModelKind kind) const {
  EntryPtr found = find(name, kind);
  if (found != nullptr || options.strict_names || count(kind) != 1) return found;
  found = find("", kind);
  // Nothing stands in for an adapter or the orchestrator.
  const ModelDescription& about = found->source.about;
  const bool adapter = !about.adapters.empty() && name.starts_with(about.id + ":");
  return adapter || name == "odo" || name.starts_with("odo:") ? nullptr : found;
}

int64_t ModelRegistry::Core::count(ModelKind kind) const {
  return std::ranges::count_if(
      entries, [&](const EntryPtr& entry) { return entry->source.about.kind == kind; });
}

std::optional<ApiError> ModelRegistry::Core::check(const std::string& name, ModelKind kind) const {
  const EntryPtr found = wanted(name, kind);
  if (found != nullptr && found->source.about.kind == kind) return std::nullopt;
  return missing(name, kind);
}

ApiError ModelRegistry::Core::missing(const std::string& name, ModelKind kind) const {
  const EntryPtr found = find(name, kind);
  if (found == nullptr && !name.empty()) {
    constexpr size_t kListed = 8;
    std::string names;
    for (size_t i = 0; i < std::min(entries.size(), kListed); ++i) {
      const bool last = i + 1 == entries.size();
      names += (i == 0 ? "'" : last ? "' and '" : "', '") + entries[i]->source.about.id;
    }
    names += "'";
    if (entries.size() > kListed) names += " and more, which /v1/models lists";
    return ApiError{"model_not_found",
                    "This server has no model '" + name.substr(0, 200) + "'; it has " + names + ".",
                    "model"};
  }
  if (kind == ModelKind::kText) {
    return ApiError{"model_does_not_write",
                    name.empty() ? "This server has no model that generates text."
                                 : "The model '" + name + "' " + what(found->source.about.kind) +
                                       " and generates no text; use another.",
                    "model"};
  }
  const EntryPtr text = found != nullptr ? found : find("", ModelKind::kText);
  const std::string id = text == nullptr ? "" : text->source.about.id;
  const char* const does = text == nullptr ? "does something else" : what(text->source.about.kind);
  if (kind == ModelKind::kReranking) {
    return ApiError{
        "model_does_not_rank",
        "The model '" + id + "' " + does + "; it does not score pairs of texts. " +
            (count(kind) == 0 ? "Start the server with --rerank-model to serve a model that does."
                              : "Name one that does."),
        "model"};
  }
  return ApiError{
      "model_does_not_embed",
      "The model '" + id + "' " + does + "; it does not compute embeddings. " +
          (count(kind) == 0 ? "Start the server with --embedding-model to serve a model that does."
                            : "Name one that does."),
      "model"};
}

ModelLease ModelRegistry::Core::lease(const EntryPtr& entry, bool request) {
  const auto use = std::make_shared<Use>(shared_from_this(), entry, request);
  ModelLease out;
  if (const auto* text = entry->resident->text()) out.text = {use, text};
  if (const auto* embedder = entry->resident->embedder()) out.embedder = {use, embedder};
  return out;
}

void ModelRegistry::Core::release(Entry& entry, bool request) {
  const std::scoped_lock lock(mutex);
  --entry.leases;
  if (request) {
    --entry.requests;
    entry.last_use = Clock::now();
  }
  if (entry.leases == 0) changed.notify_all();
}

ModelStatus ModelRegistry::Core::status(const EntryPtr& entry) {
  using State = ModelStatus::State;
  ModelStatus out;
  out.about = entry->source.about;
  out.state = entry->loading                         ? State::kLoading
              : entry->destroying || entry->draining ? State::kEvicting
              : entry->resident != nullptr           ? State::kReady
                                                     : State::kAbsent;
  out.progress = entry->progress;
  out.bytes = entry->bytes;
  out.requests = entry->requests;
  out.waiting = static_cast<int64_t>(entry->waiters.size());
  out.loads = entry->loads;
  out.evictions = entry->evictions;
  out.failures = entry->failures;
  out.load_seconds = entry->load_seconds;
  if (entry->resident != nullptr) {
    if (const auto at = expiry(*entry); at && entry->requests == 0) {
      out.expires = std::chrono::system_clock::now() +
                    std::chrono::duration_cast<std::chrono::seconds>(*at - Clock::now());
    }
    out.loaded = lease(entry, false);
  }
  return out;
}

std::optional<ModelRegistry::Core::Clock::time_point> ModelRegistry::Core::expiry(
    const Entry& entry) const {
  std::chrono::seconds time = options.keep_alive;
  if (entry.source.about.keep_alive) {
    time = *entry.source.about.keep_alive;
  } else if (entry.preloaded) {
    time = std::chrono::seconds(-1);
  }
  if (entry.keep_alive) time = *entry.keep_alive;
  // Longer than a century would overflow the clock.
  constexpr std::chrono::hours kForever(24 * 36525);
  if (time.count() < 0 || time > kForever) return std::nullopt;
  return entry.last_use + time;
}

int64_t ModelRegistry::Core::used_bytes() const {
  int64_t sum = 0;
  for (const auto* all : {&entries, &retired}) {
    for (const EntryPtr& entry : *all) sum += entry->bytes;
  }
  return sum;
}

void ModelRegistry::Core::log(const char* event, const ModelDescription& model, double seconds,
                              const std::string& why) const {
  LogLine line(event);
  line.add("model", model.id).add("bytes", model.memory_bytes);
  if (seconds > 0) line.add_seconds("ms", seconds);
  if (!why.empty()) line.add("why", why);
  options.log(line);
}

void ModelRegistry::Core::make(Calls& calls, Lock& lock) {
  if (calls.empty()) return;
  lock.unlock();
  for (const auto& call : calls) call();
  calls.clear();
  lock.lock();
}

void ModelRegistry::Core::grant(const EntryPtr& entry, Calls& calls) {
  while (!entry->waiters.empty()) {
    Waiter waiter = std::move(entry->waiters.front());
    entry->waiters.pop_front();
    --waiting;
    calls.emplace_back([then = std::move(waiter.then), given = lease(entry, true)]() mutable {
      then(std::move(given), std::nullopt);
    });
  }
}

void ModelRegistry::Core::fail(Entry& entry, const ApiError& error, Calls& calls) {
  while (!entry.waiters.empty()) {
    Waiter waiter = std::move(entry.waiters.front());
    entry.waiters.pop_front();
    --waiting;
    calls.emplace_back([then = std::move(waiter.then), error] { then({}, error); });
  }
}

void ModelRegistry::Core::use(const std::string& name, ModelKind kind,
                              const std::shared_ptr<ResponseStream>& stream, Then then) {
  const uint64_t id = next_waiter++;
  Lock lock(mutex);
  const auto refuse = [&](const ApiError& error) {
    lock.unlock();
    then({}, error);
  };
  if (auto error = check(name, kind)) return refuse(*error);
  if (stopping) return refuse(stopping_error());
  EntryPtr entry = wanted(name, kind);
  if (!entry->ready()) {
    // Before the request waits: afterwards the stream may belong to the endpoint.
    lock.unlock();
    stream->on_stopped([weak = weak_from_this(), id] {
      if (const auto core = weak.lock()) core->cancel(id);
    });
    lock.lock();
    // Everything may have changed.
    if (auto error = check(name, kind)) return refuse(*error);
    if (stopping) return refuse(stopping_error());
    entry = wanted(name, kind);
  }
  if (entry->ready()) {
    ModelLease given = lease(entry, true);
    lock.unlock();
    return then(std::move(given), std::nullopt);
  }
  if (waiting >= options.max_waiting) {
    return refuse({"queue_full", "Too many requests wait for models to be loaded.", "", 5});
  }
  entry->waiters.push_back({id, std::move(then)});
  ++waiting;
  if (std::ranges::find(load_queue, entry) == load_queue.end()) load_queue.push_back(entry);
  changed.notify_all();
  lock.unlock();
  if (stream->stopped()) cancel(id);
}

void ModelRegistry::Core::cancel(uint64_t waiter) {
  Then then;
  {
    const std::scoped_lock lock(mutex);
    for (const EntryPtr& entry : entries) {
      const auto found = std::ranges::find(entry->waiters, waiter, &Waiter::id);
      if (found == entry->waiters.end()) continue;
      then = std::move(found->then);
      entry->waiters.erase(found);
      --waiting;
      changed.notify_all();
      break;
    }
  }
  if (then) then({}, ApiError{protocol::ErrorCode("cancelled", 499), "The client has gone.", ""});
}

void ModelRegistry::Core::reload(std::vector<ModelSource> sources) {
  Calls calls;
  Lock lock(mutex);
  std::vector<EntryPtr> next;
  for (ModelSource& source : sources) {
    const auto old = std::ranges::find_if(
        entries, [&](const EntryPtr& entry) { return entry->source.about.id == source.about.id; });
    if (old != entries.end() && (*old)->source.fingerprint == source.fingerprint) {
      (*old)->source = std::move(source);
      next.push_back(*old);
      continue;
    }
    const EntryPtr entry = std::make_shared<Entry>();
    entry->source = std::move(source);
    next.push_back(entry);
    if (old == entries.end()) continue;
    entry->preloaded = (*old)->preloaded;
    entry->waiters = std::exchange((*old)->waiters, {});
    if (!entry->waiters.empty()) load_queue.push_back(entry);
  }
  for (const EntryPtr& entry : entries) {
    if (std::ranges::find(next, entry) != next.end()) continue;
    fail(*entry,
         {"model_not_found",
          "This server no longer has the model '" + entry->source.about.id + "'.", "model"},
         calls);
    entry->retired = true;
    if (entry->bytes > 0) retired.push_back(entry);
  }
  entries = std::move(next);
  changed.notify_all();
  make(calls, lock);
}

Status ModelRegistry::Core::preload(const std::string& id, const ModelSource::Progress& progress) {
  Lock lock(mutex);
  const EntryPtr entry = find(id, ModelKind::kText);
  if (entry == nullptr) return not_found("There is no model '" + id + "'.");
  if (entry->resident != nullptr) return {};
  const int64_t needed = entry->source.about.memory_bytes;
  if (options.memory_bytes > 0 && used_bytes() + needed > options.memory_bytes) {
    return out_of_memory("The model '" + entry->source.about.id + "' takes up to " +
                         bytes_text(needed) + ", and the models before it leave " +
                         bytes_text(options.memory_bytes - used_bytes()) +
                         "; allow more (--models-memory), or give it less (--state-memory).");
  }
  entry->bytes = needed;
  const auto began = Clock::now();
  auto loaded = entry->source.load(progress ? progress : [](double) {});
  if (!loaded.ok()) {
    entry->bytes = 0;
    return loaded.error();
  }
  entry->resident = *std::move(loaded);
  entry->bytes = entry->source.about.memory_bytes = entry->resident->bytes();
  entry->preloaded = true;
  ++entry->loads;
  entry->load_seconds += std::chrono::duration<double>(Clock::now() - began).count();
  entry->last_use = Clock::now();
  entry->last_request = next_request++;
  return {};
}

void ModelRegistry::Core::drain(Clock::time_point deadline) {
  Calls calls;
  std::vector<ModelLease> leases;
  std::vector<ResidentModel*> models;
  {
    Lock lock(mutex);
    stopping = true;
    for (const auto* all : {&entries, &retired}) {
      for (const EntryPtr& entry : *all) {
        fail(*entry, stopping_error(), calls);
        if (entry->resident == nullptr) continue;
        leases.push_back(lease(entry, false));
        models.push_back(entry->resident.get());
      }
    }
    load_queue.clear();
    changed.notify_all();
    make(calls, lock);
  }
  for (ResidentModel* model : models) model->drain(deadline);
}

void ModelRegistry::Core::stop() {
  drain(Clock::now());
  if (thread.joinable()) thread.join();
  drain(Clock::now());  // a model whose load had begun
  std::vector<std::unique_ptr<ResidentModel>> models;
  {
    Lock lock(mutex);
    for (const auto* all : {&entries, &retired}) {
      for (const EntryPtr& entry : *all) {
        changed.wait(lock, [&] { return entry->leases == 0; });
        models.push_back(std::move(entry->resident));
      }
    }
  }
}

const char* state_name(ModelStatus::State state) {
  constexpr const char* kNames[] = {"absent", "loading", "ready", "evicting"};
  return kNames[static_cast<size_t>(state)];
}

ModelRegistry::ModelRegistry(RegistryOptions options)
    : core_(std::make_shared<Core>(std::move(options))) {
  core_->start();
}

ModelRegistry::~ModelRegistry() { stop(); }

void ModelRegistry::reload(std::vector<ModelSource> sources) { core_->reload(std::move(sources)); }

Status ModelRegistry::preload(const std::string& id, const ModelSource::Progress& progress) {
  return core_->preload(id, progress);
}

std::vector<ModelStatus> ModelRegistry::list() const {
  std::vector<ModelStatus> out;
  const std::unique_lock lock(core_->mutex);
  for (const auto& entry : core_->entries) out.push_back(core_->status(entry));
  return out;
}

std::optional<ModelStatus> ModelRegistry::find(const std::string& name, ModelKind kind) const {
  const std::unique_lock lock(core_->mutex);
  const auto entry = core_->find(name, kind);
  if (entry == nullptr) return std::nullopt;
  return core_->status(entry);
}

bool ModelRegistry::has_choice(ModelKind kind) const {
  const std::unique_lock lock(core_->mutex);
  const auto only = core_->find("", kind);
  return only != nullptr && (core_->count(kind) > 1 || !only->ready());
}

ApiError ModelRegistry::missing(const std::string& name, ModelKind kind) const {
  const std::unique_lock lock(core_->mutex);
  return core_->missing(name, kind);
}

std::optional<ApiError> ModelRegistry::check(const std::string& name, ModelKind kind) const {
  const std::unique_lock lock(core_->mutex);
  return core_->check(name, kind);
}

void ModelRegistry::use(const std::string& name, ModelKind kind,
                        const std::shared_ptr<ResponseStream>& stream, Then then) {
  core_->use(name, kind, stream, std::move(then));
}

void ModelRegistry::keep_alive(const std::string& id, std::optional<std::chrono::seconds> time) {
  const std::unique_lock lock(core_->mutex);
  for (const auto& entry : core_->entries) {
    if (entry->source.about.id == id) entry->keep_alive = time;
  }
  core_->changed.notify_all();
}

int64_t ModelRegistry::memory_limit() const { return core_->options.memory_bytes; }

void ModelRegistry::drain(std::chrono::steady_clock::time_point deadline) {
  core_->drain(deadline);
}

void ModelRegistry::stop() { core_->stop(); }

}  // namespace chimere::serving
