#include "engine/prefix_cache.h"

#include <algorithm>
#include <utility>

namespace chimere::engine {
namespace {

// Reading a state from disk takes at least about as long as computing this many tokens.
constexpr int32_t kWorthLoading = 128;
// Per request: files may be damaged, and a loaded state may be evicted at once.
constexpr int kMaxLoads = 3;

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
    : store_(store), options_(std::move(options)), layout_(store, {}), background_(options_.wake) {}

PrefixCache::~PrefixCache() {
  if (opening_) options_.weights->abandon();  // the background thread may be waiting for it
}

Result<std::unique_ptr<PrefixCache>> PrefixCache::create(state::StateStore& store,
                                                         PrefixCacheOptions options) {
  if (options.device_states <= 0)
    options.device_states = std::max<int64_t>(1, store.max_slots() / 2);
  std::unique_ptr<PrefixCache> cache(new PrefixCache(store, std::move(options)));
  if (cache->options_.disk.max_bytes <= 0) return cache;
  if (cache->options_.weights == nullptr) {
    return invalid_argument("A prefix cache on disk needs the hash of the model's weights.");
  }
  const Status usable = state::make_prefix_folder(cache->options_.disk.folder);
  if (!usable.ok()) {
    cache->options_.weights->abandon();
    cache->log("Prompts are kept in memory only. " + usable.error().message);
  } else {
    cache->open_when_hashed();
  }
  return cache;
}

Result<PrefixCache::Opened> PrefixCache::open_folder(const state::PrefixFolderOptions& options,
                                                     const state::ImageLayout& layout) {
  Opened out;
  CHIMERE_TRY(out.folder, state::PrefixFolder::open(options, layout));
  (void)out.folder->trim();  // repeated after each write
  out.found = out.folder->find_new();
  return out;
}

void PrefixCache::open_when_hashed() {
  using OpenResult = std::pair<Result<Opened>, state::ImageLayout>;
  auto open = [weights = options_.weights, disk = options_.disk, &store = store_] {
    const Result<state::Hash128> hash = weights->get();
    if (!hash.ok()) return OpenResult(Result<Opened>(hash.error()), state::ImageLayout(store, {}));
    const state::ImageLayout layout(store, *hash);
    return OpenResult(open_folder(disk, layout), layout);
  };
  opening_ = true;
  if (options_.weights->ready()) {
    OpenResult outcome = open();
    return opened(std::move(outcome.first), outcome.second);
  }
  background_.post(
      [this, open] {
        const auto outcome = std::make_shared<OpenResult>(open());
        return [this, outcome] { opened(std::move(outcome->first), outcome->second); };
      },
      Background::Lane::kQuick);
}

void PrefixCache::opened(Result<Opened> result, const state::ImageLayout& layout) {
  opening_ = false;
  if (!result.ok()) {
    if (result.error().code != Error::Code::kCancelled)
      log("Prompts are kept in memory only. " + result.error().message);
    return;
  }
  folder_ = std::move(result->folder);
  layout_ = layout;
  add_files(result->found);
  if (result->found.complete) remove_orphans();
}

void PrefixCache::add_files(const state::PrefixFolder::New& found) {
  for (const std::string& what : found.rejected) {
    ++stats_.rejected_files;
    log(what);
  }
  for (const state::FoundPrefix& f : found.files) {
    const auto [tree, fresh] = trees_.try_emplace(f.info.name.scope);
    Node& node = tree->second.insert(f.info.name.tokens);
    node.state.scope = &tree->first;
    if (node.state.on_disk) continue;
    if (!node.state.anywhere()) {  // files are sorted by use: this one is the most recent yet
      node.state.used = ++clock_;
      node.state.used_at = f.used_at;
    }
    set_file(node, f.info.name.file_name(), f.info.first_page, f.info.file_bytes);
  }
}

/// Lists the folder for files that other processes have written since the last listing. Returns the
/// value that listings_done_ reaches when the listing is complete.
uint64_t PrefixCache::list_folder() {
  const uint64_t number = ++listings_asked_;
  background_.post(
      [this, number, folder = folder_]() -> Background::Done {
        if (number <= listings_covered_) return [] {};  // an earlier job covered it
        listings_covered_ = listings_asked_;
        auto found = std::make_shared<state::PrefixFolder::New>(folder->find_new());
        return [this, found, done = listings_covered_] {
          listings_done_ = done;
          add_files(*found);
        };
      },
      Background::Lane::kQuick);
  return number;
}

/// Whether the prompt waits for a listing of the folder: the known states of all tiers cover too
/// little of it, and files of other processes might cover more.
bool PrefixCache::wants_listing(std::span<Node* const> path, std::span<const int32_t> prompt,
                                std::span<const int64_t> chunk_ends, Search& search) {
  if (folder_ == nullptr) return false;
  if (search.listing > 0) return listings_done_ < search.listing;
  const auto usable = std::ranges::upper_bound(chunk_ends, static_cast<int64_t>(prompt.size()) - 1);
  const int64_t best = usable == chunk_ends.begin() ? 0 : *std::prev(usable);
  int64_t known = 0;
  for (const Node* n : path) {
    const state::CachedState& s = n->state;
    const bool kept = s.device != nullptr || s.usable_memory() || s.on_disk;
    if (kept && std::ranges::binary_search(chunk_ends, int64_t{n->position})) known = n->position;
  }
  if (best - known <= kWorthLoading) return false;
  search.listing = list_folder();
  return true;
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
    path[i]->state.use_unsaved = path[i]->state.on_disk;
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

Result<state::Checkpoint> PrefixCache::assemble(const Recipe& recipe,
                                                std::span<const state::StateImage> images) {
  while (true) {
    auto state = store_.assemble(recipe.base.get(), images);
    if (state.ok() || state.error().code != Error::Code::kOutOfMemory || !evict()) return state;
  }
}

PrefixCache::Found PrefixCache::find(const std::string& scope, std::span<const int32_t> prompt,
                                     std::span<const int64_t> chunk_ends, Search* search) {
  if (prompt.empty()) return {};
  const auto tree = trees_.find(scope);
  std::vector<Node*> path;
  // The logits of the last token are needed, so at least one token must be computed.
  if (tree != trees_.end()) path = tree->second.path(prompt.first(prompt.size() - 1));
  Found found;
  if (search != nullptr && wants_listing(path, prompt, chunk_ends, *search)) {
    found.loading = true;
    return found;
  }
  for (Node* n : path) ++n->state.pins;  // evictions must not erase them
  found = find_in(path, chunk_ends, search);
  for (Node* n : path) --n->state.pins;
  touch(path);
  if (!path.empty()) tree->second.erase_unused(*path.back());
  return found;
}

PrefixCache::Found PrefixCache::find_in(std::span<Node* const> path,
                                        std::span<const int64_t> chunk_ends, Search* search) {
  const bool may_load = search != nullptr && search->loads < kMaxLoads;
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
  if (!on_disk->state.loading) {
    ++search->loads;
    load(*on_disk, *recipe_for(*on_disk));
  }
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
    std::vector<std::string> names;
    for (const Recipe::Source& s : shared->sources) {
      if (s.memory != nullptr) {
        read->images.push_back(*s.memory);
        continue;
      }
      const bool own = &s == &shared->sources.back();
      auto image = state::read_prefix_file(folder->path(), s.file, own, layout);
      if (!image.ok()) {
        read->error = image.error();
        break;
      }
      names.push_back(s.file.file_name());
      read->images.push_back(std::move(image).value());
    }
    read->failed = read->images.size();
    // Shorter ones last, hence most recently used: they serve more prompts.
    std::ranges::reverse(names);
    folder->touch(names);
    return [this, &node, shared, read] { loaded(node, *shared, *read); };
  });
}

void PrefixCache::loaded(Node& node, const Recipe& recipe, const Read& read) {
  node.state.loading = false;
  if (read.error) {
    const bool unusable = state::is_unusable(*read.error);
    // kNotFound is no damage: another process may have removed the file.
    if (read.error->code != Error::Code::kNotFound) {
      ++stats_.rejected_files;
      log(read.error->message + (unusable ? " The file was removed." : ""));
    }
    reject_file(recipe.sources[read.failed].file, unusable);
  } else if (node.state.device == nullptr) {
    auto state = assemble(recipe, read.images);
    if (state) {
      set_device(node, *std::move(state));
    } else if (state.error().code == Error::Code::kInvalidData) {
      // The files are intact but do not fit together. The state is written again when it has been
      // computed.
      ++stats_.rejected_files;
      log("A state of the prefix cache cannot be used: " + state.error().message + ".");
      reject_file(recipe.sources.back().file, false);
    }
  }
  --node.state.pins;
  erase_if_unused(node);
  trim_device();
}

/// Forgets a file that cannot be read, and the files that depend on its pages; with `remove` also
/// removes them from the disk.
void PrefixCache::reject_file(const state::PrefixName& name, bool remove) {
  const auto tree = trees_.find(name.scope);
  if (tree == trees_.end()) return;
  const std::vector<Node*> path = tree->second.path(name.tokens);
  if (path.empty() || path.back()->position != static_cast<int32_t>(name.tokens.size())) return;
  Node& node = *path.back();
  const auto reject = [&](Node& n) { remove ? remove_file(n) : forget_file(n); };
  reject(node);
  std::vector<Node*> below;
  state::PrefixTree::for_each_below(node, [&](Node& n) {
    if (n.state.on_disk && !recipe_for(n)) below.push_back(&n);
  });
  for (Node* n : below) reject(*n);
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
  // A file without the shorter file that it depends on must be written again.
  const bool on_disk = node.state.on_disk && recipe_for(node);
  node.state.unsaved = (folder_ != nullptr || opening_) && !on_disk;
  const std::vector<Node*> path = tree->second.path(tokens);
  touch(path);
  thin(path, points);
  trim_device();
}

}  // namespace chimere::engine
