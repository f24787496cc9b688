// Opens and lists the folder of the prefix cache's files in the background.
#ifndef CHIMERE_ENGINE_PREFIX_CACHE_DISK_FOLDER_H_
#define CHIMERE_ENGINE_PREFIX_CACHE_DISK_FOLDER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "engine/background.h"
#include "state/prefix_file.h"
#include "state/prefix_folder.h"
#include "state/state_store.h"
#include "state/weights_hash.h"

namespace chimere::engine {

struct DiskOptions {
  state::PrefixFolderOptions folder;
  /// Identifies the weights of the states.
  std::shared_ptr<state::WeightsHash> weights;
  std::function<void(const std::string&)> log;  ///< must not be empty
};

/// The folder of one model, from the time when the hash of its weights is ready. Belongs to one
/// thread; work runs in the background.
class DiskFolder {
 public:
  /// `first`: the first listing, which found all files; later ones find new files only.
  using Found = std::function<void(const state::PrefixFolder::New& files, bool first)>;

  /// `found` receives each listing, on the caller's thread. Store and background must outlive the
  /// folder's last call.
  DiskFolder(state::StateStore& store, Background& background, DiskOptions options, Found found);

  /// Opens and lists the folder, now if the hash is ready. If the folder cannot be used, this is
  /// logged and the hash is abandoned.
  void open();
  /// Whether open() waits for the hash.
  bool opening() const { return opening_; }
  /// Ends the wait for the hash; to be called before the background is destroyed.
  void close();

  /// nullptr: not open.
  const std::shared_ptr<state::PrefixFolder>& get() const { return folder_; }
  /// Valid once the folder is open.
  const state::ImageLayout& layout() const { return layout_; }

  /// Lists the open folder for files that other processes have written since the last listing.
  /// Returns the number for listed().
  uint64_t list();
  /// Whether this listing, or one that covers it, is complete.
  bool listed(uint64_t number) const { return listings_done_ >= number; }

 private:
  struct Opened {
    std::unique_ptr<state::PrefixFolder> folder;
    state::PrefixFolder::New found;
  };
  static Result<Opened> open_folder(const state::PrefixFolderOptions& options,
                                    const state::ImageLayout& layout);
  void opened(Result<Opened> result, const state::ImageLayout& layout);

  state::StateStore& store_;
  Background& background_;
  DiskOptions options_;
  Found found_;
  state::ImageLayout layout_;
  std::shared_ptr<state::PrefixFolder> folder_;
  bool opening_ = false;
  std::atomic<uint64_t> listings_asked_ = 0;
  uint64_t listings_done_ = 0;     ///< highest number of a listing that `found_` has received
  uint64_t listings_covered_ = 0;  ///< highest number that has begun; used on the background thread
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_PREFIX_CACHE_DISK_FOLDER_H_
