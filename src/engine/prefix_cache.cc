#include "engine/prefix_cache.h"

#include <algorithm>
#include <utility>

namespace chimere::engine {
namespace {

// Reading a state from disk takes at least about as long as computing this many tokens.
constexpr int32_t kWorthLoading = 128;

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
    : store_(store), options_(std::move(options)), layout_(store), background_(options_.wake) {}

PrefixCache::~PrefixCache() = default;

Result<std::unique_ptr<PrefixCache>> PrefixCache::create(state::StateStore& store,
                                                         PrefixCacheOptions options) {
  if (options.device_states <= 0)
    options.device_states = std::max<int64_t>(1, store.max_slots() / 2);
  std::unique_ptr<PrefixCache> cache(new PrefixCache(store, std::move(options)));
  if (cache->options_.disk.max_bytes > 0) CHIMERE_CHECK_OK(cache->open_folder());
  return cache;
}

Status PrefixCache::open_folder() {
  const auto rejected = [this](const std::string& what) {
    ++stats_.rejected_files;
    log(what);
  };
  CHIMERE_TRY(const auto found,
              state::open_prefix_folder(options_.disk, layout_, rejected, folder_));
  for (const state::FoundPrefix& f : found) {
    const auto [tree, fresh] = trees_.try_emplace(f.info.name.scope);
    Node& node = tree->second.insert(f.info.name.tokens);
    node.state.scope = &tree->first;
    node.state.on_disk = true;
    node.state.disk_first_page = f.info.first_page;
    node.state.disk_bytes = f.info.file_bytes;
    node.state.used = ++clock_;  // oldest first
    node.state.used_at = f.used_at;
    stats_.disk_bytes += f.info.file_bytes;
    ++stats_.disk_files;
  }
  // Files whose pages are in a shorter file that is missing.
  std::vector<Node*> orphans;
  for (auto& [scope, tree] : trees_) {
    tree.for_each([&](Node& n) {
      if (n.state.on_disk && !recipe_for(n)) orphans.push_back(&n);
    });
  }
  for (Node* orphan : orphans) remove_file(*orphan);
  for (Node* orphan : orphans) erase_if_unused(*orphan);  // parents come before their children
  trim_disk();
  return {};
}

bool PrefixCache::has(const std::string& scope, std::span<const int32_t> tokens) {
  const auto tree = trees_.find(scope);
  if (tree == trees_.end()) return false;
  const std::vector<Node*> path = tree->second.path(tokens);
  if (path.empty() || path.back()->position != static_cast<int32_t>(tokens.size())) return false;
  const state::CachedState& s = path.back()->state;
  return s.device != nullptr || s.usable_memory() || s.on_disk;
}

void PrefixCache::count(CacheTier tier, int64_t tokens) {
  ++stats_.hits[static_cast<size_t>(tier)];
  stats_.tokens[static_cast<size_t>(tier)] += static_cast<uint64_t>(tokens);
}

/// Shorter prefixes count as used more recently: they serve more prompts.
void PrefixCache::touch(std::span<Node* const> path) {
  const int64_t now = state::unix_seconds();
  for (size_t i = path.size(); i-- > 0;) {
    path[i]->state.used = ++clock_;
    path[i]->state.used_at = now;
  }
}

std::optional<PrefixCache::Recipe> PrefixCache::recipe_for(Node& node) const {
  Recipe recipe;
  const auto take_memory = [&](const Node& n) {
    recipe.sources.push_back({n.state.memory, {}});
    return n.state.memory->first_page;
  };
  const auto take_file = [&](const Node& n) {
    recipe.sources.push_back({nullptr, {*n.state.scope, state::PrefixTree::tokens_of(n)}});
    recipe.needs_disk = true;
    return n.state.disk_first_page;
  };
  int32_t need = 0;  // pages before this one are missing
  if (node.state.usable_memory()) {
    need = take_memory(node);
  } else if (node.state.on_disk) {
    need = take_file(node);
  } else {
    return std::nullopt;
  }
  for (const Node* n = node.parent; need > 0; n = n->parent) {
    if (n == nullptr) return std::nullopt;
    if (n->position / layout_.page_tokens < need)
      return std::nullopt;  // the remaining nodes are shorter
    const state::CachedState& s = n->state;
    if (s.device != nullptr) {
      recipe.base = s.device;
      need = 0;
    } else if (s.memory != nullptr && s.memory->first_page < need) {
      need = take_memory(*n);
    } else if (s.on_disk && s.disk_first_page < need) {
      need = take_file(*n);
    }
  }
  std::ranges::reverse(recipe.sources);
  return recipe;
}

std::optional<state::Checkpoint> PrefixCache::assemble(const Recipe& recipe,
                                                       std::span<const state::StateImage> images) {
  while (true) {
    auto state = store_.assemble(recipe.base.get(), images);
    if (state.ok()) return std::move(state).value();
    if (state.error().code != Error::Code::kOutOfMemory || !evict()) return std::nullopt;
  }
}

PrefixCache::Found PrefixCache::find(const std::string& scope, std::span<const int32_t> prompt,
                                     std::span<const int64_t> chunk_ends, bool may_load) {
  const auto tree = trees_.find(scope);
  if (tree == trees_.end() || prompt.empty()) return {};
  // The logits of the last token are needed, so at least one token must be computed.
  const std::vector<Node*> path = tree->second.path(prompt.first(prompt.size() - 1));
  for (Node* n : path) ++n->state.pins;  // evictions must not erase them
  Found found = find_in(path, chunk_ends, may_load);
  for (Node* n : path) --n->state.pins;
  touch(path);
  if (!path.empty()) tree->second.erase_unused(*path.back());
  return found;
}

PrefixCache::Found PrefixCache::find_in(std::span<Node* const> path,
                                        std::span<const int64_t> chunk_ends, bool may_load) {
  Found found;
  Node* on_disk = nullptr;  // longest candidate that must be read
  for (size_t i = path.size(); i-- > 0;) {
    Node& node = *path[i];
    if (!std::ranges::binary_search(chunk_ends, int64_t{node.position})) continue;
    if (on_disk != nullptr && on_disk->position - node.position > kWorthLoading) break;
    if (node.state.device != nullptr) {
      found.tier = CacheTier::kDevice;
      found.state = *node.state.device;
      return found;
    }
    const std::optional<Recipe> recipe = recipe_for(node);
    if (!recipe) continue;
    if (!recipe->needs_disk) {
      if (from_memory(node, *recipe)) {
        found.tier = CacheTier::kMemory;
        found.state = *node.state.device;
        return found;
      }
    } else if (may_load && on_disk == nullptr) {
      on_disk = &node;
    }
  }
  if (on_disk == nullptr) return found;
  found.loading = true;
  found.load_began = !on_disk->state.loading;
  if (found.load_began) load(*on_disk, *recipe_for(*on_disk));
  return found;
}

bool PrefixCache::from_memory(Node& node, const Recipe& recipe) {
  std::vector<state::StateImage> images;
  for (const Recipe::Source& s : recipe.sources) images.push_back(*s.memory);
  auto state = assemble(recipe, images);
  if (!state) return false;
  set_device(node, *std::move(state));
  return true;
}

void PrefixCache::load(Node& node, Recipe recipe) {
  ++node.state.pins;
  node.state.loading = true;
  auto shared = std::make_shared<const Recipe>(std::move(recipe));
  background_.post([this, &node, shared, folder = folder_, layout = layout_] {
    auto read = std::make_shared<Read>();
    for (const Recipe::Source& s : shared->sources) {
      if (s.memory != nullptr) {
        read->images.push_back(*s.memory);
        continue;
      }
      const bool own = &s == &shared->sources.back();
      auto image = state::read_prefix_file(folder, s.file, own, layout);
      if (!image.ok()) {
        read->error = image.error();
        break;
      }
      state::touch_prefix_file(folder + "/" + s.file.file_name());
      read->images.push_back(std::move(image).value());
    }
    read->failed = read->images.size();
    return [this, &node, shared, read] { loaded(node, *shared, *read); };
  });
}

void PrefixCache::loaded(Node& node, const Recipe& recipe, const Read& read) {
  node.state.loading = false;
  if (read.error) {
    ++stats_.rejected_files;
    log(read.error->message + " The file was removed.");
    reject_file(recipe.sources[read.failed].file);
  } else if (node.state.device == nullptr) {
    auto state = assemble(recipe, read.images);
    if (state) set_device(node, *std::move(state));
  }
  --node.state.pins;
  erase_if_unused(node);
  trim_device();
}

/// Removes a file that cannot be read, and the files that depend on its pages.
void PrefixCache::reject_file(const state::PrefixName& name) {
  const auto tree = trees_.find(name.scope);
  if (tree == trees_.end()) return;
  const std::vector<Node*> path = tree->second.path(name.tokens);
  if (path.empty() || path.back()->position != static_cast<int32_t>(name.tokens.size())) return;
  Node& node = *path.back();
  remove_file(node);
  std::vector<Node*> below;
  state::PrefixTree::for_each_below(node, [&](Node& n) {
    if (n.state.on_disk && !recipe_for(n)) below.push_back(&n);
  });
  for (Node* n : below) remove_file(*n);
  if (below.empty()) erase_if_unused(node);
  for (Node* n : below) erase_if_unused(*n);  // and their parents
}

void PrefixCache::keep(const std::string& scope, std::span<const int32_t> tokens,
                       const state::Checkpoint& state, std::span<const int64_t> points) {
  if (tokens.empty()) return;
  const auto [tree, fresh] = trees_.try_emplace(scope);
  Node& node = tree->second.insert(tokens);
  node.state.scope = &tree->first;
  if (node.state.device == nullptr) set_device(node, state);
  node.state.unsaved = !folder_.empty() && !node.state.on_disk;
  const std::vector<Node*> path = tree->second.path(tokens);
  touch(path);
  thin(path, points);
  trim_device();
}

}  // namespace chimere::engine
