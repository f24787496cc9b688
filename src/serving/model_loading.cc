// The thread of a ModelRegistry.
#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "base/byte_amount.h"
#include "serving/model_registry_core.h"

namespace chimere::serving {

void ModelRegistry::Core::run() {
  Lock lock(mutex);
  while (!stopping) {
    if (work(lock)) continue;
    std::optional<Clock::time_point> next;
    for (const EntryPtr& entry : entries) {
      if (entry->resident == nullptr || entry->leases > 0) continue;
      const auto at = expiry(*entry);
      if (at && (!next || *at < *next)) next = at;
    }
    if (next) {
      changed.wait_until(lock, *next);
    } else {
      changed.wait(lock);
    }
  }
}

bool ModelRegistry::Core::work(Lock& lock) {
  for (const EntryPtr& entry : retired) {
    if (entry->leases > 0 || entry->loading) continue;
    const EntryPtr gone = entry;
    destroy(gone, "replaced", lock);
    std::erase(retired, gone);
    return true;
  }
  const auto now = Clock::now();
  for (const EntryPtr& entry : entries) {
    if (entry->resident == nullptr || entry->leases > 0) continue;
    const auto at = expiry(*entry);
    if (!at || *at > now) continue;
    destroy(EntryPtr(entry), "unused", lock);
    return true;
  }

  Calls calls;
  std::vector<EntryPtr> chosen;
  while (!load_queue.empty()) {
    const EntryPtr entry = load_queue.front();
    if (entry->waiters.empty() || entry->retired) {
      load_queue.pop_front();
      continue;
    }
    if (entry->resident != nullptr) {  // it was to be evicted for a model no longer wanted
      entry->draining = false;
      grant(entry, calls);
      continue;
    }
    const int64_t needed = entry->source.about.memory_bytes;
    if (options.memory_bytes > 0 && needed > options.memory_bytes) {
      fail(*entry,
           {"model_unavailable",
            "The model '" + entry->source.about.id + "' takes up to " +
                human_bytes(static_cast<double>(needed)) + ", and this server's models may take " +
                human_bytes(static_cast<double>(options.memory_bytes)) + " together.",
            "model"},
           calls);
      continue;
    }
    chosen = victims(entry);
    if (chosen.empty()) {
      if (!entry->no_memory) {
        resume_all_but({}, calls);
        load_queue.pop_front();
        make(calls, lock);
        load(entry, lock);
        return true;
      }
      fail(*entry,
           {"model_unavailable",
            "The memory does not suffice for the model '" + entry->source.about.id + "'.", "model"},
           calls);
      entry->no_memory = false;
      continue;
    }
    for (const EntryPtr& victim : chosen) {
      if (victim->leases > 0) continue;
      entry->no_memory = false;
      make(calls, lock);
      if (victim->resident != nullptr && victim->leases == 0 && !stopping) {
        destroy(victim, "memory", lock);
      }
      return true;
    }
    for (const EntryPtr& victim : chosen) victim->draining = true;
    break;
  }
  resume_all_but(chosen, calls);
  const bool any = !calls.empty();
  make(calls, lock);
  return any;
}

std::vector<ModelRegistry::Core::EntryPtr> ModelRegistry::Core::victims(
    const EntryPtr& for_entry) const {
  int64_t missing = options.memory_bytes > 0
                        ? used_bytes() + for_entry->source.about.memory_bytes - options.memory_bytes
                        : 0;
  if (for_entry->no_memory) missing = std::max<int64_t>(missing, 1);
  if (missing <= 0) return {};
  std::vector<EntryPtr> candidates;
  for (const auto* all : {&entries, &retired}) {
    for (const EntryPtr& entry : *all) {
      if (entry->resident != nullptr) candidates.push_back(entry);
    }
  }
  std::ranges::stable_sort(candidates, {}, [](const EntryPtr& entry) {
    return std::tuple(entry->leases > 0, !entry->draining, entry->last_request);
  });
  std::vector<EntryPtr> out;
  for (const EntryPtr& entry : candidates) {
    if (missing <= 0) break;
    missing -= entry->bytes;
    out.push_back(entry);
  }
  return out;
}

void ModelRegistry::Core::resume_all_but(const std::vector<EntryPtr>& chosen, Calls& calls) {
  for (const EntryPtr& entry : entries) {
    if (!entry->draining || std::ranges::find(chosen, entry) != chosen.end()) continue;
    entry->draining = false;
    if (entry->resident != nullptr) grant(entry, calls);
  }
}

void ModelRegistry::Core::load(const EntryPtr& entry, Lock& lock) {
  Calls calls;
  entry->loading = true;
  entry->progress = 0;
  entry->bytes = entry->source.about.memory_bytes;
  const ModelSource source = entry->source;
  lock.unlock();
  const auto began = Clock::now();
  auto loaded = source.load([entry](double progress) { entry->progress = progress; });
  const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
  if (loaded.ok()) {
    log("model_loaded", source.about, seconds, "");
  } else {
    log("model_failed", source.about, seconds, loaded.error().message);
  }
  lock.lock();
  entry->loading = false;
  if (loaded.ok()) {
    const int64_t others = used_bytes() - entry->bytes;
    entry->bytes = entry->source.about.memory_bytes = (*loaded)->bytes();
    if (options.memory_bytes > 0 && others + entry->bytes > options.memory_bytes && others > 0) {
      // It takes more than was expected: once more, when there is room for it.
      lock.unlock();
      loaded->reset();
      lock.lock();
      entry->bytes = 0;
      load_queue.push_front(entry);
      return;
    }
    entry->resident = *std::move(loaded);
    entry->last_use = Clock::now();
    entry->last_request = next_request++;
    ++entry->loads;
    entry->load_seconds += seconds;
    if (entry->ready()) grant(entry, calls);
    return make(calls, lock);
  }
  entry->bytes = 0;
  ++entry->failures;
  if (loaded.error().code == Error::Code::kOutOfMemory && !entry->retired) {
    entry->no_memory = true;  // once more, without another model
    load_queue.push_front(entry);
    return;
  }
  // The reason may name files of the server; it is in the log.
  fail(*entry,
       {"model_unavailable",
        "The model '" + entry->source.about.id +
            "' cannot be loaded; the server's log has the reason.",
        "model"},
       calls);
  make(calls, lock);
}

void ModelRegistry::Core::destroy(const EntryPtr& entry, const char* why, Lock& lock) {
  std::unique_ptr<ResidentModel> model = std::move(entry->resident);
  if (model == nullptr) return;
  const ModelDescription about = entry->source.about;
  entry->destroying = true;
  lock.unlock();
  const auto began = Clock::now();
  model.reset();
  log("model_evicted", about, std::chrono::duration<double>(Clock::now() - began).count(), why);
  lock.lock();
  entry->destroying = false;
  entry->draining = false;
  entry->bytes = 0;
  ++entry->evictions;
}

}  // namespace chimere::serving
