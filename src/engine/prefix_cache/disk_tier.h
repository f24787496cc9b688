// The prefix cache's states in files.
#ifndef CHIMERE_ENGINE_PREFIX_CACHE_DISK_TIER_H_
#define CHIMERE_ENGINE_PREFIX_CACHE_DISK_TIER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/background.h"
#include "engine/prefix_cache/disk_folder.h"
#include "engine/prefix_cache/prefix_index.h"
#include "state/prefix_file.h"
#include "state/prefix_folder.h"
#include "state/state_image.h"
#include "state/state_store.h"

namespace chimere::engine {

/// One file per state, in a folder that other processes may share. The file of a node omits the
/// pages that the file of an ancestor has. Belongs to one thread; reads and writes run in the
/// background.
class DiskTier {
 public:
  /// Index, store and background must outlive the tier's last call.
  DiskTier(PrefixIndex& index, state::StateStore& store, Background& background,
           DiskOptions options);

  /// Opens the folder, which adds its files to the index. Without open() the tier is off.
  void open() { folder_.open(); }
  /// To be called before the background is destroyed.
  void close() { folder_.close(); }
  bool usable() const { return folder_.get() != nullptr; }

  /// Looks for new files of other processes, which then are in the index. Requires usable().
  uint64_t list() { return folder_.list(); }
  bool listed(uint64_t number) const { return folder_.listed(number); }

  using Images = std::vector<state::StateImage>;
  /// Reads the recipe's images in the background and calls `done` with them, in the order of its
  /// sources. After an error it forgets the file and those that depend on it first, and removes
  /// them if they are damaged. Requires usable().
  void read(std::shared_ptr<const PrefixRecipe> recipe, std::function<void(Result<Images>)> done);
  /// The images of a recipe are intact but do not fit together: forgets the node's own file, so
  /// that the state is written again when it has been computed.
  void reject(const PrefixRecipe& recipe, const Error& error);

  /// Marks the node's state, which has just been computed, as unsaved unless a file has it.
  void mark_unsaved(PrefixNode& node);
  /// Writes the node's state in the background if it is unsaved and can be written.
  void write_if_unsaved(PrefixNode& node);
  /// Starts a write of one unsaved state unless background work is outstanding. False if all states
  /// are saved, or none can be written now.
  bool save_one();
  /// Writes unsaved states and times of use until `deadline`.
  void save_all(std::chrono::steady_clock::time_point deadline);

  int64_t bytes() const { return bytes_; }
  int64_t files() const { return files_; }
  /// States of removed files that no other tier held.
  uint64_t lost() const { return lost_; }
  /// Damaged files, or files of another model.
  uint64_t rejected_files() const { return rejected_files_; }
  uint64_t failed_writes() const { return failed_writes_; }

 private:
  /// The result of a write job.
  struct Written;

  void add_files(const state::PrefixFolder::New& found, bool first);
  void set_file(PrefixNode& node, std::string name, int32_t first_page, int64_t bytes);
  void forget_file(PrefixNode& node);
  void remove_file(PrefixNode& node);
  void remove_orphans();
  void reject_file(const state::PrefixName& name, bool remove);
  void unreadable(const state::PrefixName& name, const Error& error);

  bool can_write(const PrefixNode& node) const;
  void write(PrefixNode& node);
  void written(PrefixNode& node, const Written& result);
  void trimmed(const state::PrefixFolder::Content& content, uint64_t asked);
  std::vector<state::PrefixFolder::Use> unsaved_uses();
  bool any_unsaved();

  PrefixIndex& index_;
  state::StateStore& store_;
  Background& background_;
  std::function<void(const std::string&)> log_;
  DiskFolder folder_;
  std::chrono::steady_clock::time_point no_writes_before_;  ///< set after a failure
  int64_t bytes_ = 0;
  int64_t files_ = 0;
  uint64_t lost_ = 0;
  uint64_t rejected_files_ = 0;
  uint64_t failed_writes_ = 0;
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_PREFIX_CACHE_DISK_TIER_H_
