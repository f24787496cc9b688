// The folder of cached states, which several processes may share: finds new files, and removes
// those beyond the limits of age and size (docs/prefix-cache.md, "Files").
#ifndef CHIMERE_STATE_PREFIX_FOLDER_H_
#define CHIMERE_STATE_PREFIX_FOLDER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "state/prefix_file.h"

namespace chimere::state {

struct PrefixFolderOptions {
  std::string folder;           ///< the files of a model are in <folder>/<fingerprint>/
  int64_t max_bytes = 0;        ///< limit for the files of all models and processes together
  int64_t seconds_to_live = 0;  ///< after the last use; 0: no limit
};

struct FoundPrefix {
  PrefixFileInfo info;
  int64_t used_at = 0;  ///< seconds since 1970
};

/// Creates the folder of all models (0700) and checks, with a trial file, that it is writable.
/// Errors: kIo, kOutOfSpace; the message names the folder and the remedy.
Status make_prefix_folder(const std::string& folder);

/// The files of one model. find_new() must not run on two threads at once; the other functions may
/// be called from any thread, also while it runs.
class PrefixFolder {
 public:
  /// Creates the folder of the model (0700). Errors: kIo.
  static Result<std::unique_ptr<PrefixFolder>> open(const PrefixFolderOptions& options,
                                                    const ImageLayout& layout);

  /// The folder of this model's files.
  const std::string& path() const { return path_; }

  struct New {
    std::vector<FoundPrefix> files;     ///< oldest first
    std::vector<std::string> rejected;  ///< one message per file that was not accepted
    bool complete = true;               ///< false: an error hid files that may be usable
  };
  /// The model's files that no earlier call has returned, from all processes. Removes files that
  /// are damaged or belong to another model; a file that cannot be read stays, and the next call
  /// tries it again.
  New find_new();

  struct Content {
    std::unordered_set<std::string> names;  ///< of this model's files
    int64_t bytes = 0;                      ///< of all models' files
  };
  /// Removes, from the folders of all models, partial files of processes that have ended, then
  /// expired files, then the least recently used files beyond max_bytes. Returns what remains.
  /// Errors: kIo (the files could not be listed; none was removed).
  Result<Content> trim() const;

  struct Use {
    std::string name;
    int64_t at = 0;  ///< seconds since 1970
  };
  /// Sets the modification times of files to these times of use, unless they are later already.
  /// `uses`: oldest first; the order also ranks files that were used in the same second.
  void note_uses(std::span<const Use> uses) const;
  /// Marks files as used now, each one more recently than the one before it.
  void touch(std::span<const std::string> names) const;

 private:
  PrefixFolder(PrefixFolderOptions options, const ImageLayout& layout);

  PrefixFolderOptions options_;
  ImageLayout layout_;
  std::string path_;
  std::unordered_set<std::string> seen_;
  std::unordered_set<std::string> unreadable_;  ///< reported once
};

/// The number and size of the files that a purge removed.
struct Purged {
  int64_t files = 0;
  int64_t bytes = 0;
};
/// Removes the cached states of all models that were not used for `unused_seconds` (0: all), except
/// files that a process is still writing. A missing folder counts as empty. Errors: kIo (a file
/// cannot be removed, or a folder cannot be listed).
Result<Purged> purge_prefix_folder(const std::string& folder, int64_t unused_seconds);

int64_t unix_seconds();

}  // namespace chimere::state

#endif  // CHIMERE_STATE_PREFIX_FOLDER_H_
