// States of prompts that were computed before, so that a longer prompt continues from them.
#ifndef CHIMERE_ENGINE_PREFIX_CACHE_H_
#define CHIMERE_ENGINE_PREFIX_CACHE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/background.h"
#include "engine/cache_tier.h"
#include "state/prefix_folder.h"
#include "state/prefix_tree.h"
#include "state/state_store.h"
#include "state/weights_hash.h"

namespace chimere::engine {

struct PrefixCacheOptions {
  /// Most states kept in the state store; 0: a half of those it has room for. Fewer when requests
  /// need the room.
  int64_t device_states = 0;
  int64_t memory_bytes = 0;         ///< 0: nothing moves to memory
  state::PrefixFolderOptions disk;  ///< max_bytes 0: nothing goes to disk
  /// Names the weights on disk; needed where something goes there. Until it is ready the cache
  /// works without disk; it abandons a hash that it does not need.
  std::shared_ptr<state::WeightsHash> weights;
  /// PendingToken of files that were skipped, disks that are full and folders that cannot be
  /// written; on the thread of the caller.
  std::function<void(const std::string&)> log;
  /// Something is there for poll(); called from another thread.
  std::function<void()> wake;
};

struct PrefixCacheStats {
  uint64_t hits[5] = {};      ///< requests, by CacheTier (kNone: misses)
  uint64_t tokens[5] = {};    ///< of their prompts that were not computed
  int64_t device_states = 0;  ///< in the state store now
  int64_t memory_bytes = 0;
  int64_t disk_bytes = 0;
  int64_t disk_files = 0;
  uint64_t dropped = 0;         ///< states pushed out of the last place that had them
  uint64_t rejected_files = 0;  ///< damaged or foreign
  uint64_t failed_writes = 0;
};

/// Belongs to the engine's thread; files and copies are made on threads of its own. Several
/// programs may use one folder: what one wrote is found by the others when a prompt needs it.
///
/// A radix tree for each scope (whoever asks; states of one are never given to another) refers to
/// states at chunk borders of prompts. A state is in the state store (pages shared with the
/// sequences that continue from it), and moves to memory when there are too many or requests need
/// the room. What is worth finding again after a restart is written to disk when the engine is
/// idle. Whatever place it comes from, a request gets the same bits as if its prompt had been
/// computed whole.
class PrefixCache {
 public:
  /// Reads what is on disk, or begins to wait for the hash of the weights. A folder that cannot be
  /// used is told to the log; the cache then works in memory alone. The store must outlive the
  /// cache. Errors: kInvalidArgument (a disk without the hash of the weights).
  static Result<std::unique_ptr<PrefixCache>> create(state::StateStore& store,
                                                     PrefixCacheOptions options);
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  struct Found {
    bool loading = false;  ///< the disk is being asked; call again when poll() was true
    CacheTier tier = CacheTier::kNone;
    std::optional<state::Checkpoint> state;
  };
  /// What the look-ups of one prompt have done so far; kept by the caller between calls.
  struct Search {
    int loads = 0;         ///< reads of a state that began
    uint64_t listing = 0;  ///< the look into the folder that it waits for; 0: none yet
  };
  /// The longest state of a real prefix of `prompt` at one of `chunk_ends` (ascending). `search`
  /// nullptr: not from disk. Where what is known covers too little of the prompt, the folder is
  /// looked into once for files of other programs.
  Found find(const std::string& scope, std::span<const int32_t> prompt,
             std::span<const int64_t> chunk_ends, Search* search);
  /// Whether a state behind exactly these tokens is kept, wherever.
  bool has(const std::string& scope, std::span<const int32_t> tokens);
  /// Counts what a request got in the end.
  void count(CacheTier tier, int64_t tokens);

  /// Keeps the state behind `tokens`. `points`: where this conversation's states are wanted; of the
  /// others on the way there, those too many are dropped.
  void keep(const std::string& scope, std::span<const int32_t> tokens,
            const state::Checkpoint& state, std::span<const int64_t> points);

  /// Requests need room: gives back the state of the store that was not used for the longest time.
  /// False if there is none.
  bool evict();

  /// Runs the results of work in the background; true if there were any.
  bool poll() { return background_.poll(); }
  /// Waits for a result if there is work in the background.
  void wait() { background_.wait(); }
  bool working() const { return background_.outstanding() > 0; }
  /// Starts a write of something that is not on disk yet, if nothing is continuing. False if
  /// everything is, or nothing can be written.
  bool save_one();
  /// Writes what is left until `deadline`.
  void save_all(std::chrono::steady_clock::time_point deadline);

  PrefixCacheStats stats() const { return stats_; }

 private:
  using Node = state::PrefixTree::Node;
  /// Where the pages and the slot of a node can be had.
  struct Recipe {
    struct Source {
      std::shared_ptr<const state::StateImage> memory;  ///< nullptr: the file
      state::PrefixName file;
    };
    std::shared_ptr<const state::Checkpoint> base;  ///< lends the pages before those of the sources
    std::vector<Source> sources;                    ///< shortest first; the last is the node's own
    bool needs_disk = false;
  };
  /// What a job has read.
  struct Read {
    std::vector<state::StateImage> images;
    std::optional<Error> error;
    size_t failed = 0;  ///< the source with the error
  };
  /// An image that is to be made.
  struct Copy {
    Node* node = nullptr;
    std::shared_ptr<const state::Checkpoint> from;
    int32_t first_page = 0;
  };

  PrefixCache(state::StateStore& store, PrefixCacheOptions options);

  /// What the first look into the folder gave.
  struct Opened {
    std::unique_ptr<state::PrefixFolder> folder;
    state::PrefixFolder::New found;
  };
  static Result<Opened> open_folder(const state::PrefixFolderOptions& options,
                                    const state::ImageLayout& layout);
  void open_when_hashed();
  void opened(Result<Opened> result, const state::ImageLayout& layout);
  void add_files(const state::PrefixFolder::New& found);
  uint64_t list_folder();
  bool wants_listing(std::span<Node* const> path, std::span<const int32_t> prompt,
                     std::span<const int64_t> chunk_ends, Search& search);
  void touch(std::span<Node* const> path);
  std::optional<Recipe> recipe_for(Node& node) const;
  std::optional<state::Checkpoint> assemble(const Recipe& recipe,
                                            std::span<const state::StateImage> images);
  Found find_in(std::span<Node* const> path, std::span<const int64_t> chunk_ends, Search* search);
  bool from_memory(Node& node, const Recipe& recipe);
  void load(Node& node, Recipe recipe);
  void loaded(Node& node, const Recipe& recipe, const Read& read);
  void reject_file(const state::PrefixName& name);

  void set_device(Node& node, state::Checkpoint state);
  void drop_device(Node& node);
  void set_memory(Node& node, std::shared_ptr<const state::StateImage> image);
  void set_file(Node& node, std::string name, int32_t first_page, int64_t bytes);
  void forget_file(Node& node);
  void remove_file(Node& node);
  void remove_orphans();
  void erase_unused_leaves();
  void erase_if_unused(Node& node);
  /// The node that passes and was not used for the longest time; nullptr: none.
  Node* oldest(const std::function<bool(Node&)>& passes);

  void thin(std::span<Node* const> path, std::span<const int64_t> points);
  std::vector<Copy> copies_for(Node& node) const;
  void set_copies(std::span<const Copy> copies);
  void demote(Node& node);
  void trim_device();
  void trim_memory();
  std::vector<state::PrefixFolder::Use> unsaved_uses();
  void trimmed(const state::PrefixFolder::Content& content, uint64_t asked);
  bool can_write(const Node& node) const;
  void write(Node& node);
  void log(const std::string& what) const {
    if (options_.log) options_.log(what);
  }

  state::StateStore& store_;
  PrefixCacheOptions options_;
  state::ImageLayout layout_;
  std::shared_ptr<state::PrefixFolder> folder_;  ///< nullptr: no disk
  bool opening_ = false;                         ///< the folder, as soon as the weights are hashed
  std::atomic<uint64_t> listings_asked_ = 0;
  uint64_t listings_done_ = 0;     ///< those asked for up to this one
  uint64_t listings_covered_ = 0;  ///< the same, of the background thread
  std::map<std::string, state::PrefixTree> trees_;
  uint64_t clock_ = 0;
  int64_t demoting_ = 0;  ///< states that leave the store when their copy is made
  std::chrono::steady_clock::time_point no_writes_before_;  ///< after a full disk
  PrefixCacheStats stats_;
  Background background_;  // the last member: ends before what its jobs refer to
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_PREFIX_CACHE_H_
