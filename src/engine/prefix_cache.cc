#include "engine/prefix_cache.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

namespace chimere::engine {
namespace {

// Reading a state from disk takes at least about as long as computing this many tokens.
constexpr int32_t kWorthLoading = 128;
// Per request: files may be damaged, and a loaded state may be evicted at once.
constexpr int kMaxLoads = 3;

std::function<void(const std::string&)> log_or_nothing(
    std::function<void(const std::string&)> log) {
  if (log) return log;
  return [](const std::string&) {};
}

}  // namespace

const char* cache_tier_name(CacheTier tier) {
  switch (tier) {
    case CacheTier::kRequest:
      return "request";
    case CacheTier::kDevice:
      return "device";
    case CacheTier::kMemory:
      return "memory";
    case CacheTier::kDisk:
      return "disk";
    case CacheTier::kNone:
      break;
  }
  return "none";
}

PrefixCache::PrefixCache(state::StateStore& store, PrefixCacheOptions options)
    : store_(store),
      index_(store.spec().page_tokens),
      device_(index_, options.device_states > 0 ? options.device_states
                                                : std::max<int64_t>(1, store.max_slots() / 2)),
      memory_(index_, background_, options.memory_bytes),
      disk_(index_, store, background_,
            {std::move(options.disk), std::move(options.weights), log_or_nothing(options.log)}),
      background_(std::move(options.wake)) {}

PrefixCache::~PrefixCache() { disk_.close(); }

Result<std::unique_ptr<PrefixCache>> PrefixCache::create(state::StateStore& store,
                                                         PrefixCacheOptions options) {
  const bool on_disk = options.disk.max_bytes > 0;
  if (on_disk && options.weights == nullptr) {
    return invalid_argument("A prefix cache on disk needs the hash of the model's weights.");
  }
  std::unique_ptr<PrefixCache> cache(new PrefixCache(store, std::move(options)));
  if (on_disk) cache->disk_.open();
  return cache;
}

/// Whether the prompt waits for a listing of the folder: the known states of all tiers cover too
/// little of it, and files of other processes might cover more.
bool PrefixCache::wants_listing(std::span<PrefixNode* const> path, std::span<const int32_t> prompt,
                                std::span<const int64_t> chunk_ends, Search& search) {
  if (!disk_.usable()) return false;
  if (search.listing > 0) return !disk_.listed(search.listing);
  const auto usable = std::ranges::upper_bound(chunk_ends, static_cast<int64_t>(prompt.size()) - 1);
  const int64_t best = usable == chunk_ends.begin() ? 0 : *std::prev(usable);
  int64_t known = 0;
  for (const PrefixNode* n : path) {
    if (has_state(n->state) && std::ranges::binary_search(chunk_ends, int64_t{n->position}))
      known = n->position;
  }
  if (best - known <= kWorthLoading) return false;
  search.listing = disk_.list();
  return true;
}

bool PrefixCache::has(const std::string& scope, std::span<const int32_t> tokens) {
  const PrefixNode* node = index_.find(scope, tokens);
  return node != nullptr && has_state(node->state);
}

void PrefixCache::count(CacheTier tier, int64_t tokens) {
  ++hits_[static_cast<size_t>(tier)];
  tokens_[static_cast<size_t>(tier)] += static_cast<uint64_t>(tokens);
}

PrefixCacheStats PrefixCache::stats() const {
  PrefixCacheStats out;
  std::ranges::copy(hits_, out.hits);
  std::ranges::copy(tokens_, out.tokens);
  out.device_states = device_.states();
  out.memory_bytes = memory_.bytes();
  out.disk_bytes = disk_.bytes();
  out.disk_files = disk_.files();
  out.dropped = device_.lost() + memory_.lost() + disk_.lost();
  out.rejected_files = disk_.rejected_files();
  out.failed_writes = disk_.failed_writes();
  return out;
}

Result<state::Checkpoint> PrefixCache::assemble(const PrefixRecipe& recipe,
                                                std::span<const state::StateImage> images) {
  while (true) {
    auto state = store_.assemble(recipe.base.get(), images);
    if (state.ok() || state.error().code != Error::Code::kOutOfMemory || !evict()) return state;
  }
}

PrefixCache::Found PrefixCache::find(const std::string& scope, std::span<const int32_t> prompt,
                                     std::span<const int64_t> chunk_ends, Search* search) {
  if (prompt.empty()) return {};
  // The logits of the last token are needed, so at least one token must be computed.
  const std::vector<PrefixNode*> path = index_.path(scope, prompt.first(prompt.size() - 1));
  Found found;
  if (search != nullptr && wants_listing(path, prompt, chunk_ends, *search)) {
    found.loading = true;
    return found;
  }
  for (PrefixNode* n : path) ++n->state.pins;  // evictions must not erase them
  found = find_in(path, chunk_ends, search);
  for (PrefixNode* n : path) --n->state.pins;
  index_.touch(path);
  if (!path.empty()) index_.erase_unused(*path.back());
  return found;
}

PrefixCache::Found PrefixCache::find_in(std::span<PrefixNode* const> path,
                                        std::span<const int64_t> chunk_ends, Search* search) {
  const bool may_load = search != nullptr && search->loads < kMaxLoads;
  Found found;
  PrefixNode* on_disk = nullptr;  // longest candidate that must be read
  for (size_t i = path.size(); i-- > 0;) {
    PrefixNode& node = *path[i];
    if (!std::ranges::binary_search(chunk_ends, int64_t{node.position})) continue;
    if (on_disk != nullptr && on_disk->position - node.position > kWorthLoading) break;
    if (node.state.device != nullptr) {
      found.tier = CacheTier::kDevice;
      found.state = *node.state.device;
      found.context_rows = node.state.context_rows;
      return found;
    }
    const std::optional<PrefixRecipe> recipe = index_.recipe_for(node);
    if (!recipe) continue;
    if (!recipe->needs_disk) {
      if (from_memory(node, *recipe)) {
        found.tier = CacheTier::kMemory;
        found.state = *node.state.device;
        found.context_rows = node.state.context_rows;
        return found;
      }
    } else if (may_load && on_disk == nullptr) {
      on_disk = &node;
    }
  }
  if (on_disk == nullptr) return found;
  found.loading = true;
  if (!on_disk->state.loading) {
    ++search->loads;
    load(*on_disk, *index_.recipe_for(*on_disk));
  }
  return found;
}

bool PrefixCache::from_memory(PrefixNode& node, const PrefixRecipe& recipe) {
  std::vector<state::StateImage> images;
  for (const PrefixRecipe::Source& s : recipe.sources) images.push_back(*s.memory);
  auto state = assemble(recipe, images);
  if (!state) return false;
  device_.add(node, *std::move(state));
  return true;
}

void PrefixCache::load(PrefixNode& node, PrefixRecipe recipe) {
  ++node.state.pins;
  node.state.loading = true;
  const auto shared = std::make_shared<const PrefixRecipe>(std::move(recipe));
  disk_.read(shared, [this, &node, shared](const Result<std::vector<state::StateImage>>& images) {
    loaded(node, *shared, images);
  });
}

void PrefixCache::loaded(PrefixNode& node, const PrefixRecipe& recipe,
                         const Result<std::vector<state::StateImage>>& images) {
  node.state.loading = false;
  if (images.ok() && node.state.device == nullptr) {
    auto state = assemble(recipe, *images);
    if (state) {
      device_.add(node, *std::move(state));
    } else if (state.error().code == Error::Code::kInvalidData) {
      disk_.reject(recipe, state.error());
    }
  }
  --node.state.pins;
  index_.erase_unused(node);
  trim_device();
}

void PrefixCache::keep(const std::string& scope, std::span<const int32_t> tokens,
                       const state::Checkpoint& state, std::span<const int64_t> points,
                       std::shared_ptr<const state::Checkpoint> context_rows) {
  if (tokens.empty()) return;
  PrefixNode& node = index_.insert(scope, tokens);
  if (node.state.device == nullptr) device_.add(node, state);
  const int32_t known = node.state.context_rows ? node.state.context_rows->position() : 0;
  if (context_rows != nullptr && context_rows->position() > known) {
    node.state.context_rows = std::move(context_rows);
  }
  disk_.mark_unsaved(node);
  const std::vector<PrefixNode*> path = index_.path(scope, tokens);
  index_.touch(path);
  for (PrefixNode* spare : PrefixIndex::states_to_thin(path, points)) {
    device_.drop(*spare);
    memory_.keep_pages_alone(*spare);
    spare->state.context_rows.reset();
  }
  trim_device();
}

/// Moves a state out of the store. The copy is made in the background, unless it must be read from
/// GPU memory.
void PrefixCache::demote(PrefixNode& node) {
  const bool copied = memory_.enabled() && !node.state.usable_memory();
  if (copied && store_.memory().on_host()) {
    device_.begin_copy();
    return memory_.copy_in_background(node, [this, &node] {
      device_.copied(node);
      trim_memory();
    });
  }
  if (copied) memory_.copy(node);
  device_.drop(node);
  if (node.state.memory == nullptr) return index_.erase_unused(node);
  trim_memory();
}

bool PrefixCache::evict() {
  PrefixNode* node = device_.victim();
  if (node == nullptr) {
    // A state that is being copied leaves the store when the copy is complete.
    if (!device_.copying()) return false;
    background_.wait();
    background_.poll();
    return true;
  }
  if (memory_.enabled() && !node->state.usable_memory() && !node->state.on_disk) {
    memory_.copy(*node);
    ++node->state.pins;
    trim_memory();
    --node->state.pins;
  }
  device_.drop(*node);
  index_.erase_unused(*node);
  return true;
}

bool PrefixCache::evict_context_rows() {
  PrefixNode* node =
      index_.oldest([](const PrefixNode& n) { return n.state.context_rows != nullptr; });
  if (node == nullptr) return false;
  node->state.context_rows.reset();
  return true;
}

void PrefixCache::trim_device() {
  while (device_.over_limit()) {
    PrefixNode* node = device_.victim();
    if (node == nullptr) return;
    demote(*node);
  }
}

void PrefixCache::trim_memory() {
  while (memory_.over_limit()) {
    PrefixNode* node = memory_.victim();
    if (node == nullptr) return;
    disk_.write_if_unsaved(*node);
    memory_.drop(*node);
    index_.erase_unused(*node);
  }
}

}  // namespace chimere::engine
