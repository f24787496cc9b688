// A name for the weights of stored states: a hash over every byte of a model's files
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
  /// Keeps the hashes of files for later runs; empty: none are kept. A folder that cannot be read
  /// or written costs the time to compute them again.
  std::string folder;
  /// Nanoseconds since 1970, as the file system's clock counts them; empty: the system's clock.
  std::function<int64_t()> now_ns;
};

/// Computes the hash on a thread of its own, of low priority. All functions may be called from any
/// thread.
class WeightsHash {
 public:
  /// Begins with `files` (those of one model, in their order), which must outlive the hash. A file
  /// whose device, inode, size, modification time and ctime are those of a hash in the folder is
  /// not read.
  static std::shared_ptr<WeightsHash> start(std::span<const MappedFile> files,
                                            WeightsHashOptions options);
  /// A hash that is known already.
  static std::shared_ptr<WeightsHash> known(const Hash128& hash);
  ~WeightsHash();  ///< abandon()
  WeightsHash(const WeightsHash&) = delete;
  WeightsHash& operator=(const WeightsHash&) = delete;

  /// Whether get() returns at once.
  bool ready() const;
  /// Waits for the hash. Errors: kIo (a file cannot be read, or changed meanwhile), kCancelled.
  Result<Hash128> get() const;
  /// Stops reading: get() then returns kCancelled.
  void abandon();

  /// Files that were read because no hash of them was in the folder.
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
