// States of computed prompts, from which prompts with the same prefix continue.
#ifndef CHIMERE_ENGINE_PREFIX_CACHE_H_
#define CHIMERE_ENGINE_PREFIX_CACHE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/background.h"
#include "engine/cache_tier.h"
#include "engine/prefix_cache/device_tier.h"
#include "engine/prefix_cache/disk_tier.h"
#include "engine/prefix_cache/memory_tier.h"
#include "engine/prefix_cache/prefix_index.h"
#include "state/prefix_folder.h"
#include "state/sequence_state.h"
#include "state/state_image.h"
#include "state/state_store.h"
#include "state/weights_hash.h"

namespace chimere::engine {

struct PrefixCacheOptions {
  /// Limit on states in the state store; 0: half of its slots. Requests that need the memory evict
  /// states below this limit.
  int64_t device_states = 0;
  int64_t memory_bytes = 0;         ///< limit of the RAM tier; 0: no RAM tier
  state::PrefixFolderOptions disk;  ///< max_bytes 0: no disk tier
  /// Identifies the weights of states on disk; required for the disk tier. Until the hash is ready
  /// the cache works without the disk tier. If the cache cannot use the folder, or is destroyed
  /// before the hash is ready, it abandons the hash.
  std::shared_ptr<state::WeightsHash> weights;
  /// Called on the caller's thread when a file is skipped, the disk is full or the folder cannot be
  /// written.
  std::function<void(const std::string&)> log;
  /// Called from another thread when poll() has work.
  std::function<void()> wake;
};

struct PrefixCacheStats {
  uint64_t hits[5] = {};      ///< requests, by CacheTier (kNone: misses)
  uint64_t tokens[5] = {};    ///< prompt tokens that were not computed, by CacheTier
  int64_t device_states = 0;  ///< in the state store now
  int64_t memory_bytes = 0;
  int64_t disk_bytes = 0;
  int64_t disk_files = 0;
  uint64_t dropped = 0;         ///< states evicted from the last tier that held them
  uint64_t rejected_files = 0;  ///< damaged files, or files of another model
  uint64_t failed_writes = 0;
};

/// A radix tree per scope refers to states at chunk boundaries of prompts; a state of one scope is
/// never used for another. States live in the state store (sharing pages with the sequences that
/// continue from them) and move to RAM when there are too many or requests need the memory. When
/// the engine is idle, states worth keeping across a restart are written to disk. A request gets
/// the same bits from every tier as from computing its whole prompt. Several processes may share
/// one folder: for a prompt that the known states cover too little, the cache lists the folder
/// for new files of other processes.
///
/// Belongs to the engine's thread; reads, writes and copies run on a background thread.
class PrefixCache {
 public:
  /// Reads the index of the disk tier, or begins to wait for the hash of the weights. If the folder
  /// cannot be used, this is logged and the cache works without a disk tier. The store must outlive
  /// the cache. Errors: kInvalidArgument (a disk tier without the hash of the weights).
  static Result<std::unique_ptr<PrefixCache>> create(state::StateStore& store,
                                                     PrefixCacheOptions options);
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  struct Found {
    bool loading = false;  ///< a disk read is in progress; call again after poll() returned true
    CacheTier tier = CacheTier::kNone;
    std::optional<state::Checkpoint> state;
    std::shared_ptr<const state::Checkpoint> context_rows;  ///< see keep(); nullptr: none
  };
  /// The progress of the look-ups for one prompt; kept by the caller between calls.
  struct Search {
    int loads = 0;         ///< reads of a state that were started
    uint64_t listing = 0;  ///< number of the folder listing to wait for; 0: none requested
  };
  /// The longest state of a proper prefix of `prompt` that ends at one of `chunk_ends` (ascending).
  /// `search` nullptr: do not read from disk. If the known states cover too little of the prompt,
  /// the folder is listed once for files of other processes.
  Found find(const std::string& scope, std::span<const int32_t> prompt,
             std::span<const int64_t> chunk_ends, Search* search);
  /// Whether any tier holds a state for exactly these tokens.
  bool has(const std::string& scope, std::span<const int32_t> tokens);
  /// Counts a hit or miss when a request is admitted.
  void count(CacheTier tier, int64_t tokens);

  /// Stores the state after `tokens`. `points`: positions of this conversation whose states have
  /// priority; other states on its path are dropped first when they exceed the limit.
  /// `context_rows`: what a drafter has of these tokens (Drafter::context_rows()), which find()
  /// returns as long as the state is in any tier; nullptr: nothing. Its store must outlive the
  /// cache.
  void keep(const std::string& scope, std::span<const int32_t> tokens,
            const state::Checkpoint& state, std::span<const int64_t> points,
            std::shared_ptr<const state::Checkpoint> context_rows = nullptr);

  /// Evicts the least recently used state from the state store. False if there is none.
  bool evict();
  /// Releases the least recently used context rows; the state stays. False if there are none.
  bool evict_context_rows();

  /// Runs completions of background work; true if there were any.
  bool poll() { return background_.poll(); }
  /// Whether poll() has work; takes no lock.
  bool ready() const { return background_.ready(); }
  /// Waits for a completion if background work is outstanding.
  void wait() { background_.wait(); }
  bool working() const { return background_.outstanding() > 0; }
  /// Starts a write of one state that is not on disk yet, if no write is running. False if all
  /// states are on disk, or none can be written now.
  bool save_one() { return disk_.save_one(); }
  /// Writes the remaining states until `deadline`.
  void save_all(std::chrono::steady_clock::time_point deadline) { disk_.save_all(deadline); }

  PrefixCacheStats stats() const;

 private:
  PrefixCache(state::StateStore& store, PrefixCacheOptions options);

  bool wants_listing(std::span<PrefixNode* const> path, std::span<const int32_t> prompt,
                     std::span<const int64_t> chunk_ends, Search& search);
  Result<state::Checkpoint> assemble(const PrefixRecipe& recipe,
                                     std::span<const state::StateImage> images);
  Found find_in(std::span<PrefixNode* const> path, std::span<const int64_t> chunk_ends,
                Search* search);
  bool from_memory(PrefixNode& node, const PrefixRecipe& recipe);
  void load(PrefixNode& node, PrefixRecipe recipe);
  void loaded(PrefixNode& node, const PrefixRecipe& recipe,
              const Result<std::vector<state::StateImage>>& images);

  void demote(PrefixNode& node);
  void trim_device();
  void trim_memory();

  state::StateStore& store_;
  PrefixIndex index_;
  DeviceTier device_;
  MemoryTier memory_;
  DiskTier disk_;
  uint64_t hits_[5] = {};
  uint64_t tokens_[5] = {};
  Background background_;  // declared last: its thread ends before the members that jobs refer to
};

}  // namespace chimere::engine

#endif  // CHIMERE_ENGINE_PREFIX_CACHE_H_
