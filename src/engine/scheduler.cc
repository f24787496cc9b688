#include "engine/scheduler.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace chimere::engine {

Scheduler::Scheduler(state::StateStore& states, PrefixCache* cache, int32_t max_running,
                     std::function<bool()> release)
    : states_(states),
      cache_(cache),
      max_running_(static_cast<size_t>(max_running)),
      release_(std::move(release)),
      limit_(max_running_) {}

void Scheduler::add(std::unique_ptr<Generation> generation) {
  waiting_.push_back(std::move(generation));
  changed_ = true;
}

Generation* Scheduler::find(RequestId id) const {
  for (const List* list : {&running_, &waiting_}) {
    const auto found = std::ranges::find(*list, id, [](const auto& g) { return g->id(); });
    if (found != list->end()) return found->get();
  }
  return nullptr;
}

int64_t Scheduler::pages_for(int64_t tokens) const {
  if (states_.bytes_per_token() == 0) return 0;
  const int64_t page = states_.spec().page_tokens;
  return (tokens + page - 1) / page;
}

bool Scheduler::has_room_for(const Generation& candidate) const {
  int64_t free = states_.free_pages(kSlotsAlone);
  // What running requests still need for their prompts, plus one page each for their generations.
  for (const auto& g : running_) {
    free -=
        pages_for(g->prompt_size()) - pages_for(std::min(g->tokens_seen(), g->prompt_size())) + 1;
  }
  const int64_t shared = candidate.has_prefix() && states_.bytes_per_token() > 0
                             ? candidate.position() / states_.spec().page_tokens
                             : 0;
  return pages_for(std::max(candidate.prompt_size(), candidate.tokens_seen())) - shared + 1 <= free;
}

/// Index of the next request to admit, ignoring those in `skipped`: the oldest one of the owner
/// with the fewest running requests; waiting_.size() if there is none.
size_t Scheduler::next_waiting(const std::set<RequestId>& skipped) const {
  std::map<std::string_view, size_t> running;
  for (const auto& g : running_) ++running[g->owner()];
  size_t best = waiting_.size();
  size_t fewest = 0;
  for (size_t i = 0; i < waiting_.size(); ++i) {
    if (skipped.contains(waiting_[i]->id())) continue;
    const auto found = running.find(waiting_[i]->owner());
    const size_t n = found == running.end() ? 0 : found->second;
    if (best == waiting_.size() || n < fewest) {
      best = i;
      fewest = n;
    }
  }
  return best;
}

/// Attaches the longest cached prefix to the request. False while it is being read from disk.
bool Scheduler::look_up(Generation& candidate) {
  const Request& request = candidate.request();
  if (cache_ == nullptr || !request.use_cache || candidate.has_prefix() || candidate.suspended()) {
    return true;
  }
  PrefixCache::Found found = cache_->find(request.cache_scope(), request.prompt,
                                          candidate.chunk_ends(), &candidate.search);
  if (found.loading) return false;
  // A state that was read for this request is in the state store by now: count it as a disk hit.
  const bool was_read = candidate.search.loads > 0 && found.tier == CacheTier::kDevice;
  if (found.state) {
    candidate.resume_from(*std::move(found.state), was_read ? CacheTier::kDisk : found.tier,
                          std::move(found.context_rows));
  }
  return true;
}

bool Scheduler::evict() { return release_() || (cache_ != nullptr && cache_->evict()); }

bool Scheduler::make_room_for(const Generation& candidate) {
  while (!has_room_for(candidate)) {
    if (!evict()) return false;
  }
  return true;
}

bool Scheduler::may_admit() const {
  const bool room = !waiting_.empty() && running_.size() < std::min(limit_, max_running_);
  return room && (changed_ || (cache_ != nullptr && cache_->ready()));
}

void Scheduler::admit() {
  changed_ = false;
  if (waiting_.empty()) return;
  std::set<RequestId> loading;
  while (running_.size() < std::min(limit_, max_running_)) {
    const size_t index = next_waiting(loading);
    if (index == waiting_.size()) return;
    Generation& next = *waiting_[index];
    const auto remove = [&] { waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(index)); };
    if (!look_up(next)) {
      loading.insert(next.id());
      continue;
    }
    // A single request may use everything; if that is not enough, its step reports the error.
    if (!make_room_for(next) && !running_.empty()) {
      // A request that waits for memory must not hold any.
      if (next.has_prefix() && next.prefix_tier() != CacheTier::kRequest) next.drop_prefix();
      return;
    }
    const bool returns = next.suspended();
    const Status started = next.start(states_);
    if (!started.ok()) {
      const bool full = started.error().code == Error::Code::kOutOfMemory;
      if (full && evict()) continue;
      if (full && !running_.empty()) return;
      next.finish(FinishReason::kError, started.error());
      remove();
      continue;
    }
    if (cache_ != nullptr && !returns) cache_->count(next.prefix_tier(), next.position());
    running_.push_back(std::move(waiting_[index]));
    remove();
    std::ranges::sort(running_, {}, [](const auto& g) { return g->id(); });
  }
}

void Scheduler::suspend_youngest() {
  running_.back()->suspend();
  const auto place = std::ranges::find_if(
      waiting_, [&](const auto& g) { return g->id() > running_.back()->id(); });
  waiting_.insert(place, std::move(running_.back()));
  running_.pop_back();
  limit_ = running_.size();
  ++evictions_;
}

void Scheduler::drop_finished() {
  const auto finished = [](const auto& g) { return g->finished(); };
  const size_t dropped = std::erase_if(running_, finished) + std::erase_if(waiting_, finished);
  if (dropped == 0) return;
  limit_ = max_running_;
  changed_ = true;
}

}  // namespace chimere::engine
