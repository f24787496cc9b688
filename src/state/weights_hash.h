// Identifies the weights that a stored state belongs to: a hash over every byte of a model's files
// (docs/state-blob.md, "The hash of the weights").
#ifndef CHIMERE_STATE_WEIGHTS_HASH_H_
#define CHIMERE_STATE_WEIGHTS_HASH_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "base/mapped_file.h"
#include "base/result.h"
#include "state/checksum.h"

namespace chimere::state {

struct WeightsHashOptions {
  /// Stores the hashes of files for later runs; empty: stores none. If the folder cannot be read or
  /// written, the hashes are computed again.
  std::string folder;
  /// Returns nanoseconds since 1970, comparable to file times; empty: the system clock.
  std::function<int64_t()> now_ns;
};

/// Computes the hash on a thread of its own, of low priority. All functions may be called from any
/// thread.
class WeightsHash {
 public:
  /// Starts hashing `files` (all files of one model, in order), which must outlive the hash. Skips
  /// reading a file if the folder has a hash for its device, inode, size, modification time and
  /// ctime.
  static std::shared_ptr<WeightsHash> start(std::span<const MappedFile> files,
                                            WeightsHashOptions options);
  /// A WeightsHash whose result is `hash`; reads nothing.
  static std::shared_ptr<WeightsHash> known(const Hash128& hash);
  ~WeightsHash();  ///< abandon()
  WeightsHash(const WeightsHash&) = delete;
  WeightsHash& operator=(const WeightsHash&) = delete;

  /// Whether get() returns at once.
  bool ready() const;
  /// Waits for the hash. Errors: kIo (a file cannot be read, or changed meanwhile), kCancelled.
  Result<Hash128> get() const;
  /// Stops reading; get() then returns kCancelled unless the hash is complete.
  void abandon();

  /// Number of files whose hash was not in the folder and that were therefore read.
  int64_t files_read() const { return files_read_; }

 private:
  explicit WeightsHash(WeightsHashOptions options);

  int64_t now() const;
  std::string entry_path(const FileIdentity& file) const;
  std::optional<Hash128> find(const FileIdentity& file) const;
  void keep(const FileIdentity& file, const Hash128& hash) const;
  Result<Hash128> read(const MappedFile& file);
  Result<Hash128> read_all(std::span<const MappedFile> files);
  void finish(Result<Hash128> result);

  WeightsHashOptions options_;
  std::atomic<int64_t> files_read_ = 0;
  std::atomic<bool> abandoned_ = false;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::optional<Result<Hash128>> result_;
  std::thread thread_;
};

}  // namespace chimere::state

#endif  // CHIMERE_STATE_WEIGHTS_HASH_H_
