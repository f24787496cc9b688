// Moves states between the state store, RAM and the disk.
#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "engine/prefix_cache.h"
#include "engine/prefix_points.h"

namespace chimere::engine {
namespace {

// Delay before writing again after a failure, for example a full disk.
constexpr auto kPauseAfterFailure = std::chrono::seconds(60);

}  // namespace

void PrefixCache::set_device(Node& node, state::Checkpoint state) {
  node.state.device = std::make_shared<const state::Checkpoint>(std::move(state));
  ++stats_.device_states;
}

void PrefixCache::drop_device(Node& node) {
  if (node.state.device == nullptr) return;
  node.state.device.reset();
  --stats_.device_states;
  stats_.dropped += !node.state.usable_memory() && !node.state.on_disk;
}

void PrefixCache::set_memory(Node& node, std::shared_ptr<const state::StateImage> image) {
  if (node.state.memory != nullptr) stats_.memory_bytes -= node.state.memory->bytes();
  node.state.memory = std::move(image);
  if (node.state.memory != nullptr) stats_.memory_bytes += node.state.memory->bytes();
}

void PrefixCache::set_file(Node& node, std::string name, int32_t first_page, int64_t bytes) {
  forget_file(node);
  node.state.on_disk = true;
  node.state.unsaved = false;
  node.state.disk_name = std::move(name);
  node.state.disk_since = ++clock_;
  node.state.disk_first_page = first_page;
  node.state.disk_bytes = bytes;
  stats_.disk_bytes += bytes;
  ++stats_.disk_files;
}

/// Updates the node for a file that has been removed or is about to be.
void PrefixCache::forget_file(Node& node) {
  if (!node.state.on_disk) return;
  node.state.on_disk = false;
  node.state.use_unsaved = false;
  stats_.disk_bytes -= node.state.disk_bytes;
  --stats_.disk_files;
}

void PrefixCache::remove_file(Node& node) {
  if (!node.state.on_disk) return;
  forget_file(node);
  background_.post([path = folder_->path() + "/" + node.state.disk_name]() -> Background::Done {
    std::error_code gone;
    std::filesystem::remove(path, gone);
    return [] {};
  });
}

/// Removes files whose pages are in a shorter file that is missing.
void PrefixCache::remove_orphans() {
  std::vector<Node*> orphans;
  for (auto& [scope, tree] : trees_) {
    tree.for_each([&](Node& n) {
      if (n.state.on_disk && !recipe_for(n)) orphans.push_back(&n);
    });
  }
  for (Node* orphan : orphans) remove_file(*orphan);
  if (!orphans.empty()) erase_unused_leaves();
}

void PrefixCache::erase_unused_leaves() {
  std::vector<Node*> leaves;
  for (auto& [scope, tree] : trees_) {
    tree.for_each([&](Node& n) {
      if (n.children.empty() && !n.state.anywhere()) leaves.push_back(&n);
    });
  }
  for (Node* leaf : leaves) erase_if_unused(*leaf);
}

void PrefixCache::erase_if_unused(Node& node) {
  if (node.state.scope == nullptr) return;
  const auto tree = trees_.find(*node.state.scope);
  tree->second.erase_unused(node);
}

PrefixCache::Node* PrefixCache::oldest(const std::function<bool(Node&)>& passes) {
  Node* out = nullptr;
  for (auto& [scope, tree] : trees_) {
    tree.for_each([&](Node& n) {
      if ((out == nullptr || n.state.used < out->state.used) && passes(n)) out = &n;
    });
  }
  return out;
}

/// Limits a conversation to kMaxPrefixPoints states in the store and in RAM. States that are not at
/// `points` and not at branches are dropped first, starting with the most closely spaced ones.
void PrefixCache::thin(std::span<Node* const> path, std::span<const int64_t> points) {
  std::vector<Node*> held;
  for (Node* n : path) {
    if (n->state.device != nullptr || n->state.usable_memory()) held.push_back(n);
  }
  while (held.size() > kMaxPrefixPoints) {
    size_t best = 0;
    int32_t smallest = 0;
    for (size_t i = 0; i + 1 < held.size(); ++i) {
      const Node& n = *held[i];
      const bool wanted = std::ranges::binary_search(points, int64_t{n.position}) ||
                          n.children.size() > 1 || n.state.pins > 0;
      const int32_t gap = held[i + 1]->position - (i > 0 ? held[i - 1]->position : 0);
      if (!wanted && (smallest == 0 || gap < smallest)) {
        best = i;
        smallest = gap;
      }
    }
    if (smallest == 0) return;
    Node& victim = *held[best];
    drop_device(victim);
    if (victim.state.memory != nullptr) {
      // Longer prefixes may need its pages.
      auto pages = std::make_shared<state::StateImage>(*victim.state.memory);
      pages->slot = nullptr;
      set_memory(victim, std::move(pages));
    }
    held.erase(held.begin() + static_cast<std::ptrdiff_t>(best));
  }
}

/// The copies needed to keep the node's state in RAM: of itself and of its ancestors that are not
/// in RAM yet, so that each page is stored once.
std::vector<PrefixCache::Copy> PrefixCache::copies_for(Node& node) const {
  std::vector<Node*> chain;
  int32_t first_page = 0;
  for (Node* n = &node; n->parent != nullptr; n = n->parent) {
    if (n != &node && n->state.memory != nullptr) {
      first_page = n->position / static_cast<int32_t>(layout_.page_tokens);
      break;
    }
    if (n->state.device != nullptr) chain.push_back(n);
  }
  std::vector<Copy> copies;
  for (size_t i = chain.size(); i-- > 0;) {
    copies.push_back({chain[i], chain[i]->state.device, first_page});
    first_page = chain[i]->position / static_cast<int32_t>(layout_.page_tokens);
  }
  return copies;
}

void PrefixCache::set_copies(std::span<const Copy> copies) {
  for (const Copy& c : copies) {
    const state::StateImage image = c.from->image(c.first_page);
    if (image.slot == nullptr) return;  // device error
    set_memory(*c.node, std::make_shared<const state::StateImage>(image));
  }
}

/// Moves a state out of the store. The copy is made in the background, unless it must be read from
/// GPU memory.
void PrefixCache::demote(Node& node) {
  const bool copied = options_.memory_bytes > 0 && !node.state.usable_memory();
  if (!copied || !store_.memory().on_host()) {
    if (copied) set_copies(copies_for(node));
    drop_device(node);
    if (node.state.memory == nullptr) return erase_if_unused(node);
    return trim_memory();
  }
  auto copies = std::make_shared<std::vector<Copy>>(copies_for(node));
  for (const Copy& c : *copies) ++c.node->state.pins;
  ++demoting_;
  background_.post([this, &node, copies] {
    auto images = std::make_shared<std::vector<std::shared_ptr<const state::StateImage>>>();
    for (const Copy& c : *copies) {
      images->push_back(std::make_shared<const state::StateImage>(c.from->image(c.first_page)));
    }
    return [this, &node, copies, images] {
      --demoting_;
      for (size_t i = 0; i < copies->size(); ++i) {
        Node& n = *(*copies)[i].node;
        --n.state.pins;
        set_memory(n, (*images)[i]);
      }
      copies->clear();
      drop_device(node);
      trim_memory();
    };
  });
}

bool PrefixCache::evict() {
  Node* node = oldest([](const Node& n) { return n.state.device != nullptr && n.state.pins == 0; });
  if (node == nullptr) {
    // A state that is being copied leaves the store when the copy is complete.
    if (demoting_ == 0) return false;
    background_.wait();
    background_.poll();
    return true;
  }
  if (options_.memory_bytes > 0 && !node->state.usable_memory() && !node->state.on_disk) {
    set_copies(copies_for(*node));
    ++node->state.pins;
    trim_memory();
    --node->state.pins;
  }
  drop_device(*node);
  erase_if_unused(*node);
  return true;
}

void PrefixCache::trim_device() {
  while (stats_.device_states - demoting_ > options_.device_states) {
    Node* node =
        oldest([](const Node& n) { return n.state.device != nullptr && n.state.pins == 0; });
    if (node == nullptr) return;
    demote(*node);
  }
}

void PrefixCache::trim_memory() {
  while (stats_.memory_bytes > options_.memory_bytes) {
    // Longer ones first: they need the pages of shorter ones.
    Node* node = oldest([](Node& n) {
      bool lends = false;
      state::PrefixTree::for_each_below(n, [&](Node& b) { lends |= b.state.memory != nullptr; });
      return n.state.memory != nullptr && n.state.pins == 0 && !lends;
    });
    if (node == nullptr) return;
    if (node->state.unsaved && can_write(*node)) write(*node);
    const bool last = node->state.device == nullptr && !node->state.on_disk;
    stats_.dropped += last && node->state.usable_memory() && node->state.pins == 0;
    set_memory(*node, nullptr);
    erase_if_unused(*node);
  }
}

/// Returns and clears the uses of files that are not recorded in the folder yet, oldest first.
std::vector<state::PrefixFolder::Use> PrefixCache::unsaved_uses() {
  std::vector<Node*> used;
  for (auto& [scope, tree] : trees_) {
    tree.for_each([&](Node& n) {
      if (n.state.on_disk && n.state.use_unsaved) used.push_back(&n);
    });
  }
  std::ranges::sort(used, {}, [](const Node* n) { return n->state.used; });
  std::vector<state::PrefixFolder::Use> out;
  for (Node* n : used) {
    n->state.use_unsaved = false;
    out.push_back({n->state.disk_name, n->state.used_at});
  }
  return out;
}

/// Applies the result of PrefixFolder::trim(). `asked`: value of clock_ when the job was posted;
/// files added later may be missing from `content`.
void PrefixCache::trimmed(const state::PrefixFolder::Content& content, uint64_t asked) {
  bool any = false;
  for (auto& [scope, tree] : trees_) {
    tree.for_each([&](Node& n) {
      if (!n.state.on_disk || n.state.disk_since > asked) return;
      if (content.names.contains(n.state.disk_name)) return;
      stats_.dropped += n.state.device == nullptr && !n.state.usable_memory();
      forget_file(n);
      any = true;
    });
  }
  if (!any) return;
  remove_orphans();
  erase_unused_leaves();
}

/// Whether the node's pages can be written: a file contains the pages after those of the nearest
/// shorter file.
bool PrefixCache::can_write(const Node& node) const {
  if (folder_ == nullptr || node.state.pins > 0) return false;
  if (node.state.device != nullptr) return true;
  if (!node.state.usable_memory()) return false;
  int32_t first_page = node.state.memory->first_page;
  for (const Node* n = node.parent; n != nullptr && first_page > 0; n = n->parent) {
    if (n->state.on_disk) return n->position / layout_.page_tokens >= first_page;
  }
  return first_page == 0;
}

void PrefixCache::write(Node& node) {
  int32_t first_page = 0;
  std::vector<std::string> names;  // of the file and of the shorter files that it depends on
  const auto name = std::make_shared<const state::PrefixName>(
      state::PrefixName{*node.state.scope, state::PrefixTree::tokens_of(node)});
  names.push_back(name->file_name());
  for (const Node* n = node.parent; n != nullptr; n = n->parent) {
    if (!n->state.on_disk) continue;
    if (names.size() == 1) first_page = n->position / static_cast<int32_t>(layout_.page_tokens);
    names.push_back(n->state.disk_name);
  }
  ++node.state.pins;
  node.state.unsaved = false;
  std::shared_ptr<const state::Checkpoint> device = node.state.device;
  std::shared_ptr<const state::StateImage> memory = node.state.memory;
  if (device != nullptr && !store_.memory().on_host()) {
    memory = std::make_shared<const state::StateImage>(device->image(first_page));
    device = nullptr;
  }
  background_.post([this, &node, name, names, uses = unsaved_uses(), asked = clock_, first_page,
                    device, memory, folder = folder_, layout = layout_] {
    const state::StateImage image = device != nullptr ? device->image(first_page) : *memory;
    folder->note_uses(uses);  // also if the write fails: their marks are cleared
    const auto bytes = state::write_prefix_file(folder->path(), *name, image, layout);
    Result<state::PrefixFolder::Content> content = state::PrefixFolder::Content();
    if (bytes.ok()) {
      folder->touch(names);  // shortest last: the longer ones depend on it
      content = folder->trim();
    }
    return [this, &node, file = names.front(), asked, device, stored_from = image.first_page, bytes,
            content = std::move(content)] {
      if (bytes.ok()) {
        if (!content.ok() || content->names.contains(file))
          set_file(node, file, stored_from, *bytes);
        if (content.ok()) {
          trimmed(*content, asked);
        } else {
          log(content.error().message + " Its limits are not enforced.");
        }
      } else {
        ++stats_.failed_writes;
        log(bytes.error().message + " The prefix cache continues without it.");
        node.state.unsaved = true;
        no_writes_before_ = std::chrono::steady_clock::now() + kPauseAfterFailure;
      }
      --node.state.pins;
      erase_if_unused(node);
    };
  });
}

bool PrefixCache::any_unsaved() {
  return oldest([](const Node& n) {
           return n.state.unsaved && (n.state.device != nullptr || n.state.usable_memory());
         }) != nullptr;
}

bool PrefixCache::save_one() {
  if (opening_) return any_unsaved();
  if (folder_ == nullptr || std::chrono::steady_clock::now() < no_writes_before_) return false;
  if (working()) return true;
  Node* next = nullptr;
  // Shorter ones first: files of longer ones omit the pages of shorter ones.
  for (auto& [scope, tree] : trees_) {
    tree.for_each([&](Node& n) {
      if (next == nullptr && n.state.unsaved && can_write(n)) next = &n;
    });
  }
  if (next == nullptr) return false;
  write(*next);
  return true;
}

void PrefixCache::save_all(std::chrono::steady_clock::time_point deadline) {
  const auto in_time = [&] { return std::chrono::steady_clock::now() < deadline; };
  while (in_time() && save_one()) {
    background_.wait_until(deadline);
    background_.poll();
  }
  if (opening_) return;  // the job that waits for the hash has nothing to save
  if (auto uses = unsaved_uses(); !uses.empty()) {
    background_.post([folder = folder_, uses = std::move(uses)]() -> Background::Done {
      folder->note_uses(uses);
      return [] {};
    });
  }
  while (working() && in_time()) {
    background_.wait_until(deadline);
    background_.poll();
  }
}

}  // namespace chimere::engine
