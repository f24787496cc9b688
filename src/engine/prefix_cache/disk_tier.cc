#include "engine/prefix_cache/disk_tier.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

namespace chimere::engine {
namespace {

// Delay before writing again after a failure, for example a full disk.
constexpr auto kPauseAfterFailure = std::chrono::seconds(60);

/// The outcome of reading a recipe's sources.
struct ReadImages {
  DiskTier::Images images;
  std::optional<Error> error;
};

/// Reads the sources up to the first one that fails, and marks their files as used.
ReadImages read_sources(const PrefixRecipe& recipe, const state::PrefixFolder& folder,
                        const state::ImageLayout& layout) {
  ReadImages out;
  std::vector<std::string> names;
  for (const PrefixRecipe::Source& s : recipe.sources) {
    if (s.memory != nullptr) {
      out.images.push_back(*s.memory);
      continue;
    }
    const bool own = &s == &recipe.sources.back();
    auto image = state::read_prefix_file(folder.path(), s.file, own, layout);
    if (!image.ok()) {
      out.error = image.error();
      break;
    }
    names.push_back(s.file.file_name());
    out.images.push_back(std::move(image).value());
  }
  // Shorter ones last, hence most recently used: they serve more prompts.
  std::ranges::reverse(names);
  folder.touch(names);
  return out;
}

}  // namespace

struct DiskTier::Written {
  std::string file;
  int32_t first_page = 0;
  Result<int64_t> bytes;
  Result<state::PrefixFolder::Content> content;  ///< of the folder, if the write succeeded
  uint64_t asked = 0;                            ///< logical time when the job was posted
};

DiskTier::DiskTier(PrefixIndex& index, state::StateStore& store, Background& background,
                   DiskOptions options)
    : index_(index),
      store_(store),
      background_(background),
      log_(options.log),
      folder_(
          store, background, std::move(options),
          [this](const state::PrefixFolder::New& found, bool first) { add_files(found, first); }) {}

void DiskTier::add_files(const state::PrefixFolder::New& found, bool first) {
  for (const std::string& what : found.rejected) {
    ++rejected_files_;
    log_(what);
  }
  for (const state::FoundPrefix& f : found.files) {
    PrefixNode& node = index_.insert(f.info.name.scope, f.info.name.tokens);
    if (node.state.on_disk) continue;
    if (!node.state.anywhere()) {  // files are sorted by use: this one is the most recent yet
      node.state.used = index_.tick();
      node.state.used_at = f.used_at;
    }
    set_file(node, f.info.name.file_name(), f.info.first_page, f.info.file_bytes);
  }
  if (first && found.complete) remove_orphans();
}

void DiskTier::set_file(PrefixNode& node, std::string name, int32_t first_page, int64_t bytes) {
  forget_file(node);
  node.state.on_disk = true;
  node.state.unsaved = false;
  node.state.disk_name = std::move(name);
  node.state.disk_since = index_.tick();
  node.state.disk_first_page = first_page;
  node.state.disk_bytes = bytes;
  bytes_ += bytes;
  ++files_;
}

/// Updates the node for a file that has been removed or is about to be.
void DiskTier::forget_file(PrefixNode& node) {
  if (!node.state.on_disk) return;
  node.state.on_disk = false;
  node.state.use_unsaved = false;
  bytes_ -= node.state.disk_bytes;
  --files_;
}

void DiskTier::remove_file(PrefixNode& node) {
  if (!node.state.on_disk) return;
  forget_file(node);
  background_.post(
      [path = folder_.get()->path() + "/" + node.state.disk_name]() -> Background::Done {
        std::error_code gone;
        std::filesystem::remove(path, gone);
        return [] {};
      });
}

/// Removes files whose pages are in a shorter file that is missing.
void DiskTier::remove_orphans() {
  std::vector<PrefixNode*> orphans;
  index_.for_each([&](PrefixNode& n) {
    if (n.state.on_disk && !index_.recipe_for(n)) orphans.push_back(&n);
  });
  for (PrefixNode* orphan : orphans) remove_file(*orphan);
  if (!orphans.empty()) index_.erase_unused_leaves();
}

/// Forgets a file that cannot be read, and the files that depend on its pages; with `remove` also
/// removes them from the disk.
void DiskTier::reject_file(const state::PrefixName& name, bool remove) {
  PrefixNode* node = index_.find(name.scope, name.tokens);
  if (node == nullptr) return;
  const auto reject = [&](PrefixNode& n) { remove ? remove_file(n) : forget_file(n); };
  reject(*node);
  std::vector<PrefixNode*> below;
  state::PrefixTree::for_each_below(*node, [&](PrefixNode& n) {
    if (n.state.on_disk && !index_.recipe_for(n)) below.push_back(&n);
  });
  for (PrefixNode* n : below) reject(*n);
  if (below.empty()) index_.erase_unused(*node);
  for (PrefixNode* n : below) index_.erase_unused(*n);  // and their parents
}

void DiskTier::unreadable(const state::PrefixName& name, const Error& error) {
  const bool unusable = state::is_unusable(error);
  // kNotFound is no damage: another process may have removed the file.
  if (error.code != Error::Code::kNotFound) {
    ++rejected_files_;
    log_(error.message + (unusable ? " The file was removed." : ""));
  }
  reject_file(name, unusable);
}

void DiskTier::reject(const PrefixRecipe& recipe, const Error& error) {
  ++rejected_files_;
  log_("A state of the prefix cache cannot be used: " + error.message + ".");
  reject_file(recipe.sources.back().file, false);
}

void DiskTier::read(std::shared_ptr<const PrefixRecipe> recipe,
                    std::function<void(Result<Images>)> done) {
  background_.post([this, recipe = std::move(recipe), done = std::move(done),
                    folder = folder_.get(), layout = folder_.layout()] {
    auto out = std::make_shared<ReadImages>(read_sources(*recipe, *folder, layout));
    return [this, recipe, done, out] {
      if (!out->error) return done(std::move(out->images));
      unreadable(recipe->sources[out->images.size()].file, *out->error);
      done(*out->error);
    };
  });
}

void DiskTier::mark_unsaved(PrefixNode& node) {
  // A file without the shorter file that it depends on must be written again.
  const bool saved = node.state.on_disk && index_.recipe_for(node);
  node.state.unsaved = (usable() || folder_.opening()) && !saved;
}

/// Returns and clears the uses of files that are not recorded in the folder yet, oldest first.
std::vector<state::PrefixFolder::Use> DiskTier::unsaved_uses() {
  std::vector<PrefixNode*> used;
  index_.for_each([&](PrefixNode& n) {
    if (n.state.on_disk && n.state.use_unsaved) used.push_back(&n);
  });
  std::ranges::sort(used, {}, [](const PrefixNode* n) { return n->state.used; });
  std::vector<state::PrefixFolder::Use> out;
  for (PrefixNode* n : used) {
    n->state.use_unsaved = false;
    out.push_back({n->state.disk_name, n->state.used_at});
  }
  return out;
}

/// Applies the result of PrefixFolder::trim(). `asked`: logical time when the job was posted; files
/// added later may be missing from `content`.
void DiskTier::trimmed(const state::PrefixFolder::Content& content, uint64_t asked) {
  bool any = false;
  index_.for_each([&](PrefixNode& n) {
    if (!n.state.on_disk || n.state.disk_since > asked) return;
    if (content.names.contains(n.state.disk_name)) return;
    forget_file(n);
    lost_ += !has_state(n.state);
    any = true;
  });
  if (!any) return;
  remove_orphans();
  index_.erase_unused_leaves();
}

/// Whether the node's pages can be written: a file contains the pages after those of the nearest
/// shorter file.
bool DiskTier::can_write(const PrefixNode& node) const {
  if (!usable() || node.state.pins > 0) return false;
  if (node.state.device != nullptr) return true;
  if (!node.state.usable_memory()) return false;
  const int32_t first_page = node.state.memory->first_page;
  for (const PrefixNode* n = node.parent; n != nullptr && first_page > 0; n = n->parent) {
    if (n->state.on_disk) return index_.end_page(*n) >= first_page;
  }
  return first_page == 0;
}

void DiskTier::write(PrefixNode& node) {
  int32_t first_page = 0;
  std::vector<std::string> names;  // of the file and of the shorter files that it depends on
  const auto name = std::make_shared<const state::PrefixName>(
      state::PrefixName{*node.state.scope, state::PrefixTree::tokens_of(node)});
  names.push_back(name->file_name());
  for (const PrefixNode* n = node.parent; n != nullptr; n = n->parent) {
    if (!n->state.on_disk) continue;
    if (names.size() == 1) first_page = index_.end_page(*n);
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
  background_.post([this, &node, name, names, uses = unsaved_uses(), asked = index_.now(),
                    first_page, device, memory, folder = folder_.get(), layout = folder_.layout()] {
    const state::StateImage image = device != nullptr ? device->image(first_page) : *memory;
    folder->note_uses(uses);  // also if the write fails: their marks are cleared
    const auto bytes = state::write_prefix_file(folder->path(), *name, image, layout);
    Result<state::PrefixFolder::Content> content = state::PrefixFolder::Content();
    if (bytes.ok()) {
      folder->touch(names);  // shortest last: the longer ones depend on it
      content = folder->trim();
    }
    auto result = std::make_shared<const Written>(
        Written{names.front(), image.first_page, bytes, std::move(content), asked});
    // `device` stays alive until here: only the caller's thread may release a checkpoint.
    return [this, &node, device, result] { written(node, *result); };
  });
}

void DiskTier::written(PrefixNode& node, const Written& result) {
  if (!result.bytes.ok()) {
    ++failed_writes_;
    log_(result.bytes.error().message + " The prefix cache continues without it.");
    node.state.unsaved = true;
    no_writes_before_ = std::chrono::steady_clock::now() + kPauseAfterFailure;
  } else {
    if (!result.content.ok() || result.content->names.contains(result.file))
      set_file(node, result.file, result.first_page, *result.bytes);
    if (result.content.ok()) {
      trimmed(*result.content, result.asked);
    } else {
      log_(result.content.error().message + " Its limits are not enforced.");
    }
  }
  --node.state.pins;
  index_.erase_unused(node);
}

void DiskTier::write_if_unsaved(PrefixNode& node) {
  if (node.state.unsaved && can_write(node)) write(node);
}

bool DiskTier::any_unsaved() {
  return index_.oldest([](const PrefixNode& n) {
    return n.state.unsaved && (n.state.device != nullptr || n.state.usable_memory());
  }) != nullptr;
}

bool DiskTier::save_one() {
  if (folder_.opening()) return any_unsaved();
  if (!usable() || std::chrono::steady_clock::now() < no_writes_before_) return false;
  if (background_.outstanding() > 0) return true;
  PrefixNode* next = nullptr;
  // Shorter ones first: files of longer ones omit the pages of shorter ones.
  index_.for_each([&](PrefixNode& n) {
    if (next == nullptr && n.state.unsaved && can_write(n)) next = &n;
  });
  if (next == nullptr) return false;
  write(*next);
  return true;
}

void DiskTier::save_all(std::chrono::steady_clock::time_point deadline) {
  const auto in_time = [&] { return std::chrono::steady_clock::now() < deadline; };
  while (in_time() && save_one()) {
    background_.wait_until(deadline);
    background_.poll();
  }
  if (folder_.opening()) return;  // the job that waits for the hash has nothing to save
  if (auto uses = unsaved_uses(); !uses.empty()) {
    background_.post([folder = folder_.get(), uses = std::move(uses)]() -> Background::Done {
      folder->note_uses(uses);
      return [] {};
    });
  }
  while (background_.outstanding() > 0 && in_time()) {
    background_.wait_until(deadline);
    background_.poll();
  }
}

}  // namespace chimere::engine
