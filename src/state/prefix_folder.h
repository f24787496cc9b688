// The folder of cached states, which several programs may use at once: what is in it, and what is
// too old or too much (docs/prefix-cache.md, "Files").
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
  std::string folder;           ///< <folder>/<fingerprint>/ has the files of a model
  int64_t max_bytes = 0;        ///< of all models and programs together
  int64_t seconds_to_live = 0;  ///< since the last use; 0: for ever
};

struct FoundPrefix {
  PrefixFileInfo info;
  int64_t used_at = 0;  ///< seconds since 1970
};

/// Makes the folder of all models (0700) and writes a file in it to see whether that is possible.
/// Errors: kIo, kOutOfSpace, with the folder and what to do.
Status make_prefix_folder(const std::string& folder);

/// The files of one model. One thread at a time may call find_new(); any thread may call the other
/// functions meanwhile.
class PrefixFolder {
 public:
  /// Makes the folder of the model (0700). Errors: kIo.
  static Result<std::unique_ptr<PrefixFolder>> open(const PrefixFolderOptions& options,
                                                    const ImageLayout& layout);

  /// Where this model's files are.
  const std::string& path() const { return path_; }

  struct New {
    std::vector<FoundPrefix> files;     ///< oldest first
    std::vector<std::string> rejected;  ///< a sentence for each damaged or foreign file
  };
  /// The model's files that no earlier call has found, whichever program wrote them. Damaged and
  /// foreign ones are removed.
  New find_new();

  struct Content {
    std::unordered_set<std::string> names;  ///< of this model's files
    int64_t bytes = 0;                      ///< of all models' files
  };
  /// Removes, from the folders of all models, what a dead program left half written, what is too
  /// old and then, oldest first, what is too much. Returns what is left.
  Content trim() const;

  struct Use {
    std::string name;
    int64_t at = 0;  ///< seconds since 1970
  };
  /// Notes when files were used, where that is later than what the folder knows. `uses`: in their
  /// order; of files used in the same second a later one counts as used later.
  void note_uses(std::span<const Use> uses) const;
  /// Notes that files were used now, in this order.
  void touch(std::span<const std::string> names) const;

 private:
  PrefixFolder(PrefixFolderOptions options, const ImageLayout& layout);

  PrefixFolderOptions options_;
  ImageLayout layout_;
  std::string path_;
  std::unordered_set<std::string> seen_;
};

/// What a purge found and removed.
struct Purged {
  int64_t files = 0;
  int64_t bytes = 0;
};
/// Removes the cached states of all models that were not used for so many seconds (0: all), but for
/// those that a program is writing. A folder that does not exist is empty. Errors: kIo (something
/// cannot be removed).
Result<Purged> purge_prefix_folder(const std::string& folder, int64_t unused_seconds);

int64_t unix_seconds();

}  // namespace chimere::state

#endif  // CHIMERE_STATE_PREFIX_FOLDER_H_
